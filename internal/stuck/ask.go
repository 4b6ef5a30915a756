package stuck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// Within is the time within which all hosts of a job must answer. So a host that is down does not
// delay the report.
const Within = 1500 * time.Millisecond

// askers is the number of hosts that are asked concurrently.
const askers = 16

// Job selects the ranks.
type Job struct {
	ID   string // the application of the ranks: "job-1a2b3c4d"
	Size int    // number of ranks in the job; 0: taken from the highest rank that is found
	// Hosts lists the hosts to ask. Empty: the NICs of the ranks and keepers that the asked
	// daemon knows by name.
	Hosts []Host
	// Untold lists hosts that have not said whether they have ranks, each with the ranks that may
	// be there.
	Untold []Silent
	Within time.Duration // for all hosts; 0: Within
}

// Host describes one host of a job.
type Host struct {
	Name  string         // for the report; empty: the id of the NIC
	NIC   registry.NICID // 0: the NIC of the asked daemon
	Ranks []int          // ranks that should be there; may be empty
}

// Ask asks the hosts of a job through the daemon of conn, and finds out why the job makes no
// progress. It needs the role observe or run at the other hosts. It fails if the daemon of conn
// does not answer. Other hosts that do not answer are listed in the report.
func Ask(ctx context.Context, conn *ctl.Conn, job Job) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(job.Within, Within))
	defer cancel()
	if len(job.Hosts) == 0 {
		var err error
		if job.Hosts, err = hostsOf(ctx, conn, job.ID); err != nil {
			return Report{}, err
		}
	}
	f := Facts{Job: job.ID, Size: min(job.Size, limits.JobSize), Hosts: len(job.Hosts) + len(job.Untold),
		Silent: job.Untold}
	for _, a := range askAll(ctx, conn, job) {
		f.add(a)
	}
	return Analyze(f), nil
}

// answer is the answer of one host.
type answer struct {
	host Host
	part ctl.JobInfo
	err  error
}

// askAll asks all hosts, some of them concurrently, and returns their answers in the order of the
// hosts.
func askAll(ctx context.Context, conn *ctl.Conn, job Job) []answer {
	answers := make([]answer, len(job.Hosts))
	next := make(chan int, len(job.Hosts))
	for i, h := range job.Hosts {
		if h.Name == "" {
			h.Name = h.NIC.String()
		}
		answers[i] = answer{host: h}
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range min(askers, len(job.Hosts)) {
		all.Go(func() {
			// Requests on one connection are handled one after the other.
			own, err := conn.Another(ctx)
			if err == nil {
				defer own.Close()
			}
			for i := range next {
				a := &answers[i]
				if a.err = err; err == nil {
					a.part, a.err = own.NIC(uint64(a.host.NIC)).Stuck(ctx, job.ID)
				}
			}
		})
	}
	all.Wait()
	return answers
}

// add adds the answer of a host to the facts.
func (f *Facts) add(a answer) {
	if a.err != nil {
		why := a.err.Error()
		if errors.Is(a.err, context.DeadlineExceeded) {
			why = "no answer in time"
		}
		f.Silent = append(f.Silent,
			Silent{Node: a.host.Name, Ranks: a.host.Ranks, Why: why, Refused: errors.Is(a.err, ctl.ErrRefused)})
		return
	}
	f.Size = max(f.Size, min(a.part.Size, limits.JobSize))
	for i := range a.part.Processes {
		if r := &a.part.Processes[i]; r.Rank >= 0 && r.Rank < limits.JobSize {
			f.Rows = append(f.Rows, Row{RankInfo: *r, Node: a.host.Name})
		}
	}
}

// hostsOf returns the NICs with a rank or a keeper of a job. It finds them by name.
func hostsOf(ctx context.Context, conn *ctl.Conn, job string) (l []Host, err error) {
	own, err := conn.Another(ctx)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	names, err := own.NIC(0).Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("names of the fabric: %w", err)
	}
	nodes, err := own.NIC(0).Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("nodes of the fabric: %w", err)
	}
	found := map[registry.NICID]*Host{}
	for _, n := range names {
		rank, isRank := indexIn(n.Name, job)
		if _, isKeeper := indexIn(n.Name, job+".run"); !isRank && !isKeeper {
			continue
		}
		h := found[n.NIC]
		if h == nil {
			h = &Host{NIC: n.NIC}
			found[n.NIC] = h
		}
		if isRank && rank < limits.JobSize {
			h.Ranks = append(h.Ranks, rank)
		}
	}
	for _, n := range nodes {
		if h := found[n.ID]; h != nil {
			h.Name = n.Name
		}
	}
	for _, h := range found {
		l = append(l, *h)
	}
	slices.SortFunc(l, func(x, y Host) int { return cmp.Compare(x.NIC, y.NIC) })
	return l, nil
}
