package launchtest

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/sim"
)

// set is the fake ranks of one keeper.
type set struct {
	w     *World
	p     *sim.Process
	rt    weft.Runtime
	start launch.Start
	c     launch.Callbacks
	ranks []*Rank
	open  int // ranks whose end was not reported
	over  *weft.Gate
}

// Rank is one fake rank: a function of its keeper's process.
type Rank struct {
	Number, Size int
	App          string
	Restart      int
	KVS          launch.KVS

	IgnoresTerm bool // only KILL ends it
	Unkillable  bool // only the end of its keeper ends it
	Signals     []syscall.Signal

	Drains time.Duration // how long after its death the end is reported

	set     *set
	ctx     context.Context // ends when the rank is killed
	kill    context.CancelFunc
	signal  int // the signal that ended it
	stopped bool
	alive   bool
	reads   bool
	input   []byte
	closed  bool
	fed     *weft.Gate
	resumed *weft.Gate
}

const ever = 100 * 365 * 24 * time.Hour

func newSet(w *World, p *sim.Process, s launch.Start, c launch.Callbacks) *set {
	t := &set{w: w, p: p, rt: p.Runtime(), start: s, c: c, over: p.Runtime().NewGate()}
	for _, n := range s.Ranks {
		r := &Rank{Number: n, Size: s.Size, App: s.App(), Restart: s.Restart, KVS: c.KVS, set: t,
			reads: slices.Contains(s.Stdin, n)}
		r.ctx, r.kill = t.rt.WithTimeout(context.Background(), ever)
		r.fed, r.resumed = t.rt.NewGate(), t.rt.NewGate()
		t.ranks = append(t.ranks, r)
	}
	return t
}

// run starts the ranks one after the other, as forks do.
func (t *set) run() {
	for _, r := range t.ranks {
		r.alive = true
		t.open++
		t.w.step(Event{What: "rank", Host: t.p.Host(), Rank: r.Number})
		t.rt.Go(r.run)
		_ = t.rt.Sleep(context.Background(), 100*time.Microsecond)
	}
}

func (r *Rank) run() {
	defer func() { r.alive = false }()
	if r.reads {
		r.set.c.Want(r.Number)
	}
	e := r.set.w.Program(r)
	e.Rank, e.PID, e.Died = r.Number, 10_000+r.Number, r.set.rt.Now()
	if r.signal != 0 {
		e.Status, e.Signal = 0, r.signal
	}
	r.alive = false
	r.set.w.step(Event{What: "ended", Host: r.set.p.Host(), Rank: r.Number})
	if r.Drains > 0 {
		_ = r.set.rt.Sleep(context.Background(), r.Drains)
	}
	r.set.c.Ended(e)
	r.set.open--
	r.set.over.Open()
}

// Sleep waits, and reports whether the rank lives.
func (r *Rank) Sleep(d time.Duration) bool {
	return r.set.rt.Sleep(r.ctx, d) == nil && r.continues()
}

// continues waits while the rank is stopped.
func (r *Rank) continues() bool {
	for r.stopped && r.ctx.Err() == nil {
		_ = r.resumed.Wait(r.ctx)
	}
	return r.ctx.Err() == nil
}

// Print writes lines, and reports whether the rank lives and its output is open.
func (r *Rank) Print(text string) bool {
	return r.continues() && r.set.c.Output(r.Number, launch.Stdout, []byte(text)) == nil
}

// Read returns the next piece of input. It returns false at the end of the input or of the rank.
func (r *Rank) Read() (string, bool) {
	for len(r.input) == 0 {
		if r.closed || !r.reads || r.fed.Wait(r.ctx) != nil {
			return "", false
		}
	}
	text := string(r.input)
	r.input = nil
	if !r.closed {
		r.set.c.Want(r.Number)
	}
	return text, r.continues()
}

// Context returns a context that ends with the rank.
func (r *Rank) Context() context.Context { return r.ctx }

// dies ends a rank by a signal.
func (r *Rank) dies(sig syscall.Signal) {
	if r.alive && r.ctx.Err() == nil {
		r.signal = int(sig)
		r.kill()
	}
}

func (t *set) find(n int) *Rank {
	if i := slices.IndexFunc(t.ranks, func(r *Rank) bool { return r.Number == n }); i >= 0 {
		return t.ranks[i]
	}
	return nil
}

func (t *set) alive() (n int) {
	for _, r := range t.ranks {
		if r.alive {
			n++
		}
	}
	return n
}

// dies ends all ranks at once.
func (t *set) dies() {
	for _, r := range t.ranks {
		r.dies(syscall.SIGKILL)
		r.alive = false
	}
}

// Feed gives a rank input.
func (t *set) Feed(n int, b []byte) error {
	r := t.find(n)
	switch {
	case r == nil || !r.reads:
		return errors.New("the rank reads no input")
	case len(r.input) > 0 || r.closed:
		t.w.breaks("rank %d got input that it did not want", n)
	}
	r.input = append(r.input, b...)
	r.fed.Open()
	return nil
}

// CloseStdin ends the input of a rank.
func (t *set) CloseStdin(n int) {
	if r := t.find(n); r != nil {
		r.closed = true
		r.fed.Open()
	}
}

// Signal sends a signal to every rank.
func (t *set) Signal(sig syscall.Signal) {
	for _, r := range t.ranks {
		r.Signals = append(r.Signals, sig)
		switch sig {
		case syscall.SIGTSTP, syscall.SIGSTOP:
			r.stop(true)
		case syscall.SIGCONT:
			r.stop(false)
		case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
			if !r.IgnoresTerm && !r.Unkillable {
				r.dies(sig)
			}
		case syscall.SIGKILL:
			r.dies(sig)
		}
	}
}

func (r *Rank) stop(stopped bool) {
	if !r.alive || r.stopped == stopped {
		return
	}
	r.stopped = stopped
	r.resumed.Open()
	r.set.rt.Go(func() { r.set.c.State(r.Number, stopped) })
}

// End ends all ranks.
func (t *set) End(grace time.Duration) []launch.Survivor {
	if grace > 0 {
		t.Signal(syscall.SIGCONT)
		t.Signal(syscall.SIGTERM)
		for until := t.rt.Now().Add(grace); t.alive() > 0 && t.rt.Now().Before(until); {
			_ = t.rt.Sleep(context.Background(), time.Millisecond)
		}
	}
	for _, r := range t.ranks {
		if r.Unkillable {
			_ = t.rt.Sleep(context.Background(), ever)
		}
		r.dies(syscall.SIGKILL)
	}
	return nil
}

// Wait waits until the end of every rank was reported.
func (t *set) Wait() {
	for t.open > 0 {
		_ = t.over.Wait(context.Background())
	}
}

// Inspect lists the ranks.
func (t *set) Inspect() (l []ctl.RankInfo) {
	for _, r := range t.ranks {
		if r.alive {
			l = append(l, ctl.RankInfo{Rank: r.Number, PID: 10_000 + r.Number, State: "running"})
		}
	}
	return l
}
