package processtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// outgoingSource guards the sender. It refuses tags from 1,000 on, and PUTs and datagrams of an
// odd length. It delays two of three passing messages by different times. So a message that does
// not wait for the messages before it would overtake them.
const (
	outgoingSource = `PROGRAM outgoing: CONST datagram = 1, put = 2; VAR n, heard; TRIGGERS 1, 2;
BEGIN END;
MESSAGE 1: BEGIN
    IF PACKETLEN <> 40 OR PACKET[1] >= 1000 THEN DROP;
    IF PACKET[2] = put OR PACKET[2] = datagram THEN IF PACKET[0] % 2 = 1 THEN DROP;
    n = n + 1;
    IF n % 3 = 0 THEN PASS;
    IF n % 3 = 1 THEN PASS AFTER 300000;
    PASS AFTER 20000
END;
MESSAGE 2: BEGIN heard = heard + 1; DISPLAY heard END;
END;`
	outgoingID      program.ID = 903
	outgoingRefused            = 1000 // the first refused tag
	outgoingEnd                = 999
)

// SendGuarded puts a guard on the process's outgoing messages. It sends refused and permitted
// messages by each way, to a process that runs ReceiveFromGuarded.
func SendGuarded(ctx context.Context, p *weft.Process, other weft.Name) error {
	m, err := pdl.Compile("outgoing", []byte(outgoingSource))
	if err != nil {
		return err
	}
	o := program.Options{ID: outgoingID, Start: true, Guards: p.Name().String(), Outgoing: true, Trigger: 1}
	if _, err := program.On(p).Load(ctx, []weft.NICID{0}, m.Encode(), o); err != nil {
		return err
	}
	b := make([]byte, weft.HandleLen)
	if _, err := p.Recv(ctx, other, 0, b); err != nil {
		return err
	}
	for range guardedRounds {
		for i, w := range guardedWays {
			if err := refused(w.name, w.send(ctx, p, other, weft.Tag(outgoingRefused+i), fill(i, w.length)),
				weft.ErrRefused); err != nil {
				return err
			}
			if err := w.send(ctx, p, other, weft.Tag(i), fill(i, w.length)); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
		if err := sendGuardedRuns(ctx, p, other); err != nil {
			return err
		}
	}
	return sendGuardedMemory(ctx, p, other, b)
}

// sendGuardedRuns sends many messages in one call, and makes calls.
func sendGuardedRuns(ctx context.Context, p *weft.Process, other weft.Name) error {
	var run [][]byte
	for k := range many {
		run = append(run, fill(k, 50))
	}
	n, err := p.Peer(other).SendMany(ctx, outgoingRefused, run)
	if err := refused("SendMany of several", err, weft.ErrRefused); err != nil || n != 0 {
		return fmt.Errorf("%d of %d messages were sent: %w", n, many, err)
	}
	if n, err := p.Peer(other).SendMany(ctx, 99, run); err != nil || n != many {
		return fmt.Errorf("%d of %d messages were sent: %w", n, many, err)
	}
	_, err = p.Peer(other).Call(ctx, outgoingRefused, fill(0, 30), nil)
	if err := refused("Call", err, weft.ErrRefused); err != nil {
		return err
	}
	_, err = p.Peer(other).Call(ctx, 100, fill(0, 30), nil)
	return err
}

// sendGuardedMemory sends everything that is not a message to a process: PUTs, datagrams and
// messages to a program.
func sendGuardedMemory(ctx context.Context, p *weft.Process, other weft.Name, handle []byte) error {
	var h weft.Handle
	if err := h.UnmarshalBinary(handle); err != nil {
		return err
	}
	if err := refused("Put", p.Put(ctx, h, 0, fill(1, 7)), weft.ErrRefused); err != nil {
		return err
	}
	if err := p.Put(ctx, h, 0, fill(1, 8)); err != nil {
		return fmt.Errorf("after the refused Put: %w", err)
	}
	if err := refused("SendDatagram", p.Peer(other).SendDatagram(ctx, 1, fill(1, 7)), weft.ErrRefused); err != nil {
		return err
	}
	if err := p.Peer(other).SendDatagram(ctx, 1, fill(1, 8)); err != nil {
		return fmt.Errorf("SendDatagram: %w", err)
	}
	at := program.Address{ID: outgoingID}
	if err := refused("a send to a program", program.On(p).SendHandled(ctx, at, outgoingRefused),
		weft.ErrRefused); err != nil {
		return err
	}
	if err := program.On(p).SendHandled(ctx, at, 2); err != nil {
		return fmt.Errorf("to a program: %w", err)
	}
	return p.Send(ctx, other, outgoingEnd)
}

// ReceiveFromGuarded compares the messages from a process in SendGuarded with those that its
// guard passes, in their order.
func ReceiveFromGuarded(ctx context.Context, p *weft.Process, other weft.Name) error {
	r, err := p.Alloc(8)
	if err != nil {
		return err
	}
	defer r.Close()
	h, _ := r.Handle().MarshalBinary()
	if err := p.Send(ctx, other, 0, h); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	take := func(what string, tag weft.Tag, want []byte) (weft.Message, error) {
		m, err := p.Recv(ctx, other, weft.AnyTag, buf)
		if err == nil && (m.Tag != tag || !bytes.Equal(buf[:m.Len], want)) {
			err = fmt.Errorf("%d bytes with tag %d have come, expected %d with %d", m.Len, m.Tag, len(want), tag)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
		return m, err
	}
	for range guardedRounds {
		for i, w := range guardedWays {
			if _, err := take(w.name, weft.Tag(i), fill(i, w.length)); err != nil {
				return err
			}
		}
		for k := range many {
			if _, err := take("SendMany", 99, fill(k, 50)); err != nil {
				return err
			}
		}
		m, err := take("Call", 100, fill(0, 30))
		if err == nil {
			err = p.Reply(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	if _, err := take("the last", outgoingEnd, nil); err != nil {
		return err
	}
	if !bytes.Equal(r.Bytes(), fill(1, 8)) {
		return errors.New("a PUT that its guard passed has not been made")
	}
	return nil
}
