package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/version"
)

// runVersion returns the version that all hosts of a job must have.
func runVersion() string { return version.Release }

// running is one job of weft run.
type running struct {
	c      *cobra.Command
	o      *runOptions
	host   *runHost
	p      *fabric.Process
	job    string
	opts   launch.Options
	placed string // see jobEvent
	screen *console
	events *jsonEvents // nil without --json
	relay  *relay
	staged *stagedProgram // nil without --stage
	errs   io.Writer

	mu       sync.Mutex
	lostOut  error // standard output could not be written
	restarts int
}

// runJob runs weft run. A signal does not end its context: the ranks decide what a signal means.
func runJob(c *cobra.Command, o *runOptions) error {
	collectLater()
	outlivesReaders()
	r := &running{c: c, o: o, job: newJobName(), errs: wholeWriter{c.ErrOrStderr()}}
	if o.json {
		r.events = newJSONEvents(wholeWriter{unprinted(c.OutOrStdout())})
	}
	err := r.run(context.WithoutCancel(c.Context()))
	if r.broken() {
		return &exitError{status: 128 + int(syscall.SIGPIPE)}
	}
	return err
}

// run finds the program and this host's NIC, and runs the job.
func (r *running) run(ctx context.Context) error {
	if err := r.o.completeDir(); err != nil {
		return r.failed(err)
	}
	program, err := findProgram(r.o.argv[0])
	if err != nil {
		return r.refused(err)
	}
	hash := new(hashing)
	if !r.o.stage {
		hash = hashFile(program)
	}
	if r.host, err = openHost(ctx, r.o, r.job, r.errs); err != nil {
		return r.failed(err)
	}
	err = r.attached(ctx, program, hash)
	if closing := r.host.close(); err == nil && closing != nil {
		err = r.failed(closing)
	}
	return err
}

// attached attaches the launcher, places the ranks and runs the job.
func (r *running) attached(ctx context.Context, program string, hash *hashing) (err error) {
	r.p, err = fabric.Attach(ctx, fabric.AttachConfig{Socket: r.host.socket(r.o), Link: r.o.link,
		Name: launch.LauncherName(r.job)})
	if err != nil {
		return r.failed(err)
	}
	defer r.p.Close()
	placing, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	m, places, err := r.host.places(placing, r.o, r.p.Address().NIC)
	if no := (refusedError{}); errors.As(err, &no) {
		return r.refused(err)
	} else if err != nil {
		return r.failed(err)
	}
	if err := r.o.fill(len(places)); err != nil {
		return err
	}
	hosts, how, err := placeRanks(places, r.o.ranks, r.o.perNode, r.o.oversubscribe)
	if r.placed = how; err != nil {
		return r.refused(err)
	}
	text, err := hash.wait()
	if err != nil {
		return r.refused(fmt.Errorf("program %s: %w", program, err))
	}
	r.opts = r.o.launchOptions(r.job, program, text, m, hosts)
	r.opts.AtTimeout = r.stuck
	// a keeper of this host has the same daemon
	if len(hosts) > 1 || hosts[0].NIC != r.p.Address().NIC {
		r.opts.Notices = listenForNotices(placing, r.host.conn)
	}
	if r.o.stage {
		staged, err := stageProgram(program, r.job, len(hosts))
		if err != nil {
			return r.refused(err)
		}
		defer staged.close()
		r.staged, r.opts.Stage = staged, staged.option()
	}
	return r.launch(ctx)
}

// fill sets the options that depend on the number of hosts.
func (o *runOptions) fill(hosts int) error {
	if o.ranks == 0 {
		o.ranks = o.perNode * hosts
	}
	if rank, err := strconv.Atoi(o.stdin); err == nil && rank >= o.ranks {
		return usagef("--stdin %d: expected a rank from 0 to %d", rank, o.ranks-1)
	}
	return nil
}

