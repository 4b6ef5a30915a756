package proxy

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/newcomers"
)

// A client that opens two connections, one after the other, expects that the server accepts them in
// this order, as over TCP. So the dials of one way for one source begin in the order of the accepts:
//
//	accept ──► turn ──► the dial before is over, or has passed on its place ──► dial
//	             └────► or OrderWithin has passed ───────────────────────────────┘
//
// Dials of other sources and other ways do not wait. A Dial that asks its client has no turn, since
// the client's requests are complete in an order of their own.

// turn is the place of one dial.
type turn struct {
	of     *turns
	key    turnKey
	since  time.Time
	before *turn // nil: the dial is the first, or has begun

	begun, over chan struct{}
	once        sync.Once // closes over
}

// turnKey identifies the dials that keep their order.
type turnKey struct {
	way    *Way
	source newcomers.Source
	name   string // of a source without an IP address
}

// turns holds the last turn of each key.
type turns struct {
	mu   sync.Mutex
	last map[turnKey]*turn
}

// take returns the next turn for connections from an address.
func (o *turns) take(w *Way, from net.Addr) *turn {
	t := &turn{of: o, key: keyOf(w, from), since: time.Now(), begun: make(chan struct{}), over: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[turnKey]*turn{}
	}
	t.before, o.last[t.key] = o.last[t.key], t
	return t
}

// keyOf returns the key of connections from an address. A stream has the address PROCESS:NUMBER, so
// all streams of a process have one key.
func keyOf(w *Way, from net.Addr) turnKey {
	k := turnKey{way: w, source: newcomers.SourceOf(from)}
	if k.source == (newcomers.Source{}) {
		k.name = from.String()
		if i := strings.LastIndexByte(k.name, ':'); i >= 0 {
			k.name = k.name[:i]
		}
	}
	return k
}

// wait waits until the dial may begin. It waits at most within, measured from the accept, for the
// end of the dial before. That dial has then waited as long itself, so it begins first in any case.
func (t *turn) wait(ctx context.Context, within time.Duration) error {
	defer func() {
		t.before = nil // else each turn would keep all those before it
		close(t.begun)
	}()
	if t.before == nil {
		return nil
	}
	late := time.NewTimer(time.Until(t.since.Add(within)))
	defer late.Stop()
	select {
	case <-t.before.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
	}
	select {
	case <-t.before.begun:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pass lets the next dial begin. Later calls do nothing.
func (t *turn) pass() {
	t.once.Do(func() {
		close(t.over)
		t.of.mu.Lock()
		defer t.of.mu.Unlock()
		if t.of.last[t.key] == t {
			delete(t.of.last, t.key)
		}
	})
}

// Began tells the Proxy of a Dial, by the Dial's context, that no later dial can overtake this one
// any more. The next dial of the same source may then begin before this one returns.
func Began(ctx context.Context) {
	if a, ok := ctx.Value(seatKey{}).(*seat); ok && a.turn != nil {
		a.turn.pass()
	}
}
