package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/soak"
	"github.com/weftnet/weft/internal/vni"
)

func init() { register(newSoakCommand) }

// soakFlags are the flags of `weft soak`.
type soakFlags struct {
	name, peer fabric.Name
	terms      soak.Terms
	at         joinFlags
	timeout    time.Duration
	json       bool
}

func newSoakCommand() *cobra.Command {
	f := &soakFlags{}
	c := &cobra.Command{
		Use:   "soak --name NAME --peer NAME",
		Short: "Exchange many messages with a peer and check every byte",
		Long: `Exchanges messages of random sizes with a peer that runs the same command, the same number each
way. Checks that each message arrives once, in order and intact. Prints the amounts that arrived
and were retransmitted. If a promise was broken, the command prints the reason, and the exit
status is 1.

The command attaches to the NIC daemon of this host, or runs an embedded NIC with --listen. Both
sides need the same --messages, --longest and --seed.`,
		Example: `  weft soak --name soak/0 --peer soak/1      # on one host
  weft soak --name soak/1 --peer soak/0      # on another

  weft soak --name soak/0 --peer soak/1 --listen 127.0.0.1:7720 &
  weft soak --name soak/1 --peer soak/0 --listen 127.0.0.1:0 --node 127.0.0.1:7720`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c.Flags()); err != nil {
				return err
			}
			return f.run(c.Context(), c.OutOrStdout())
		},
	}
	f.define(c.Flags())
	return c
}

func (f *soakFlags) define(fs *pflag.FlagSet) {
	nameFlag(fs, &f.name, "name", "set the name of this process, such as soak/0")
	nameFlag(fs, &f.peer, "peer", "set the name of the peer, such as soak/1")
	intFlag(fs, &f.terms.Messages, "messages", 5000, 1, 1<<30, "exchange N messages each way")
	intFlag(fs, &f.terms.Longest, "longest", 256<<10, 0, 64<<20,
		"limit the length of messages to N bytes; most are short")
	seedFlag(fs, &f.terms.Seed, "seed", 1, "draw sizes and bytes from seed N")
	f.at.define(fs)
	durationFlag(fs, &f.timeout, "timeout", 10*time.Minute, time.Millisecond, 1000*time.Hour, "give up after this time")
	fs.BoolVar(&f.json, "json", false, "print one JSON object")
}

// nameFlag defines a flag that takes the name of a process.
func nameFlag(fs *pflag.FlagSet, p *fabric.Name, name, usage string) {
	fs.Var(&checkedFlag{
		kind: "NAME",
		want: "the name of a process, such as soak/0",
		set: func(s string) bool {
			n, err := fabric.ParseName(s)
			*p = n
			return err == nil && n != fabric.AnyProcess
		},
	}, name, usage)
}

// complete checks the combinations of flags.
func (f *soakFlags) complete(fs *pflag.FlagSet) error {
	for _, name := range []string{"name", "peer"} {
		if !fs.Changed(name) {
			return usagef("no --%s given: expected the name of a process, such as soak/0", name)
		}
	}
	if f.name == f.peer {
		return usagef("--name and --peer are both %v: expected two different names", f.name)
	}
	return f.at.complete()
}

func (f *soakFlags) run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not done after %v", f.timeout))
	defer cancel()
	p, count, err := f.join(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	before, err := count(ctx)
	if err != nil {
		return err
	}
	var progress soak.Progress
	told := func() {}
	if !f.json {
		fmt.Fprintf(out, "%v and %v: %d messages each way, up to %d bytes long, from seed %d\n",
			f.name, f.peer, f.terms.Messages, f.terms.Longest, f.terms.Seed)
		told = f.tell(out, &progress)
	}
	r, err := soak.Run(ctx, p, f.peer, f.terms, &progress)
	told() // before other output
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != cause {
			err = fmt.Errorf("%w (%w; %d messages sent, %d received)",
				err, cause, progress.Sent.Load(), progress.Received.Load())
		}
		return err
	}
	after, err := count(ctx)
	if err != nil {
		return err
	}
	r.Segments, r.Resent = after.first-before.first, after.again-before.again
	return f.print(out, r)
}

func (f *soakFlags) print(out io.Writer, r *soak.Report) error {
	if f.json {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprintf(out, "%d messages each way arrived once, in order and intact\n"+
		"received %.1f MB in %.2f s: %.1f MB/s; sent %.1f MB in %d segments, %d of them retransmitted (%.2f %%)\n",
		r.Messages, float64(r.BytesReceived)/1e6, r.Seconds, r.Goodput/1e6,
		float64(r.BytesSent)/1e6, r.Segments, r.Resent, 100*float64(r.Resent)/float64(max(r.Segments, 1)))
	return err
}

// tell prints the progress of the exchange at intervals until the caller calls stop.
func (f *soakFlags) tell(out io.Writer, p *soak.Progress) (stop func()) {
	ticks := time.NewTicker(2 * time.Second)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticks.C:
				fmt.Fprintf(out, "sent %d, received %d of %d\n", p.Sent.Load(), p.Received.Load(), f.terms.Messages)
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(done)
		<-ended
	}
}

// segments are counts of a NIC.
type segments struct{ first, again uint64 }

// join makes the process, and a function that reads the counters of its NIC.
func (f *soakFlags) join(ctx context.Context) (*fabric.Process, func(context.Context) (segments, error), error) {
	p, err := f.at.join(ctx, f.name)
	if err != nil || f.at.listen == "" {
		return p, f.countOfDaemon, err
	}
	return p, func(context.Context) (segments, error) {
		c := p.NIC().Counters()
		return segmentsIn(func(n vni.Counter) uint64 { return c[n.String()] }), nil
	}, nil
}

func (f *soakFlags) countOfDaemon(ctx context.Context) (s segments, err error) {
	conn, err := ctl.Dial(ctx, f.at.socket)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	_, page, unmap, err := conn.Stat(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, unmap()) }()
	counters, err := vni.OpenCounterPage(page)
	if err != nil {
		return s, err
	}
	return segmentsIn(counters.Load), nil
}

func segmentsIn(load func(vni.Counter) uint64) segments {
	return segments{
		first: load(vni.RelSends),
		again: load(vni.RelResendsTimeout) + load(vni.RelResendsFast) + load(vni.RelResendsTail),
	}
}