// launch runs the job on its hosts, and reports how it ended.
func (r *running) launch(ctx context.Context) error {
	sink, err := r.sink()
	if err != nil {
		return r.failed(err)
	}
	control := launch.NewControl(r.p.Runtime())
	r.relay = newRelay(control, r.o.ranks)
	r.screen = &console{sink: sink, in: newRunInput(r.c.InOrStdin()), note: r.noted,
		lost: func(err error) { r.lost(control, err) }, events: &eventQueue{}}
	if r.events != nil {
		r.events.placed = &jobEvent{Event: "placed", Job: r.job, Machine: r.opts.Machine, Size: r.o.ranks,
			Placement: r.placed, Hosts: hostEvents(r.opts.Hosts)}
	}
	done := r.relay.start()
	defer done()
	result, err := launch.Run(ctx, r.p, r.host, r.opts, r.screen, control)
	if err := r.screen.close(); err != nil {
		r.lost(control, err)
	}
	if err != nil {
		return r.failed(err)
	}
	return r.report(result)
}

// sink returns the destination of output that the flags choose.
func (r *running) sink() (sink, error) {
	out, errs := wholeWriter{unprinted(r.c.OutOrStdout())}, wholeWriter{r.c.ErrOrStderr()}
	switch {
	case r.events != nil:
		return &jsonSink{r.events}, nil
	case r.o.output != "":
		return newFileSink(r.o.output, r.o.ranks)
	case r.opts.Unbuffered && !r.o.tag:
		return &rawSink{out, errs}, nil
	}
	s := &lineSink{out: newLineTarget(out, isScreen(out.w), r.o.tag)}
	s.err = s.out
	if !oneFile(out.w, errs.w) {
		s.err = newLineTarget(errs, isScreen(errs.w), r.o.tag)
	}
	return s, nil
}

// lost ends the job because its output cannot be written. If the reader has gone, it ends the
// job as SIGPIPE would.
func (r *running) lost(control jobControl, err error) {
	r.mu.Lock()
	first := r.lostOut == nil
	r.lostOut = joinErrors(r.lostOut, err)
	r.mu.Unlock()
	if !first {
		return
	}
	status := launch.StatusFailed
	if errors.Is(err, syscall.EPIPE) {
		status = 128 + int(syscall.SIGPIPE)
	}
	control.End(status, "the output cannot be written: "+err.Error())
}

// broken reports whether the reader of the output has gone.
func (r *running) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Is(r.lostOut, syscall.EPIPE)
}

// noted prints what a user wants to know at once, and passes ends on to --json.
func (r *running) noted(n launch.Note) {
	r.relay.noted(n)
	switch n.Kind {
	case launch.NoteStarted:
		r.begun()
	case launch.NoteHostLost:
		r.later(func() { r.say("host %s is lost: %s", n.Host, n.Text) })
		r.event(hostEvent{Event: "host-lost", Node: n.Host, Text: n.Text})
	case launch.NoteRestart:
		r.mu.Lock()
		r.restarts++
		r.mu.Unlock()
		r.later(func() { r.say("%s", n.Text) })
		r.event(hostEvent{Event: "restart", Text: n.Text})
	case launch.NoteRank:
		if n.Exit != nil && n.Exit.Failed() && r.opts.OnDeath.Policy == launch.Shrink {
			r.later(func() { r.say("%s; the others go on", n.Text) })
		}
		if n.Exit != nil {
			r.event(rankEvent{Event: "ended", rankRow: rowOf(&launch.RankEnd{Exit: *n.Exit, Node: n.Host,
				Known: n.Known})})
		}
	}
}

// later calls f after the events that have come: writing may wait, but a note must not.
func (r *running) later(f func()) { r.screen.events.add(f) }

// begun prints where the ranks are when they start.
func (r *running) begun() {
	if r.events == nil {
		return
	}
	r.later(func() {
		if err := r.events.begin(); err != nil {
			r.screen.fail(err)
		}
	})
}

// event writes an object if --json asks for it.
func (r *running) event(v any) {
	if r.events == nil {
		return
	}
	r.later(func() {
		if err := r.events.print(v); err != nil {
			r.screen.fail(err)
		}
	})
}

// say prints a sentence on standard error. Parts of it may come from other hosts.
func (r *running) say(format string, args ...any) {
	fmt.Fprintf(r.errs, "weft run: %s\n", shownSource(fmt.Sprintf(format, args...)))
}
