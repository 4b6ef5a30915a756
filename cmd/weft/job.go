package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

func init() { register(newJobCommand) }

func newJobCommand() *cobra.Command {
	c := newGroup("job", "List, show and end the jobs that weft run has started",
		newJobListCommand(), newJobShowCommand(), newJobKillCommand(), newJobStuckCommand())
	fitHelp(c, screenColumns)
	c.Long = c.Short + `.

The commands find jobs through the NIC daemon of this host, on every NIC that
the daemon knows. An id may be shortened if only one job begins like that, so
job-1a2b3c4d, 1a2b3c4d and 1a are the same.

Only weft run itself knows a job that it started without a daemon.`
	return c
}

// untold is a host that has not listed its jobs.
type untold struct {
	host    string
	why     string
	refused bool // it has answered with a refusal
}

// fabricJobs asks every NIC that this host's daemon knows for its jobs, concurrently. It also
// returns the hosts that have not listed theirs.
func fabricJobs(
	ctx context.Context, conn *ctl.Conn,
) (jobs []ctl.JobInfo, names map[registry.NICID]string, silent []untold, err error) {
	nodes, err := conn.Nodes(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	own, err := conn.NIC(0).Job(ctx, &ctl.Job{What: ctl.JobSlots})
	if err != nil {
		return nil, nil, nil, err
	}
	names = map[registry.NICID]string{own.NIC: own.Name}
	nics := []registry.NICID{0}
	for _, n := range nodes {
		if n.ID != 0 && n.State == "up" {
			nics = append(nics, n.ID)
			names[n.ID] = n.Name
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, nic := range nics {
		wg.Go(func() {
			all, err := jobsOf(ctx, conn, nic)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, untold{cmp.Or(names[nic], placeText(nic)), hostErrorText(err),
					errors.Is(err, ctl.ErrRefused)})
			}
			jobs = append(jobs, all...)
		})
	}
	wg.Wait()
	slices.SortFunc(silent, func(a, b untold) int { return strings.Compare(a.host, b.host) })
	slices.SortFunc(jobs, func(a, b ctl.JobInfo) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Host, b.Host))
	})
	return jobs, names, silent, nil
}

// jobsOf lists the jobs of one NIC over its own connection.
func jobsOf(ctx context.Context, conn *ctl.Conn, nic registry.NICID) ([]ctl.JobInfo, error) {
	own, err := conn.Another(ctx)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	all, err := own.NIC(uint64(nic)).Jobs(ctx)
	for i := range all {
		if !possible(&all[i]) {
			return nil, fmt.Errorf("it reports ranks that no job has: %d from rank %d on, of %d",
				all[i].Ranks, all[i].First, all[i].Size)
		}
	}
	return all, err
}

// possible reports whether a host may have this part of a job. The host may be hostile.
func possible(j *ctl.JobInfo) bool {
	return j.Size >= 1 && j.Size <= limits.JobSize && j.Ranks >= 1 && j.Ranks <= limits.RanksPerHost && j.First >= 0 &&
		j.First <= j.Size-j.Ranks
}

// shownJob returns a job with texts that are safe for a terminal. Users choose the paths of
// their programs, and hosts choose what they report.
func shownJob(j ctl.JobInfo) ctl.JobInfo {
	for _, text := range []*string{&j.ID, &j.User, &j.Machine, &j.Program, &j.State} {
		*text = shownLine(*text)
	}
	j.Processes = slices.Clone(j.Processes)
	for i := range j.Processes {
		r := &j.Processes[i]
		r.State, r.Cause = shownLine(r.State), shownLine(r.Cause)
	}
	return j
}

// shownLine is shownSource for a text in one column of a line.
func shownLine(text string) string {
	return strings.NewReplacer("\n", "\uFFFD", "\t", "\uFFFD").Replace(shownSource(text))
}

// noAnswer prints the hosts that have not listed their jobs. It returns an error if there are
// any, because the list is not complete.
func noAnswer(errs io.Writer, silent []untold) error {
	var counts []string
	refused := 0
	for _, s := range silent {
		if s.refused {
			refused++
			fmt.Fprintf(errs, "the NIC %s refuses: %s\n", shownLine(s.host), shownLine(s.why))
		} else {
			fmt.Fprintf(errs, "no answer from the NIC %s: %s\n", shownLine(s.host), shownLine(s.why))
		}
	}
	if n := len(silent) - refused; n > 0 {
		counts = append(counts, counted(n, "NIC")+" did not answer")
	}
	if refused > 0 {
		counts = append(counts, counted(refused, "NIC")+" refused to answer")
	}
	if len(counts) == 0 {
		return nil
	}
	return fmt.Errorf("%s; their parts of jobs are not listed", strings.Join(counts, ", "))
}

func newJobListCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the jobs of the fabric, one line for each host of a job",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return askDaemon(c, socket, func(ctx context.Context, conn *ctl.Conn) error {
				jobs, names, silent, err := fabricJobs(ctx, conn)
				if err != nil {
					return err
				}
				if asJSON {
					err = printLines(c.OutOrStdout(), jobs)
				} else {
					err = printJobs(c.OutOrStdout(), jobs, names)
				}
				return joinErrors(err, noAnswer(c.ErrOrStderr(), silent))
			})
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, and nothing for an empty list")
	return c
}

func printJobs(out io.Writer, jobs []ctl.JobInfo, names map[registry.NICID]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tUSER\tMACHINE\tNODE\tRANKS\tSIZE\tSTATE\tSTARTED\tPROGRAM")
	for _, j := range jobs {
		j = shownJob(j)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			j.ID, j.User, cmp.Or(j.Machine, "-"), cmp.Or(names[j.NIC], nicText(j.NIC)), ranksText(&j), j.Size,
			j.State, time.Unix(0, j.Started).Format(time.DateTime), j.Program)
	}
	return w.Flush()
}

// ranksText formats the range of ranks that a host has.
func ranksText(j *ctl.JobInfo) string {
	if j.Ranks == 1 {
		return fmt.Sprint(j.First)
	}
	return fmt.Sprintf("%d-%d", j.First, j.First+j.Ranks-1)
}

// errNoJob is the error for an id that no job has.
var errNoJob = errors.New("no such job")

// findJob returns the parts of the one job whose id begins with called.
func findJob(jobs []ctl.JobInfo, called string) ([]ctl.JobInfo, error) {
	if err := checkJob(called); err != nil {
		return nil, err
	}
	begin := "job-" + strings.TrimPrefix(called, "job-")
	var ids []string
	var parts []ctl.JobInfo
	for _, j := range jobs {
		if j.ID == begin || strings.HasPrefix(j.ID, begin) {
			parts = append(parts, j)
			ids = append(ids, j.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if slices.Contains(ids, begin) { // a whole id, even if others begin with it
		ids = []string{begin}
		parts = slices.DeleteFunc(parts, func(j ctl.JobInfo) bool { return j.ID != begin })
	}
	switch len(ids) {
	case 0:
		return nil, fmt.Errorf("%w: no job of the fabric is called %q; weft job list lists them", errNoJob, called)
	case 1:
		return parts, nil
	}
	return nil, usagef("job %q: %s begin like that; expected a longer part of the id",
		called, strings.Join(ids, " and "))
}

// checkJob refuses an id that names no job. An empty id, or the prefix alone, would begin all
// ids.
func checkJob(called string) error {
	digits, prefixed := strings.CutPrefix(called, "job-")
	switch {
	case called == "":
		return usagef("the id of the job is empty: expected one that weft job list prints, or at least its first " +
			"hexadecimal digit")
	case prefixed && digits == "":
		return usagef("job %q: expected at least one hexadecimal digit after job-", called)
	}
	return nil
}

// onJob asks for the jobs of the fabric, and calls f with the parts of the job that called
// names.
func onJob(
	c *cobra.Command, socket, called string, within time.Duration,
	f func(ctx context.Context, conn *ctl.Conn, parts []ctl.JobInfo, names map[registry.NICID]string) error,
) error {
	if err := checkJob(called); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), within)
	defer cancel()
	conn, err := ctl.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	jobs, names, silent, err := fabricJobs(ctx, conn)
	if err != nil {
		return err
	}
	parts, err := findJob(jobs, called)
	if err == nil {
		err = f(ctx, conn, parts, names)
	}
	return joinErrors(err, noAnswer(c.ErrOrStderr(), silent))
}

func newJobShowCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "show JOB",
		Short: "Show the processes of a job",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return onJob(c, socket, args[0], answerWithin, func(ctx context.Context, conn *ctl.Conn,
				parts []ctl.JobInfo, names map[registry.NICID]string) error {
				parts, err := wholeParts(ctx, conn, parts)
				if err != nil {
					return err
				}
				if asJSON {
					return printLines(c.OutOrStdout(), parts)
				}
				return showJob(c.OutOrStdout(), parts, names)
			})
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each host of the job, one a line")
	return c
}

