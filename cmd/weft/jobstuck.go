package main

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

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
		Short: "Tell why a job does not go on: which ranks wait, for whom, and what those do",
		Long: `Tell why a job does not go on. The NICs know in which operation of which group each rank stands, and
for whose message it waits; the kernel knows which ranks are stopped. The program need not cooperate.

That is known of ranks that are attached to a daemon. Of a rank with an embedded NIC, whose NIC stops
with it, only the state of its process is known.

weft run --timeout prints the same before it ends a job.`,
		Example: `  weft job stuck job-1a2b3c4d`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return onJob(c, socket, args[0], answerWithin, func(ctx context.Context, conn *ctl.Conn, parts []ctl.JobInfo, names map[registry.NICID]string) error {
				j := stuck.Job{ID: parts[0].ID, Size: parts[0].Size}
				for _, p := range parts {
					j.Hosts = append(j.Hosts, stuck.Host{Name: names[p.NIC], NIC: p.NIC, Ranks: ranksFrom(p.First, p.Ranks)})
				}
				report, err := stuck.Ask(ctx, conn, j)
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(c.OutOrStdout()).Encode(&report)
				}
				return report.Text(c.OutOrStdout())
			})
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func ranksFrom(first, n int) (ranks []int) {
	for i := range n {
		ranks = append(ranks, first+i)
	}
	return ranks
}

// stuckWithin is how long weft run asks what its ranks do, before it ends them at --timeout.
const stuckWithin = 2 * time.Second

// stuckEvent is the JSON form of what ranks did at --timeout.
type stuckEvent struct {
	Event  string       `json:"event"` // stuck
	Report stuck.Report `json:"report"`
}

// stuck tells what the ranks of a job do that has reached its timeout.
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
		r.later(func() { r.say("what the ranks do is not known: %s", hostErrorText(err)) })
		return
	}
	if r.events != nil {
		r.event(stuckEvent{"stuck", report})
		return
	}
	var text bytes.Buffer
	_ = report.Text(&text) // into memory
	r.later(func() { _, _ = r.errs.Write(text.Bytes()) })
}

func stuckHost(h launch.Host) stuck.Host {
	return stuck.Host{Name: h.Name, NIC: registry.NICID(h.NIC), Ranks: h.Ranks}
}
