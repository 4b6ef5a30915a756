package proxy

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/newcomers"
)

// A client that opens two connections, one after the other, expects the server to accept them in
// this order, as over TCP. So the dials of one way for one source begin in the order of the
// accepts:
//
//	accept ──► turn ──► the dial before is over, or lets this one begin ──► dial
//	             └────► or OrderWithin has passed ────────────────────────────┘
//
// Dials of other sources and other ways do not wait. A Dial that asks its client has no turn,
// because requests of clients may complete in another order.

// turn is the place of one dial in the order.
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
	name   string // for a source without an IP address
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

// wait waits until the dial may begin. It waits for the end of the dial before, for at most the
// time within, measured from the accept. When this time is over, the dial before has waited at
// least as long, so it still begins first.
func (t *turn) wait(ctx context.Context, within time.Duration) error {
	defer func() {
		t.before = nil // otherwise each turn would keep all turns before it
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

// pass lets the next dial begin. Later calls have no effect.
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

// Began tells the Proxy of a Dial that no later dial can overtake this one any more. The Proxy is
// found by the Dial's context. The next dial of the same source may then begin before this Dial
// returns.
func Began(ctx context.Context) {
	if a, ok := ctx.Value(seatKey{}).(*seat); ok && a.turn != nil {
		a.turn.pass()
	}
}
