package stream

import (
	"cmp"
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// config holds the settings that dialled and accepted streams share.
type config struct {
	keepAlive time.Duration
	patience  time.Duration // 0 or less: none
}

// DefaultKeepAlive is the default of the KeepAlive of a [Dialer] and of a [ListenConfig]. If the
// peer sends no report for this time, the stream asks the peer for a report. If the stream then
// receives no message for the same time, and the peer's NIC does not vouch for the peer, the stream
// fails with ETIMEDOUT.
const DefaultKeepAlive = 15 * time.Second

// DefaultPatience is the default of the Patience of a [Dialer] and of a [ListenConfig]. For this
// time, a stream waits for a silent peer while the peer's NIC says that the peer's process lives.
// A process is silent although it lives if a signal, a debugger or a container runtime has stopped
// it.
const DefaultPatience = 24 * time.Hour

func newConfig(keepAlive, patience time.Duration) config {
	return config{cmp.Or(keepAlive, DefaultKeepAlive), cmp.Or(patience, DefaultPatience)}
}

// Dialer opens streams from a process. Any number of goroutines may use it at once.
type Dialer struct {
	// Process is the process that dials. It must be set.
	Process *weft.Process

	// Timeout limits the duration of a dial. If it is 0, only the context limits the dial.
	Timeout time.Duration

	// KeepAlive is the time after which a stream asks a silent peer for a report. 0 means
	// DefaultKeepAlive. If KeepAlive is negative, the stream never asks for a report. In this case,
	// the end of the peer makes the stream fail only if the NIC reports this end. If the peer's
	// last report is lost, the stream waits forever.
	KeepAlive time.Duration

	// Requested, if it is not nil, is called when the NIC has the request of a Dial, or when the
	// Dial ends without one. If another Dial of the process to the same service starts after this
	// call, the listener accepts its stream later, provided that neither Dial is repeated because
	// the NICs lost each other. Requested may be called more than once.
	Requested func()

	// Patience is the longest time for which a stream waits for a silent peer whose NIC says that
	// the peer's process lives. It starts with the last message of the peer. 0 means
	// DefaultPatience. If Patience is negative, the stream does not ask the NIC, and fails like a
	// stream to a silent host. A NIC that lies can make the stream wait no longer than Patience and
	// twice KeepAlive.
	Patience time.Duration
}

// Dial opens a stream from p to a service of another process, such as "app/0:http". It works like
// [Dialer.Dial] without a timeout.
func Dial(ctx context.Context, p *weft.Process, address string) (*Conn, error) {
	return (&Dialer{Process: p}).Dial(ctx, address)
}

// DialContext opens a stream like [Dialer.Dial]. It has the signature of [net.Dialer.DialContext],
// for [net/http.Transport] and other users of that signature. DialContext ignores its second
// argument, the network.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	c, err := d.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dial opens a stream to an address. The address is PROCESS:SERVICE, such as "app/0:http", or
// HOST:PORT with a host that [ParseHost] reads, such as "http.0.app.weft:80". Dial returns when the
// stream is in the backlog of the service.
//
// An error is a [*net.OpError]. It wraps one of these errors:
//
//   - ECONNREFUSED if nothing listens to the service, its backlog is full, or no NIC knows the
//     process.
//   - EHOSTUNREACH if the NIC of the process is silent for longer than Config.UnreachableAfter.
//   - [net.ErrClosed] if d.Process is closed or has lost its NIC.
//   - [context.DeadlineExceeded] if Timeout has passed.
//   - [weft.ErrBadArgument] if the address is malformed.
//
// If the process that offers the service may start later, call [weft.Process.WaitName] before Dial.
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
		ctx, cancel = d.Process.Runtime().WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	c, err := d.dial(ctx, remote)
	if err != nil {
		return nil, netError("dial", nil, remote, err)
	}
	return c, nil
}

// askEvery is the time after which a dial repeats its open message. The message may be lost when a
// session of the NICs ends.
const askEvery = 500 * time.Millisecond

// dial registers a stream and waits until the peer has answered.
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
	c := h.newConn(Addr{Process: d.Process.Name()}, remote, newConfig(d.KeepAlive, d.Patience))
	h.mu.Unlock()
	if err := c.ask(ctx, d.requested); err != nil {
		c.fail(err, true)
		return nil, err
	}
	return c, nil
}

// requested calls Requested, if it is set.
func (d *Dialer) requested() {
	if d.Requested != nil {
		d.Requested()
	}
}

// sendOpen sends the open message and returns when the peer's NIC has it. It calls requested when
// this process's NIC has the message.
func (c *Conn) sendOpen(ctx context.Context, requested func()) error {
	defer requested()
	if err := ctx.Err(); err != nil {
		return err
	}
	head, service := head(new([headBytes]byte), c.number, readBuffer), []byte(c.remote.Service)
	peer, o := c.h.port.Peer(c.remote.Process), new(weft.Op)
	err := peer.StartSendDelivered(o, tagOf(kindOpen, 0), head, service)
	if errors.Is(err, weft.ErrQueueFull) { // then the send waits until others have ended
		return peer.SendDelivered(ctx, tagOf(kindOpen, 0), head, service)
	}
	if err != nil {
		return err
	}
	requested()
	if _, err = o.Wait(ctx); err != nil && !o.Ended() {
		o.Cancel()
		_, err = o.Wait(c.h.ctx)
	}
	return err
}

// ask sends the open message until the peer answers.
func (c *Conn) ask(ctx context.Context, requested func()) error {
	for lost := error(nil); ; {
		err := c.sendOpen(ctx, requested)
		switch {
		case errors.Is(err, weft.ErrNoReceiver):
			return because(syscall.ECONNREFUSED, refusedNoListener)
		case errors.Is(err, weft.ErrClosed), errors.Is(err, weft.ErrNICGone):
			return failure(err)
		// Perhaps the session ended, and the next session begins.
		case errors.Is(err, weft.ErrUnreachable) && lost == nil:
			lost = err
		case lost != nil && (errors.Is(err, weft.ErrUnreachable) || errors.Is(err, weft.ErrNameUnknown)) &&
			ctx.Err() == nil:
			// The NIC forgot the names of the lost NIC.
			return because(syscall.EHOSTUNREACH, lost)
		case err != nil && ctx.Err() == nil:
			return because(syscall.ECONNREFUSED, err)
		}
		within, cancel := c.h.p.Runtime().WithTimeout(ctx, askEvery)
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
