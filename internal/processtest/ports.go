package processtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
)

var ports = []Case{
	{"each port sees its own messages in their order", sendOnPorts, receiveOnPorts},
	{"a receive of any tag leaves the messages of other ports alone", sendPast, receivePast},
	{"calls, inboxes and datagrams stay on their port", askOnPort, answerOnPort},
	{"a port that cannot be had is refused", refusePorts, refusePorts},
}

// end is the tag of the last message of a case. Both processes send one, and neither ends before
// the other is ready.
const end weft.Tag = 1000

// finish waits until the other process has also finished.
func finish(ctx context.Context, p *weft.Process, other weft.Name) error {
	if err := p.Peer(other).SendDelivered(ctx, end); err != nil {
		return err
	}
	_, err := p.Recv(ctx, other, end, nil)
	return err
}

// sender holds the methods that a Process and a Port have in common.
type sender interface {
	Send(ctx context.Context, to weft.Name, tag weft.Tag, parts ...[]byte) error
	Peer(to weft.Name) weft.Peer
	Multicast(ctx context.Context, to []weft.Name, tag weft.Tag, parts ...[]byte) error
	Recv(ctx context.Context, from weft.Name, tag weft.Tag, buf []byte) (weft.Message, error)
}

// threePorts returns a process and two of its ports.
func threePorts(p *weft.Process) ([]sender, error) {
	seven, err := p.Port(7)
	if err != nil {
		return nil, err
	}
	last, err := p.Port(65535)
	return []sender{p, seven, last}, err
}

const (
	// Messages on each port. On all three together there are more than a linear search handles.
	eachMany = 200
	longOnes = 3
	longSize = 100_000
)

// sizeOf returns the length of message i.
func sizeOf(i int) int { return [...]int{0, 8, 100, 900}[i%4] }

// begun is the tag of the message by which a process says that it has begun to receive on the
// last port. Before that, messages that must be delivered there are refused, because it is a
// library's port.
const begun weft.Tag = 999

// begin begins to receive on the last port, and tells the other process.
func begin(ctx context.Context, p *weft.Process, last *weft.Port, other weft.Name) error {
	var op weft.Op
	if err := last.StartRecv(&op, other, begun, nil); err != nil {
		return err
	}
	op.Cancel()
	if _, err := op.Wait(ctx); !errors.Is(err, weft.ErrCancelled) {
		return fmt.Errorf("a receive that was withdrawn: %w; expected %w", err, weft.ErrCancelled)
	}
	return p.Send(ctx, other, begun)
}

// sendOnPorts sends messages on three ports in turn, in every way.
func sendOnPorts(ctx context.Context, p *weft.Process, other weft.Name) error {
	all, err := threePorts(p)
	if err == nil {
		_, err = p.Recv(ctx, other, begun, nil)
	}
	if err != nil {
		return err
	}
	var long []*weft.Op
	for i := range longOnes {
		for k, o := range all {
			op := new(weft.Op)
			if err := o.Peer(other).StartSend(op, 500, fill(i+k, longSize)); err != nil {
				return err
			}
			long = append(long, op)
		}
	}
	for i := range eachMany {
		for k, o := range all {
			b, tag := fill(i+k, sizeOf(i)), weft.Tag(i%3)
			switch i % 4 {
			case 0:
				err = o.Send(ctx, other, tag, b)
			case 1:
				_, err = o.Peer(other).SendMany(ctx, tag, [][]byte{b})
			case 2:
				err = o.Peer(other).SendDelivered(ctx, tag, b[:len(b)/2], b[len(b)/2:])
			default:
				err = o.Multicast(ctx, []weft.Name{other}, tag, b)
			}
			if err != nil {
				return fmt.Errorf("message %d of port %d: %w", i, k, err)
			}
		}
	}
	for _, op := range long {
		if _, err := op.Wait(ctx); err != nil {
			return err
		}
	}
	return finish(ctx, p, other)
}