// wholeParts asks each host of a job for its processes. It leaves out a part that has ended
// meanwhile.
func wholeParts(ctx context.Context, conn *ctl.Conn, parts []ctl.JobInfo) (whole []ctl.JobInfo, err error) {
	answers := make([]*ctl.JobInfo, len(parts))
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { answers[i], errs[i] = wholePart(ctx, conn, &p) })
	}
	wg.Wait()
	for _, j := range answers {
		if j != nil {
			whole = append(whole, *j)
		}
	}
	if len(whole) == 0 {
		return nil, cmp.Or(errors.Join(errs...), fmt.Errorf("%w: %s has ended", errNoJob, parts[0].ID))
	}
	return whole, nil
}

// wholePart asks one host over its own connection. The processes may take several replies.
func wholePart(ctx context.Context, conn *ctl.Conn, p *ctl.JobInfo) (*ctl.JobInfo, error) {
	own, err := conn.Another(ctx)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	return own.NIC(uint64(p.NIC)).JobOf(ctx, p.ID)
}

func showJob(out io.Writer, parts []ctl.JobInfo, names map[registry.NICID]string) error {
	j := shownJob(parts[0])
	fmt.Fprintf(out, "%s of user %s: %s of %s", j.ID, j.User, counted(j.Size, "rank"), j.Program)
	if j.Machine != "" {
		fmt.Fprintf(out, " on machine %s", j.Machine)
	}
	fmt.Fprintf(out, ", started %s\n\n", time.Unix(0, j.Started).Format(time.DateTime))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RANK\tNODE\tPID\tSTATE\tATTACHED")
	for _, p := range parts {
		p = shownJob(p)
		for _, r := range p.Processes {
			attached := "no"
			if r.Attached {
				attached = "yes"
			}
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\n",
				r.Rank, cmp.Or(names[p.NIC], nicText(p.NIC)), r.PID, stateText(&r), attached)
		}
		if len(p.Processes) == 0 {
			fmt.Fprintf(w, "%s\t%s\t-\t%s\t-\n", ranksText(&p), cmp.Or(names[p.NIC], nicText(p.NIC)), p.State)
		}
	}
	return w.Flush()
}

// stateText formats the state of a rank. For an ended rank it adds how the rank ended.
func stateText(r *ctl.RankInfo) string {
	if r.Cause == "" {
		return r.State
	}
	return r.State + ": " + r.Cause
}

func newJobKillCommand() *cobra.Command {
	var socket string
	var grace time.Duration
	c := &cobra.Command{
		Use:   "kill JOB",
		Short: "End a job on all its hosts",
		Long: `Ends a job on all its hosts. Each process gets SIGTERM, and after --grace
SIGKILL. Processes that ranks have started end, too. The exit status of the
job's weft run is not 0.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return onJob(c, socket, args[0], answerWithin+grace, func(ctx context.Context, conn *ctl.Conn,
				parts []ctl.JobInfo, names map[registry.NICID]string) error {
				return killJob(ctx, c.OutOrStdout(), conn, parts, names, grace)
			})
		},
	}
	socketFlag(c, &socket)
	durationFlag(c.Flags(), &grace, "grace", limits.JobGrace, 0, limits.MostJobGrace,
		"wait this long between SIGTERM and SIGKILL")
	return c
}

// killJob ends all parts of a job concurrently. The end of one part ends the others, so a host
// may have no part left when it is asked.
func killJob(
	ctx context.Context, out io.Writer, conn *ctl.Conn, parts []ctl.JobInfo, names map[registry.NICID]string,
	grace time.Duration,
) error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			_, err := askNIC(ctx, conn, p.NIC, &ctl.Job{What: ctl.JobKill, ID: p.ID,
				Grace: int64(max(grace, time.Nanosecond))})
			if err != nil && !errors.Is(err, ctl.ErrNoJob) {
				errs[i] = fmt.Errorf("%s: %s", cmp.Or(names[p.NIC], nicText(p.NIC)), hostErrorText(err))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s ends on %s\n", parts[0].ID, counted(len(parts), "host"))
	return nil
}
