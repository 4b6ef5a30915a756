package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/stuck"
)

func newJobStuckCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "stuck JOB",
		Short: "Print why a job is stuck: which ranks wait for which",
		Long: `Prints why a job is stuck. The NICs know the operation and the group in which
each rank waits, and the sender of the message that it waits for. The kernel
knows which ranks are stopped. The program need not cooperate.

This works for ranks that are attached to a daemon. An embedded NIC stops with
its rank, so the command knows only the state of that rank's process.

If another launcher has started the job, such as srun or mpiexec, its name is
the application of its processes: the text before the slash in weft ps.

weft run --timeout prints the same before it ends a job.`,
		Example: `  weft job stuck job-1a2b3c4d
  weft job stuck slurm-812.0`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkJob(args[0]); err != nil {
				return err
			}
			return askDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				report, silent, err := stuckReport(ctx, conn, args[0])
				if err != nil {
					return joinErrors(err, noAnswer(c.ErrOrStderr(), silent))
				}
				if asJSON {
					err = json.NewEncoder(c.OutOrStdout()).Encode(&report)
				} else {
					err = printStuck(c.OutOrStdout(), &report)
				}
				return joinErrors(err, noAnswer(c.ErrOrStderr(), silent))
			})
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// stuckReport asks about a job of weft run, or else about the processes of an application that
// another launcher has started. silent are hosts that gave no answer, and may have ranks of the
// job.
func stuckReport(ctx context.Context, conn *ctl.Conn, called string) (report stuck.Report, silent []untold, err error) {
	jobs, names, silent, err := fabricJobs(ctx, conn)
	if err != nil {
		return report, nil, err
	}
	parts, err := findJob(jobs, called)
	if errors.Is(err, errNoJob) && application(called) {
		found, asking := stuck.Ask(ctx, conn, stuck.Job{ID: called})
		if asking == nil && found.Hosts > 0 {
			return found, nil, nil
		}
		return report, silent, joinErrors(fmt.Errorf("%w, and no process has a name like %s/0", err, called), asking)
	}
	if err != nil {
		return report, silent, err
	}
	j := stuck.Job{ID: parts[0].ID, Size: parts[0].Size}
	for _, p := range parts {
		j.Hosts = append(j.Hosts, stuck.Host{Name: names[p.NIC], NIC: p.NIC, Ranks: ranksFrom(p.First, p.Ranks)})
	}
	j.Untold = untoldRanks(&j, silent)
	report, err = stuck.Ask(ctx, conn, j)
	return report, silent, err
}

// untoldRanks returns the hosts that may have the ranks that no host has listed. It returns nil
// if all ranks are listed.
func untoldRanks(j *stuck.Job, silent []untold) []stuck.Silent {
	listed := map[int]bool{}
	for _, h := range j.Hosts {
		for _, n := range h.Ranks {
			listed[n] = true
		}
	}
	ranks := slices.DeleteFunc(ranksFrom(0, j.Size), func(n int) bool { return listed[n] })
	if len(ranks) == 0 || len(silent) == 0 {
		return nil
	}
	s := stuck.Silent{Ranks: ranks, Why: silent[0].why, Refused: true}
	var hosts []string
	for _, u := range silent {
		hosts = append(hosts, u.host)
		s.Refused = s.Refused && u.refused
	}
	s.Node = strings.Join(hosts, " or ")
	return []stuck.Silent{s}
}

// printStuck prints a report so that it is safe for a terminal: other hosts choose some of its
// words.
func printStuck(out io.Writer, report *stuck.Report) error {
	var text strings.Builder
	if err := report.Text(&text); err != nil {
		return err
	}
	_, err := io.WriteString(out, shownSource(text.String()))
	return err
}

// application reports whether text can be the application part of a name.
func application(text string) bool {
	_, err := fabric.ParseName(text + "/0")
	return err == nil
}

func ranksFrom(first, n int) (ranks []int) {
	for i := range n {
		ranks = append(ranks, first+i)
	}
	return ranks
}

// stuckWithin bounds the time for which weft run asks about its ranks before it ends them at
// --timeout.
const stuckWithin = 2 * time.Second

// stuckEvent is the JSON form of a report about the ranks at --timeout.
type stuckEvent struct {
	Event  string       `json:"event"` // stuck
	Report stuck.Report `json:"report"`
}

// stuck reports what the ranks of a job do when the job has reached its timeout.
func (r *running) stuck(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stuckWithin)
	defer cancel()
	r.mu.Lock()
	j := stuck.Job{ID: ctl.JobApplication(r.job, r.restarts), Size: r.o.ranks}
	r.mu.Unlock()
	for _, h := range r.opts.Hosts {
		j.Hosts = append(j.Hosts, stuckHost(h))
	}
	report, err := stuck.Ask(ctx, r.host.conn, j)
	if err != nil {
		r.later(func() { r.say("the state of the ranks is unknown: %s", hostErrorText(err)) })
		return
	}
	if r.events != nil {
		r.event(stuckEvent{"stuck", report})
		return
	}
	var text bytes.Buffer
	_ = printStuck(&text, &report) // into memory
	r.later(func() { _, _ = r.errs.Write(text.Bytes()) })
}

func stuckHost(h launch.Host) stuck.Host {
	return stuck.Host{Name: h.Name, NIC: registry.NICID(h.NIC), Ranks: h.Ranks}
}
