package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

// control is the process at slot 0 of the NIC (decision 1): a process half inside the daemon,
// through which NICs answer one another's tools.
//
//	tool ── ctl, "nic" ──► daemon ── Call to slot 0 ──► the other NIC's daemon
//	     ◄──────────────── daemon ◄───── Reply ─────── what it would tell its own tool
//
// The messages are those of package ctl, sent as ordinary messages over rel. control answers only
// other control processes, and only requests for which their NICs have roles
// (authority_linux.go).
type control struct {
	d       *Daemon
	p       *proc.Process
	half    *vni.Process // for the waiter's words
	waiters idle.Waiters
	closed  atomic.Bool

	desk     *desk
	waits    chan struct{} // holds a token for each goroutine of apart
	refusals refusals
}

const (
	// controlServers is how many requests are answered concurrently. A peer that does not take
	// its answer holds one server for answerWithin. Such a peer holds at most
	// controlServersPerPeer servers at once.
	controlServers        = 4
	controlServersPerPeer = controlServers / 2

	// askWithin is how long another NIC may take to answer. It is less than the time that tools
	// give the daemon (5 s), so that they hear which NIC was late. It is more than the default
	// unreachable_after.
	askWithin = 4 * time.Second

	// answerWithin is how long another NIC may take to accept an answer.
	answerWithin = 2 * time.Second
)

// newControl makes the process half and registers it with the engine. The loop must be running.
func newControl(ctx context.Context, d *Daemon) (*control, error) {
	g := vni.DefaultGeometry(true)
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(vni.AlignedBytes(rw), vni.AlignedBytes(ro), g)
	if err != nil {
		return nil, err
	}
	seg.EnableDirect()
	c := &control{d: d, half: seg.Process(), desk: newDesk(), waits: make(chan struct{}, limits.ControlApart)}
	c.waiters.Sleeping = c.half.SetSleeping
	at := driver.Entry{VNI: seg, WakeUp: func() { c.waiters.WakeReady() }}
	if _, err := d.driver.New(ctx, 0, os.Getpid(), vni.Name{}, at); err != nil {
		return nil, err
	}
	c.p, err = proc.New(seg, c, noRegions{}, proc.Options{})
	return c, err
}

// noRegions is the memory of a process that needs no regions: the engine reaches everything in
// this address space.
type noRegions struct{}

func (noRegions) Alloc(int, bool) (uint32, uint64, []byte, error) {
	return 0, 0, nil, proc.ErrNoMemory
}
func (noRegions) Register([]byte, *proc.File, bool) (uint32, uint64, error) {
	return 0, 0, proc.ErrNoMemory
}
func (noRegions) Part(uint32, int, int, bool) (uint32, uint64, error) {
	return 0, 0, proc.ErrNoMemory
}
func (noRegions) Free(uint32) error { return nil }

// Wait sleeps until ready returns true. The loop, within its poll, wakes the waiters for which it
// has something. No wait here is as short as microseconds, so Wait neither spins nor yields.
func (c *control) Wait(ctx context.Context, ready func() bool) error {
	err := c.waiters.Wait(ctx, func() bool { return ready() || c.closed.Load() })
	if err == nil && !ready() {
		err = proc.ErrNICGone
	}
	return err
}

// Kick makes the loop look at the queue, unless the loop looks on every poll.
func (c *control) Kick() {
	if !c.half.Listening() {
		c.d.loop.Do(func(clock.Time) { c.d.engine.Ring(0) })
	}
}

// Wake wakes each waiter to look again.
func (c *control) Wake() { c.waiters.WakeReady() }

// close ends every call. The engine is closed already.
func (c *control) close() {
	c.closed.Store(true)
	c.waiters.WakeAll()
	_ = c.p.Close()
}

// serve starts the goroutines that answer requests until the NIC or ctx ends.
func (c *control) serve(ctx context.Context, all *sync.WaitGroup) {
	k := c.desk
	all.Go(func() {
		defer k.close()
		c.receiveAll(ctx, k)
	})
	for range controlServers {
		all.Go(func() {
			for a, ok := k.take(); ok; a, ok = k.take() {
				c.serveOne(ctx, &a, all)
				k.done(a.m.NIC)
			}
		})
	}
}

// receiveAll receives requests and puts them on the desk.
func (c *control) receiveAll(ctx context.Context, k *desk) {
	buf := make([]byte, ctl.MaxRequest)
	for {
		m, err := c.p.Recv(ctx, proc.Dest{}, proc.AnyTag, buf)
		switch {
		case errors.Is(err, proc.ErrTruncated):
			err = fmt.Errorf("%w: request of %d bytes; at most %d", ctl.ErrBadRequest, m.Full, ctl.MaxRequest)
		case err != nil:
			return // the NIC is closed
		case m.Slot != 0:
			err = fmt.Errorf("%w: control processes are asked by NICs, not by processes", ctl.ErrRefused)
		}
		if m.IsCall() && !k.put(asked{m: m, body: bytes.Clone(buf[:m.Len]), bad: err, came: time.Now()}) {
			c.d.countControl((*nic.Engine).ControlDropped)
		}
	}
}

// serveOne answers a request, unless its asker has given up. The part that waits for a keeper
// gets its own goroutine.
func (c *control) serveOne(ctx context.Context, a *asked, all *sync.WaitGroup) {
	if time.Since(a.came) >= askWithin {
		c.d.countControl((*nic.Engine).ControlDropped)
		return
	}
	reply, rest := c.answer(ctx, a.m.NIC, a.body, a.bad)
	if rest == nil {
		c.reply(ctx, &a.m, reply)
		return
	}
	m := a.m
	c.apart(all, func() {
		reply, err := rest()
		if err != nil {
			reply = ctl.ErrorReply(err)
		}
		c.reply(ctx, &m, reply)
	})
}

