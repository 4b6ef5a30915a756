package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/newcomers"
)

// seat is the state of a client at its proxy:
//
//	accepted ──► newcomer ──► admitted ──► carried
//	   │            ▲  └──► it gave way, or sent nothing in time
//	   │            └──────── it is refused, and reads the reason
//	   └──► admitted: Dial asks nothing
//
// Newcomers and admitted clients have separate limits, so idle newcomers cannot prevent the
// admission of a client.
type seat struct {
	p        *Proxy
	way      *Way
	newcomer *newcomers.Newcomer // nil: Dial asks nothing
	turn     *turn               // nil: Dial asks, or the client is refused
	refusal  error               // why a client is refused whose Dial asks nothing
	admitted bool
}

var (
	errGaveWay = errors.New("the client had not finished its request, and gave way to another")
	errFull    = errors.New("the proxy has as many connections as --connections allows; try again later")
)

// enter makes the seat of an accepted client.
func (p *Proxy) enter(c net.Conn, w *Way) *seat {
	a := &seat{p: p, way: w}
	if w.Asks {
		a.wait(c)
	} else if a.refusal = a.admit(); a.refusal == nil {
		a.turn = p.order.take(w, c.RemoteAddr())
	}
	return a
}

// wait adds the client to the newcomers.
func (a *seat) wait(c net.Conn) {
	a.newcomer = a.p.newcomers.Enter(newcomers.SourceOf(c.RemoteAddr()), func() { reset(c) })
}

// admit moves a client from the newcomers to the connections. Later calls have no effect.
func (a *seat) admit() error {
	if a.admitted {
		return nil
	}
	if !a.p.admitted.take() {
		return fmt.Errorf("%w (%d)", errFull, a.p.admitted.most)
	}
	if a.newcomer != nil && !a.newcomer.Leave() {
		a.p.admitted.give()
		return errGaveWay
	}
	a.admitted = true
	return nil
}

// awaitTurn waits until the dial for the client may begin.
func (a *seat) awaitTurn(ctx context.Context) error {
	if a.turn == nil {
		return a.refusal
	}
	return a.turn.wait(ctx, cmp.Or(a.p.OrderWithin, limits.ProxyDial))
}

// gaveWay reports whether the client gave way to others.
func (a *seat) gaveWay() bool { return a.newcomer != nil && a.newcomer.GaveWay() }

// dismiss moves a refused client back to the newcomers while it reads the reason. So clients that
// guess passwords occupy no connection.
func (a *seat) dismiss(c net.Conn) {
	if a.admitted {
		a.p.admitted.give()
		a.admitted = false
		a.wait(c)
	}
}

// leave releases the seat.
func (a *seat) leave() {
	if a.newcomer != nil {
		a.newcomer.Leave()
	}
	if a.admitted {
		a.p.admitted.give()
	}
}

// seatKey is the context key of a client's seat. A Dial that asks uses it.
type seatKey struct{}

// admit admits the client whose Dial has this context. Without a Proxy there is no limit.
func admit(ctx context.Context) error {
	if a, ok := ctx.Value(seatKey{}).(*seat); ok {
		return a.admit()
	}
	return nil
}

// room counts the users of a limited resource.
type room struct {
	most int
	mu   sync.Mutex
	used int
}

func (r *room) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used >= r.most {
		return false
	}
	r.used++
	return true
}

func (r *room) give() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used--
}
