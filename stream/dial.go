package stream

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// config is what dialled and accepted streams have in common.
type config struct {
	keepAlive time.Duration
}

// DefaultKeepAlive is after what time the peer of a stream that has told nothing but bytes is asked how far it is, and for how long its answer is
// awaited.
const DefaultKeepAlive = 15 * time.Second

func newConfig(keepAlive time.Duration) config {
	if keepAlive == 0 {
		keepAlive = DefaultKeepAlive
	}
	return config{keepAlive}
}

// Dialer dials from a process.
type Dialer struct {
	// Process is the one whose streams they are.
	Process *weft.Process

	// Timeout bounds a dial; zero: its context alone does.
	Timeout time.Duration

	// KeepAlive takes the place of DefaultKeepAlive; negative: peers are not asked unless the NIC tells that they have ended, and what a lost session of the NICs takes along of the room or
	// the end that a peer tells of is missed for good.
	KeepAlive time.Duration
}

// Dial opens a stream from p to a service of another process, as in "app/0:http".
func Dial(ctx context.Context, p *weft.Process, address string) (*Conn, error) {
	return (&Dialer{Process: p}).Dial(ctx, address)
}

// DialContext is Dial as [net/http.Transport] and others want it. The network's name is not looked at.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	c, err := d.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dial opens a stream. A service that nothing listens to refuses with ECONNREFUSED, and so does the NIC of a process that uses no streams.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	remote, err := parseTarget(address)
	if err == nil && d.Process == nil {
		err = argument(errors.New("stream: the Dialer has no Process"))
	}
	if err != nil {
		return nil, netError("dial", nil, nil, err)
	}
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = d.Process.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	c, err := d.dial(ctx, remote)
	if err != nil {
		return nil, netError("dial", nil, remote, err)
	}
	return c, nil
}

// askEvery is after what time an open is repeated: it is lost if the session of the NICs ends.
const askEvery = 500 * time.Millisecond

func (d *Dialer) dial(ctx context.Context, remote Addr) (*Conn, error) {
	h, err := hostOf(d.Process)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		return nil, h.err
	}
	c := h.newConn(Addr{Process: d.Process.Name()}, remote, newConfig(d.KeepAlive))
	h.mu.Unlock()
	if err := c.ask(ctx); err != nil {
		c.fail(err, true)
		return nil, err
	}
	return c, nil
}

// ask sends the open until it is answered.
func (c *Conn) ask(ctx context.Context) error {
	var first [headBytes]byte
	for lost := error(nil); ; {
		err := c.h.port.SendDelivered(ctx, c.remote.Process, tagOf(kindOpen, 0), head(&first, c.number, readBuffer), []byte(c.remote.Service))
		switch {
		case errors.Is(err, weft.ErrNoReceiver):
			return because(syscall.ECONNREFUSED, refusedNoListener)
		case errors.Is(err, weft.ErrClosed), errors.Is(err, weft.ErrNICGone):
			return failure(err)
		case errors.Is(err, weft.ErrUnreachable) && lost == nil: // a session that has ended, perhaps, and another begins
			lost = err
		case lost != nil && (errors.Is(err, weft.ErrUnreachable) || errors.Is(err, weft.ErrNameUnknown)) && ctx.Err() == nil: // its name goes with a NIC that is lost
			return because(syscall.EHOSTUNREACH, lost)
		case err != nil && ctx.Err() == nil:
			return because(syscall.ECONNREFUSED, err)
		}
		within, cancel := c.h.p.WithTimeout(ctx, askEvery)
		c.h.pump.await(1)
		_ = c.readable.Wait(within)
		c.h.pump.await(-1)
		cancel()
		c.mu.Lock()
		state, err := c.state, c.err
		c.mu.Unlock()
		switch {
		case state == stateFailed:
			return err
		case state != stateDialling:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}