// apart calls a function in its own goroutine. If limits.ControlApart such goroutines run
// already, the caller itself calls the function, and serves no other request of its NIC
// meanwhile.
func (c *control) apart(all *sync.WaitGroup, do func()) {
	select {
	case c.waits <- struct{}{}:
		all.Go(func() {
			defer func() { <-c.waits }()
			do()
		})
	default:
		do()
	}
}

// answer returns the reply to one request of a NIC, or the part of the work that waits. If wrong
// is not nil, the reply is that error.
func (c *control) answer(ctx context.Context, from uint64, request []byte, wrong error) (*ctl.Reply, waiting) {
	reply, rest, op, err := c.answerTo(ctx, from, request, wrong)
	if err == nil {
		return reply, rest
	}
	if errors.Is(err, ctl.ErrRefused) {
		c.refuse(from, op, err)
	}
	return ctl.ErrorReply(err), nil
}

// refuse counts a request for which a NIC lacks a role. It logs such a request at a bounded rate.
func (c *control) refuse(from uint64, op string, err error) {
	c.d.countControl((*nic.Engine).ControlRefused)
	c.refusals.tell(c.d.log, from, op, err)
}

func (c *control) answerTo(ctx context.Context, from uint64, request []byte, wrong error) (reply *ctl.Reply,
	rest waiting, op string, err error) {
	if wrong != nil {
		return nil, nil, "", wrong
	}
	r, err := ctl.DecodeRequest(request)
	switch {
	case err != nil:
		return nil, nil, "", err
	case r.NIC != 0:
		return nil, nil, r.Op, fmt.Errorf("%w: control processes pass no requests on", ctl.ErrBadRequest)
	}
	a, err := c.d.remoteAsker(from, r)
	switch {
	case err == nil && r.Op == ctl.OpJob:
		reply, rest, err = c.d.jobAnswer(ctx, a, r)
	case err == nil:
		reply, err = c.d.inform(ctx, a, r)
	}
	return reply, rest, r.Op, err
}

// refusals remembers which refusals were logged lately, so that no NIC can fill the log.
type refusals struct {
	mu   sync.Mutex
	told map[refusedOp]time.Time
}

type refusedOp struct {
	nic uint64
	op  string
}

// tell logs a refusal, at most once in repeatRefusalAfter for each NIC and kind of request.
func (f *refusals) tell(log *slog.Logger, nic uint64, op string, why error) {
	if f.due(nic, op) {
		log.Warn("a request of another NIC is refused", "nic", registry.NICID(nic), "what", op, "error", why)
	}
}

// due reports whether a refusal may be logged now, and if so notes the time.
func (f *refusals) due(nic uint64, op string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k, now := refusedOp{nic, op}, time.Now()
	if at, ok := f.told[k]; ok && now.Sub(at) < repeatRefusalAfter {
		return false
	}
	if len(f.told) >= limits.Peers || f.told == nil {
		f.told = make(map[refusedOp]time.Time)
	}
	f.told[k] = now
	return true
}

func (c *control) reply(ctx context.Context, m *proc.Message, r *ctl.Reply) {
	b, err := r.Encode()
	if err != nil {
		b, err = ctl.ErrorReply(err).Encode()
	}
	if err != nil {
		c.d.log.Error("control reply", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if err := c.p.Reply(ctx, m, b); err != nil {
		c.d.log.Debug("control reply not taken", "nic", registry.NICID(m.NIC), "error", err)
	}
}

// ask sends a request to the control process of the NIC that the request names, and returns the
// answer.
func (c *control) ask(ctx context.Context, r *ctl.Request) (*ctl.Reply, error) {
	who := registry.NICID(r.NIC)
	if !c.knows(r.NIC) {
		return nil, fmt.Errorf("%w: NIC %v is not known to NIC %v", ctl.ErrNoNIC, who, c.d.id)
	}
	there := *r
	there.NIC, there.Link = 0, "" // the peers know only the NIC, not the link of its daemon
	request, err := there.Encode()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	buf := make([]byte, ctl.MaxMessage)
	m, err := c.p.Call(ctx, proc.Dest{NIC: r.NIC, Slot: 0, Gen: nic.ControlGeneration}, 0, buf, request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: NIC %v, within %v", ctl.ErrNoAnswer, who, askWithin)
	case errors.Is(err, proc.ErrUnreachable):
		return nil, fmt.Errorf("%w: NIC %v is unreachable", ctl.ErrNoAnswer, who)
	case errors.Is(err, proc.ErrProcessGone), errors.Is(err, proc.ErrStaleGeneration):
		return nil, fmt.Errorf("%w: NIC %v has no control process; it is inside a program, not a daemon",
			ctl.ErrNoAnswer, who)
	case errors.Is(err, proc.ErrNICGone), errors.Is(err, proc.ErrClosed), errors.Is(err, context.Canceled):
		return nil, ctl.ErrNICGone
	case err != nil:
		return nil, fmt.Errorf("%w: NIC %v: %w", ctl.ErrNoAnswer, who, err)
	}
	reply, err := ctl.DecodeReply(buf[:m.Len])
	if err != nil {
		return nil, fmt.Errorf("NIC %v answers: %w", who, err)
	}
	return reply, nil
}

func (c *control) knows(id uint64) bool {
	for _, n := range c.d.known() {
		if n.ID == id {
			return true
		}
	}
	return false
}
