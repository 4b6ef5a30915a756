package main

import (
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
	"github.com/weftnet/weft/netmem"
)

// memStatFlags are the flags of `weft mem stat`.
type memStatFlags struct {
	servers []fabric.Name
	at      joinFlags
	watch   time.Duration
	timeout time.Duration
	json    bool
}

func newMemStat() *cobra.Command {
	f := &memStatFlags{}
	c := &cobra.Command{
		Use:   "stat [flags] SERVER…",
		Short: "Show the state and the counters of page servers",
		Long: `Prints the state and the counters of page servers. SERVER is the --name of a page server. With
--watch, the command asks repeatedly, and prints page-outs and page-ins per second. If a server
does not answer, the command prints an error and asks the others.

"spared" is the memory that compression saves. "coding" is how the pages of a volume survive the
loss of a server: by copies, or as data + parity.`,
		Example: `  weft mem stat mem/0 mem/1 --watch 1s`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no server given: expected the name of one or more page servers, such as mem/0")
			}
			for _, a := range args {
				n, err := fabric.ParseName(a)
				if err != nil {
					return usagef("server %q: expected the name of a process, such as mem/0", a)
				}
				f.servers = append(f.servers, n)
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.at.complete(); err != nil {
				return err
			}
			return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	f.at.define(fs)
	durationFlag(fs, &f.watch, "watch", 0, 10*time.Millisecond, time.Hour, "ask repeatedly at this interval (default: "+
		"once)")
	durationFlag(fs, &f.timeout, "timeout", answerWithin, time.Millisecond, time.Hour,
		"wait this long for the answer of a server")
	fs.BoolVar(&f.json, "json", false, "print one JSON object for each server and reading")
	return c
}

// memReading is the answer of a server, with its time.
type memReading struct {
	Time   time.Time   `json:"time"`
	Server fabric.Name `json:"server"`
	netmem.ServerStats
}

// run asks all servers, whether or not one of them fails to answer. It returns the status of the
// last round.
func (f *memStatFlags) run(ctx context.Context, out, errs io.Writer) (err error) {
	p, err := f.at.join(ctx, toolName("weft-mem-stat"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if !f.json {
		fmt.Fprintf(out, "%12s %-12s %10s %10s %10s %10s %10s %8s %12s %12s %10s %10s  %s\n", "time", "server", "lent",
			"used", "in file", "spared", "pages", "clients", "page-outs/s", "page-ins/s", "full", "refused", "coding")
	}
	last := make(map[fabric.Name]memReading)
	for {
		var failed error
		for _, name := range f.servers {
			r, err := f.ask(ctx, p, name)
			if ctx.Err() != nil {
				return failed // interrupted
			}
			if err != nil {
				fmt.Fprintf(errs, "weft: %v\n", err)
				failed = errorsShown()
				continue
			}
			if err := f.print(out, last[name], r); err != nil {
				return err
			}
			last[name] = r
		}
		if f.watch == 0 || p.Runtime().Sleep(ctx, f.watch) != nil {
			return failed
		}
	}
}

func (f *memStatFlags) ask(ctx context.Context, p *fabric.Process, name fabric.Name) (memReading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout,
		fmt.Errorf("no answer of the server within %v", f.timeout))
	defer cancel()
	st, err := netmem.Stat(ctx, p, name)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	return memReading{time.Now(), name, st}, err
}

// print prints a reading. If there is an earlier one, it prints rates since then.
func (f *memStatFlags) print(out io.Writer, last, now memReading) error {
	if f.json {
		return json.NewEncoder(out).Encode(now)
	}
	rate := func(a, b uint64) string {
		if last.Time.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%.0f", float64(b-min(a, b))/now.Time.Sub(last.Time).Seconds())
	}
	_, err := fmt.Fprintf(out, "%12s %-12v %10s %10s %10s %10s %10d %8d %12s %12s %10d %10d  %s\n",
		now.Time.Format("15:04:05.000"), now.Server,
		roundBytes(int64(now.Bytes)+now.SpillBytes), roundBytes(int64(now.UsedBytes)), roundBytes(now.SpillUsed),
		roundBytes(now.PlainBytes-now.KeptBytes), now.Pages, now.Clients, rate(last.PageOuts, now.PageOuts),
		rate(last.PageIns, now.PageIns), now.Full, now.Refused, codings(now.Volumes))
	return err
}

// codings names the ways in which the pages of some volumes survive the loss of a server, each
// way once.
func codings(volumes []netmem.VolumeUse) string {
	var l []string
	for _, v := range volumes {
		if c := v.Code.String(); !slices.Contains(l, c) {
			l = append(l, c)
		}
	}
	if len(l) == 0 {
		return "-"
	}
	return strings.Join(l, ", ")
}

// roundBytes formats a number of bytes with a unit, to one decimal.
func roundBytes(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range byteUnits {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	return fmt.Sprintf("%.1f%s", v, unit)
}
