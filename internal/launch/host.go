package launch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/registry"
)

// hostState is how far a host has come. It only grows.
type hostState uint8

const (
	hostAsked   hostState = iota // no answer yet
	hostRefused                  // it has no keeper
	hostReady                    // its keeper waits for the start
	hostStarted                  // the start was queued
	hostGone                     // its keeper has reported that no rank is left
	hostLost                     // its keeper cannot be reached, or cannot be trusted
)

// host is the launcher's view of one host.
type host struct {
	*Host
	index  int
	keeper weft.Address
	state  hostState
	why    string    // why it is lost
	heard  time.Time // the last sign of life
	skew   skew

	ctx   context.Context // of messages to its keeper; ends early if the host is lost
	quit  context.CancelFunc
	hears netip.AddrPort // address of its keeper for notices; not valid: not known
	knows bool           // its keeper knows that the launcher ends

	queue  []message // for its keeper, in order
	gate   *weft.Gate
	sends  bool // its goroutine of send has begun
	silent bool // that goroutine has ended

	taken     bool // the keeper has taken its start
	unstarted bool // it could start no rank
	staged    bool
	entered   bool    // it waits in a barrier
	entries   []entry // of that barrier
}

// done reports whether nothing more is expected of the host.
func (h *host) done() bool {
	return h.state == hostRefused || h.state == hostGone || h.state == hostLost
}

// settled reports whether the host is done, and its keeper knows that.
func (h *host) settled() bool {
	return h.state == hostAsked || h.done() && (!h.sends || h.silent)
}

// unknown tells why the end of a host's ranks is not known, or returns "".
func (h *host) unknown() string {
	switch {
	case h.state == hostLost:
		return h.why
	case h.state == hostReady || h.state == hostStarted:
		return "its keeper did not report the end of the ranks in time"
	}
	return ""
}

// post queues a message for the keeper. The caller holds the lock.
func (h *host) post(m message) {
	if h.keeper != (weft.Address{}) && !h.done() {
		h.queue = append(h.queue, m)
		h.gate.Open()
	}
}

// send sends a host's queue until its keeper has the acknowledgement of its end, or is lost.
// Messages to an idle host show whether the host is silent.
func (a *attempt) send(h *host) {
	defer func() {
		a.lock()
		h.silent = true
		a.unlock()
	}()
	peer := a.p.PeerAt(h.keeper)
	for {
		m, ok := a.next(h)
		if !ok {
			return
		}
		if err := peer.SendDelivered(h.ctx, tag, a.stamped(m).append(nil)); err != nil {
			a.unreached(h, err)
			return
		}
		a.lock()
		h.heard = a.rt.Now()
		if m, start := m.(startMsg); start && !m.more {
			h.taken = true
		}
		_, last := m.(ackMsg)
		a.unlock()
		if last {
			return
		}
	}
}

// next returns the next message for a host, or false if there will be none.
func (a *attempt) next(h *host) (message, bool) {
	for {
		a.mu.Lock()
		lost := h.state == hostLost
		var m message
		if len(h.queue) > 0 && !lost {
			m, h.queue = h.queue[0], h.queue[1:]
		}
		a.mu.Unlock()
		if m != nil || lost {
			return m, m != nil
		}
		err := within(a.ctx, a.rt, PingEvery, h.gate.Wait)
		switch {
		case a.ctx.Err() != nil:
			return nil, false
		case err != nil:
			return pingMsg{}, true
		}
	}
}

// unreached handles a message that did not reach the keeper.
func (a *attempt) unreached(h *host, err error) {
	switch {
	case h.ctx.Err() != nil:
		return
	case errors.Is(err, weft.ErrNICGone) || errors.Is(err, weft.ErrClosed):
		a.cut(err)
		return
	case errors.Is(err, weft.ErrProcessGone) || errors.Is(err, weft.ErrStaleGeneration):
		a.keeperGone(h, a.now())
		return
	}
	a.lose(h, a.causeOf(h, err), a.lossOf(h, err))
}

