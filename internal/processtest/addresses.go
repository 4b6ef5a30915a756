package processtest

import (
	"context"
	"fmt"

	"github.com/weftnet/weft"
)

var addresses = []Case{
	{"an address is as good as a name, for one life", sendToAddress, receiveFromAddress},
}

// sendToAddress sends by name and by address in turns. The messages must arrive in the order of
// the sends.
func sendToAddress(ctx context.Context, p *weft.Process, other weft.Name) error {
	o, err := p.Port(30)
	if err != nil {
		return err
	}
	at, err := p.WaitName(ctx, other)
	if err != nil {
		return err
	}
	for i := range 30 {
		b := fill(i, sizeOf(i))
		switch i % 4 {
		case 0:
			err = o.Send(ctx, other, 2, b)
		case 1:
			err = o.PeerAt(at).Send(ctx, 2, b)
		case 2:
			err = o.PeerAt(at).SendDelivered(ctx, 2, b)
		default:
			var op weft.Op
			if err = o.PeerAt(at).StartSend(&op, 2, b); err == nil {
				_, err = op.Wait(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	reply := make([]byte, 10)
	if m, err := o.PeerAt(at).Call(ctx, 3, fill(1, 10), reply); err != nil || m.Full != 10 ||
		string(reply) != string(fill(2, 10)) {
		return fmt.Errorf("the reply: %+v, %w", m, err)
	}
	stale, nowhere := at, weft.Address{NIC: at.NIC}
	stale.Generation++
	if err := p.PeerAt(stale).Send(ctx, 1); refused("", err, weft.ErrStaleGeneration) != nil &&
		refused("", err, weft.ErrProcessGone) != nil {
		return fmt.Errorf("a send to another life: %v; expected %w", err, weft.ErrStaleGeneration)
	}
	_, call := p.PeerAt(weft.Address{}).Call(ctx, 1, nil, nil)
	_, recv := p.PeerAt(nowhere).Recv(ctx, 1, nil)
	var op weft.Op
	for what, err := range map[string]error{
		"a send to no address": p.PeerAt(weft.Address{}).Send(ctx, 1), "a call of no address": call,
		"a receive from no process":       recv,
		"a send with any tag":             p.PeerAt(at).SendDelivered(ctx, weft.AnyTag),
		"a receive with a tag of 49 bits": p.PeerAt(at).StartRecv(&op, weft.MaxTag+1, nil),
	} {
		if err := refused(what, err, weft.ErrBadArgument); err != nil {
			return err
		}
	}
	return finish(ctx, p, other)
}

func receiveFromAddress(ctx context.Context, p *weft.Process, other weft.Name) error {
	o, err := p.Port(30)
	if err != nil {
		return err
	}
	at, err := p.WaitName(ctx, other)
	if err != nil {
		return err
	}
	buf := make([]byte, 1000)
	for i := range 30 {
		var m weft.Message
		switch i % 3 {
		case 0:
			m, err = o.PeerAt(at).Recv(ctx, weft.AnyTag, buf)
		case 1:
			var op weft.Op
			if err = o.PeerAt(at).StartRecv(&op, 2, buf); err == nil {
				m, err = op.Wait(ctx)
			}
		default:
			m, err = o.Recv(ctx, other, 2, buf)
		}
		if err == nil {
			err = check(&m, buf[:m.Len], other, 2, i, sizeOf(i))
		}
		if err == nil && m.Addr != at {
			err = fmt.Errorf("it is from %v; expected %v", m.Addr, at)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	m, err := o.PeerAt(at).Recv(ctx, 3, buf)
	if err != nil {
		return err
	}
	if err := o.Reply(ctx, m, fill(2, 10)); err != nil {
		return err
	}
	return finish(ctx, p, other)
}