// receiveOnPorts receives these messages port by port, the last port first, after all but the
// long ones have arrived.
func receiveOnPorts(ctx context.Context, p *weft.Process, other weft.Name) error {
	all, err := threePorts(p)
	if err == nil {
		err = begin(ctx, p, all[2].(*weft.Port), other)
	}
	if err != nil {
		return err
	}
	buf := make([]byte, longSize)
	for k := len(all) - 1; k >= 0; k-- {
		for i := range longOnes + eachMany {
			tag, which, size := weft.Tag(500), i+k, longSize
			if i >= longOnes {
				i -= longOnes
				tag, which, size = weft.Tag(i%3), i+k, sizeOf(i)
			}
			from := weft.AnyProcess
			if i%2 == 0 {
				from = other
			}
			m, err := all[k].Recv(ctx, from, weft.AnyTag, buf)
			if err == nil {
				err = check(&m, buf[:m.Len], other, tag, which, size)
			}
			if err != nil {
				return fmt.Errorf("port %d, message %d: %w", k, i, err)
			}
		}
	}
	return finish(ctx, p, other)
}

// sendPast sends messages on a port, and then on the process itself, when receives for them are
// posted.
func sendPast(ctx context.Context, p *weft.Process, other weft.Name) error {
	o, err := p.Port(9)
	if err != nil {
		return err
	}
	for i := range 50 {
		// The receives of the other process are posted.
		if _, err := p.Recv(ctx, other, 1, nil); err != nil {
			return err
		}
		for _, m := range []struct {
			of sender
			n  int
		}{{o, i}, {p, i + 1}} {
			if err := m.of.Send(ctx, other, 5, fill(m.n, 40)); err != nil {
				return err
			}
		}
	}
	return finish(ctx, p, other)
}

// receivePast posts receives of any tag on a port and on the process, in either order.
func receivePast(ctx context.Context, p *weft.Process, other weft.Name) error {
	o, err := p.Port(9)
	if err != nil {
		return err
	}
	for i := range 50 {
		var ofProcess, ofPort weft.Op
		a, b := make([]byte, 40), make([]byte, 40)
		begin := []func() error{
			func() error { return p.StartRecv(&ofProcess, other, weft.AnyTag, a) },
			func() error { return o.StartRecv(&ofPort, weft.AnyProcess, weft.AnyTag, b) },
		}
		for k := range begin {
			if err := begin[(k+i)%2](); err != nil {
				return err
			}
		}
		if err := p.Peer(other).SendDelivered(ctx, 1); err != nil {
			return err
		}
		m, err := ofProcess.Wait(ctx)
		if err == nil {
			err = check(&m, a, other, 5, i+1, 40)
		}
		if err != nil {
			return fmt.Errorf("the process's own, %d: %w", i, err)
		}
		m, err = ofPort.Wait(ctx)
		if err == nil {
			err = check(&m, b, other, 5, i, 40)
		}
		if err != nil {
			return fmt.Errorf("the port's, %d: %w", i, err)
		}
	}
	return finish(ctx, p, other)
}