// causeOf returns a phrase for the error of a send.
func (a *attempt) causeOf(h *host, err error) string {
	if !errors.Is(err, weft.ErrUnreachable) {
		return err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("NIC unreachable for %v", a.rt.Now().Sub(h.heard).Round(100*time.Millisecond))
}

// lastWords is how long the launcher waits for messages of an ended process that are still in its
// inbox.
const lastWords = 100 * time.Millisecond

// keeperGone handles the end of a keeper's process. The messages that it sent before come first.
func (a *attempt) keeperGone(h *host, when moment) {
	_ = a.rt.Sleep(a.ctx, lastWords)
	a.lose(h, "its keeper ended without a report", when)
}

// lossOf returns when a host was lost. For a silent host, that is when it was last heard.
func (a *attempt) lossOf(h *host, err error) moment {
	if !errors.Is(err, weft.ErrUnreachable) {
		return a.now()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return moment{at: a.clock(h.heard)}
}

// lose counts a host as lost since a moment, unless it is done. Its ranks count as failed.
func (a *attempt) lose(h *host, why string, when moment) {
	a.lock()
	defer a.unlock()
	if h.done() || h.state == hostAsked || a.o.Defect == mutate.LaunchLostKept {
		return
	}
	before := h.state
	h.state, h.why, h.queue, h.entries = hostLost, why, nil, nil
	h.gate.Open()
	h.quit()
	a.rt.Go(func() { a.dismiss(h) })
	cause := fmt.Sprintf("host %s: %s", h.Name, why)
	a.tell(Note{Kind: NoteHostLost, Host: h.Name, Text: why})
	if before < hostStarted {
		a.fail(failure{status: StatusFailed, cause: cause, retry: true, when: &when})
		a.end(a.o.grace())
		return
	}
	for _, r := range h.Ranks {
		a.rankOver(Exit{Rank: r, Cause: cause}, false, when)
	}
	a.release()
}

// dismiss asks the keeper of a lost host once more to end its ranks. The keeper gets the message
// if the path to the host works again, or if only the launcher takes the host for lost.
func (a *attempt) dismiss(h *host) {
	_ = within(a.ctx, a.rt, Patience, func(ctx context.Context) error {
		return a.p.PeerAt(h.keeper).SendDelivered(ctx, tag, a.stamped(endMsg{}).append(nil))
	})
}

// distrust gives up a host whose keeper sent a malformed message.
func (a *attempt) distrust(h *host, err error) {
	a.rt.Go(func() { a.kill(h) })
	a.lose(h, fmt.Sprintf("its keeper sent a %v", err), a.now())
}

// watch handles the events about keepers. They come at once when a keeper or its NIC ends.
func (l *launcher) watch() {
	w := l.p.Watch()
	defer w.Close()
	for {
		e, err := w.Next(l.ctx)
		if err != nil {
			if l.ctx.Err() == nil {
				l.attempt().cut(err)
			}
			return
		}
		l.attempt().event(e)
	}
}

// event handles one event. A missed event does no harm: the next message to that host fails.
func (a *attempt) event(e weft.Event) {
	switch e.Kind {
	case weft.EventProcessGone:
		a.mu.Lock()
		h := a.at[e.Addr]
		a.mu.Unlock()
		if h != nil {
			when := a.now()
			a.rt.Go(func() { a.keeperGone(h, when) })
		}
	case weft.EventUnreachable, weft.EventRestarted, weft.EventClosed:
		for _, h := range a.hosts {
			if h.NIC == e.Addr.NIC {
				when := a.now()
				if e.Kind == weft.EventUnreachable {
					when = a.lossOf(h, weft.ErrUnreachable)
				}
				a.lose(h, a.causeOfEvent(h, e.Kind), when)
			}
		}
	}
}

func (a *attempt) causeOfEvent(h *host, k weft.EventKind) string {
	switch k {
	case weft.EventRestarted:
		return "its NIC has restarted"
	case weft.EventClosed:
		return "its NIC was closed"
	}
	return a.causeOf(h, weft.ErrUnreachable)
}

func nicID(id weft.NICID) registry.NICID { return registry.NICID(id) }

// within runs fn with a context that ends after a time.
func within(ctx context.Context, r weft.Runtime, d time.Duration, fn func(context.Context) error) error {
	ctx, cancel := r.WithTimeout(ctx, d)
	defer cancel()
	return fn(ctx)
}