// askOnPort makes calls on a port, streams to an Inbox there, and sends datagrams.
func askOnPort(ctx context.Context, p *weft.Process, other weft.Name) error {
	o, err := p.Port(12)
	if err != nil {
		return err
	}
	for i := range 20 {
		if err := p.Send(ctx, other, 3, fill(i, 30)); err != nil {
			return err
		}
		reply := make([]byte, 100)
		m, err := o.Peer(other).Call(ctx, 3, fill(i, 60), reply)
		if err != nil || m.Full != 60 || string(reply[:60]) != string(fill(i+1, 60)) {
			return fmt.Errorf("the reply to call %d: %d bytes, %w", i, m.Full, err)
		}
	}
	where, err := p.WaitName(ctx, other)
	if err != nil {
		return err
	}
	for { // a datagram may be lost
		if err := o.PeerAt(where).SendDatagram(ctx, 4, fill(1, 64)); err != nil {
			return err
		}
		if err := p.PeerAt(where).SendDatagram(ctx, 4, fill(2, 64)); err != nil {
			return err
		}
		within, cancel := p.Runtime().WithTimeout(ctx, 50*time.Millisecond)
		_, err := p.Recv(within, other, 5, nil)
		cancel()
		if err == nil {
			return finish(ctx, p, other)
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

func answerOnPort(ctx context.Context, p *weft.Process, other weft.Name) error {
	o, err := p.Port(12)
	if err != nil {
		return err
	}
	in, err := o.Inbox(weft.AnyProcess, weft.AnyTag, 100)
	if err != nil {
		return err
	}
	for i := range 20 {
		m, err := in.Next(ctx)
		got := m.Data
		if err == nil {
			err = check(&m, got, other, 3, i, 60)
		}
		if err != nil || !m.IsCall() {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if err := o.Reply(ctx, m, fill(i+1, 60)); err != nil {
			return err
		}
	}
	in.Close()
	buf := make([]byte, 100)
	for i := range 20 {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
		if err == nil {
			err = check(&m, buf[:m.Len], other, 3, i, 30)
		}
		if err != nil {
			return fmt.Errorf("message %d beside the calls: %w", i, err)
		}
	}
	var ofProcess, ofPort weft.Op
	a, b := make([]byte, 64), make([]byte, 64)
	if err := p.StartRecvDatagram(&ofProcess, weft.AnyTag, a); err != nil {
		return err
	}
	if err := o.StartRecvDatagram(&ofPort, weft.AnyTag, b); err != nil {
		return err
	}
	for i, d := range []struct {
		op  *weft.Op
		buf []byte
	}{{&ofPort, b}, {&ofProcess, a}} {
		m, err := d.op.Wait(ctx)
		if err == nil {
			err = check(&m, d.buf[:m.Len], other, 4, i+1, 64)
		}
		if err != nil {
			return fmt.Errorf("datagram %d: %w", i, err)
		}
	}
	if err := p.Send(ctx, other, 5); err != nil {
		return err
	}
	return finish(ctx, p, other)
}

// refusePorts requests invalid ports and tags.
func refusePorts(ctx context.Context, p *weft.Process, other weft.Name) error {
	o, err := p.Port(20)
	if err != nil {
		return err
	}
	_, zero := p.Port(0)
	_, taken := p.Port(20)
	var op weft.Op
	_, inbox := o.Inbox(other, weft.MaxTag+1, 10)
	_, recv := p.Recv(ctx, other, 1<<63, nil)
	for _, c := range []struct {
		what      string
		err, want error
	}{
		{"port 0", zero, weft.ErrBadArgument},
		{"a port twice", taken, weft.ErrPortInUse},
		{"a send with any tag", o.Send(ctx, other, weft.AnyTag), weft.ErrBadArgument},
		{"a send with a tag of 49 bits", o.Send(ctx, other, weft.MaxTag+1), weft.ErrBadArgument},
		{"a receive with a tag of 64 bits", recv, weft.ErrBadArgument},
		{"a started receive with a tag of 49 bits", o.StartRecv(&op, other, weft.MaxTag+1, nil), weft.ErrBadArgument},
		{"a receive of a datagram with a tag of 49 bits", o.StartRecvDatagram(&op, weft.MaxTag+1), weft.ErrBadArgument},
		{"an Inbox with a tag of 49 bits", inbox, weft.ErrBadArgument},
	} {
		if err := refused(c.what, c.err, c.want); err != nil {
			return err
		}
	}
	if err := o.Close(); err != nil {
		return err
	}
	if _, err := o.Recv(ctx, other, weft.AnyTag, nil); refused("", err, weft.ErrClosed) != nil {
		return fmt.Errorf("a receive on a port that is closed: %v; expected %w", err, weft.ErrClosed)
	}
	if err := o.Send(ctx, other, 1); refused("", err, weft.ErrClosed) != nil {
		return fmt.Errorf("a send on a port that is closed: %v; expected %w", err, weft.ErrClosed)
	}
	if o, err = p.Port(20); err != nil {
		return fmt.Errorf("a port that was closed: %w", err)
	}
	if o.Number() != 20 || o.Process() != p {
		return fmt.Errorf("port %d of %v; expected 20 of %v", o.Number(), o.Process().Name(), p.Name())
	}
	if err := o.Peer(other).SendDelivered(ctx, weft.MaxTag, fill(1, 5)); err != nil {
		return err
	}
	if m, err := o.Recv(ctx, other, weft.MaxTag, make([]byte, 5)); err != nil || m.Tag != weft.MaxTag {
		return fmt.Errorf("the largest tag came as %#x, %w", uint64(m.Tag), err)
	}
	return finish(ctx, p, other)
}
