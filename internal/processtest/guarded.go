package processtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// In these cases, a program stands in front of the receiver, and the sender sends to the receiver
// in every possible way. The filter drops the first of every two messages. It judges messages by
// their bytes. It sees no bytes of long messages, so it drops every second one.

// filterSource drops messages that begin with an odd byte. bringSource forwards the rest of a
// message to the process that the message names.
const (
	filterSource = `PROGRAM filter: VAR long; TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN
    IF PACKETLEN > 0 THEN IF PACKETBYTE[0] % 2 = 0 THEN PASS ELSE DROP;
    long = long + 1;
    IF long % 2 = 0 THEN PASS;
    DROP
END;
END;`
	bringSource = `PROGRAM bring: TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN SEND PACKET[1] LEN PACKETLEN - 8 AS 1 TO PACKET[0] END;
END;`
	filterID program.ID = 901
	bringID  program.ID = 902
)

// guardedWay is a way to send a message to a process. The first byte of the message is even or
// odd.
type guardedWay struct {
	name   string
	length int
	send   func(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error
	tells  bool // the sender is told about the filter
}

var guardedWays = []guardedWay{
	{"Send", 60, send, false},
	{"Send of several parts", 6000,
		func(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error {
			return p.Send(ctx, to, tag, b[:9], b[9:])
		}, false},
	{"Send of a long message", 700_000, send, true},
	{"SendMany", 60, func(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error {
		_, err := p.Peer(to).SendMany(ctx, tag, [][]byte{b})
		return err
	}, false},
	{"SendDelivered", 60, sendDelivered, true},
	{"SendDelivered of 10,000 bytes", 10_000, sendDelivered, true},
	{"StartSend", 60, func(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error {
		o := new(weft.Op)
		err := p.Peer(to).StartSend(o, tag, b)
		if err != nil {
			return err
		}
		_, err = o.Wait(ctx)
		return err
	}, false},
	{"Multicast", 60, func(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error {
		return p.Multicast(ctx, []weft.Name{to}, tag, b)
	}, false},
	{"Send out of a region", 5000,
		func(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error {
			r, err := p.Alloc(len(b))
			if err != nil {
				return err
			}
			defer r.Close()
			copy(r.Bytes(), b)
			return p.Send(ctx, to, tag, r.Bytes())
		}, false},
}

func send(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error {
	return p.Send(ctx, to, tag, b)
}

func sendDelivered(ctx context.Context, p *weft.Process, to weft.Name, tag weft.Tag, b []byte) error {
	return p.Peer(to).SendDelivered(ctx, tag, b)
}

// evenOr returns message i with n bytes. If by is 1, the filter drops the message.
func evenOr(by byte, i, n int) []byte {
	b := fill(i, n)
	b[0] = b[0]&^1 | by
	return b
}

// guardedRounds is the number of times that each way is used. In the first round the receiver
// uses receives, and then an Inbox.
const (
	guardedRounds = 2
	many          = 6 // messages of one SendMany
)

// SendToGuarded sends by each way, to a process that runs ReceiveGuarded.
func SendToGuarded(ctx context.Context, p *weft.Process, other weft.Name) error {
	var begin [4]byte // the number by which programs know the process
	if _, err := p.Recv(ctx, other, 0, begin[:]); err != nil {
		return err
	}
	for range guardedRounds {
		for i, w := range guardedWays {
			for by := byte(1); by < 2; by-- { // dropped first, then passed
				err := w.send(ctx, p, other, weft.Tag(i), evenOr(by, i, w.length))
				if by == 1 && w.tells {
					err = refused("the dropped one", err, weft.ErrFiltered)
				}
				if err != nil && !(by == 1 && errors.Is(err, weft.ErrFiltered)) {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
		var run [][]byte
		for k := range many {
			run = append(run, evenOr(byte(k%2), k, 50))
		}
		if _, err := p.Peer(other).SendMany(ctx, 99, run); err != nil {
			return fmt.Errorf("by SendMany of %d messages: %w", many, err)
		}
		// A dropped call would end only with its context.
		if _, err := p.Peer(other).Call(ctx, 100, evenOr(0, 0, 30), nil); err != nil {
			return fmt.Errorf("by Call: %w", err)
		}
	}
	to, err := p.WaitName(ctx, other)
	if err != nil {
		return err
	}
	for by := byte(1); by < 2; by-- {
		head := binary.LittleEndian.AppendUint64(nil, uint64(binary.LittleEndian.Uint32(begin[:])))
		if err := program.On(p).SendHandled(ctx, program.Address{NIC: to.NIC, ID: bringID}, 1, head,
			evenOr(by, 7, 40)); err != nil {
			return fmt.Errorf("by way of a program: %w", err)
		}
	}
	if _, err := p.Recv(ctx, other, end, nil); err != nil {
		return err
	}
	return sendGuardedDatagrams(ctx, p, other, to)
}

// sendGuardedDatagrams sends two kinds of datagrams, which may be lost, until the other process
// has received enough.
func sendGuardedDatagrams(ctx context.Context, p *weft.Process, other weft.Name, to weft.Address) error {
	for n := 0; ; n++ {
		if err := p.PeerAt(to).SendDatagram(ctx, 1, evenOr(byte(1-n%2), 3, 50+n%2*3000)); err != nil &&
			!errors.Is(err, weft.ErrNoMemory) {
			return fmt.Errorf("by SendDatagram: %w", err)
		}
		within, cancel := p.Runtime().WithTimeout(ctx, 2*time.Millisecond)
		_, err := p.Recv(within, other, end, nil)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// ReceiveGuarded puts a filter in front of the process, and compares the received messages with
// those that the filter passes.
func ReceiveGuarded(ctx context.Context, p *weft.Process, other weft.Name) error {
	if err := loadGuards(ctx, p); err != nil {
		return err
	}
	if err := p.Send(ctx, other, 0, binary.LittleEndian.AppendUint32(nil, uint32(program.On(p).Number()))); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	in, err := p.Inbox(other, weft.AnyTag, 1<<20)
	if err != nil {
		return err
	}
	defer in.Close()
	for round := range guardedRounds {
		if err := receiveWays(ctx, p, func() (*weft.Message, []byte, error) {
			if round > 0 {
				m, err := in.Next(ctx)
				return &m, m.Data, err
			}
			m, err := p.Recv(ctx, other, weft.AnyTag, buf)
			return &m, buf[:m.Len], err
		}); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	m, err := p.Recv(ctx, program.NameOf(bringID), 1, buf)
	if err != nil {
		return fmt.Errorf("by way of a program: %w", err)
	}
	if !bytes.Equal(buf[:m.Len], evenOr(0, 7, 40)) {
		return fmt.Errorf("by way of a program: %d bytes have come, that begin with %d", m.Len, buf[0])
	}
	if err := judged(ctx, p); err != nil {
		return err
	}
	if err := p.Send(ctx, other, end); err != nil {
		return err
	}
	for range 3 {
		m, err := p.RecvDatagram(ctx, weft.AnyTag, buf[:4096])
		if err != nil || buf[0]%2 != 0 {
			return fmt.Errorf("a datagram of %d bytes that begins with %d has passed, %w", m.Len, buf[0], err)
		}
	}
	return p.Send(ctx, other, end)
}

// loadGuards loads both programs into the NIC of the process.
func loadGuards(ctx context.Context, p *weft.Process) error {
	for _, l := range []struct {
		source  string
		options program.Options
	}{
		{filterSource, program.Options{ID: filterID, Start: true, Guards: p.Name().String(), Trigger: 1}},
		{bringSource, program.Options{ID: bringID, Start: true}},
	} {
		m, err := pdl.Compile("guarded", []byte(l.source))
		if err != nil {
			return err
		}
		if _, err := program.On(p).Load(ctx, []weft.NICID{0}, m.Encode(), l.options); err != nil {
			return err
		}
	}
	return nil
}

// receiveWays receives the messages that pass, one of each way.
func receiveWays(ctx context.Context, p *weft.Process, next func() (*weft.Message, []byte, error)) error {
	want := func(name string, tag weft.Tag, want []byte) (*weft.Message, error) {
		m, got, err := next()
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
		if m.Tag != tag || !bytes.Equal(got, want) {
			return m, fmt.Errorf("%s: %d bytes with tag %d have come, expected %d with %d, whose first is %d", name,
				len(got), m.Tag, len(want), tag, want[0])
		}
		return m, nil
	}
	for i, w := range guardedWays {
		if _, err := want(w.name, weft.Tag(i), evenOr(0, i, w.length)); err != nil {
			return err
		}
	}
	for k := 0; k < many; k += 2 {
		if _, err := want("SendMany of several", 99, evenOr(0, k, 50)); err != nil {
			return err
		}
	}
	m, err := want("Call", 100, evenOr(0, 0, 30))
	if err != nil {
		return err
	}
	return p.Reply(ctx, *m)
}

// judged compares the number of the filter's activations with the number of messages.
func judged(ctx context.Context, p *weft.Process) error {
	l, err := program.On(p).List(ctx, 0)
	if err != nil {
		return err
	}
	for _, i := range l {
		// One is its initialisation.
		if want := uint64(1 + guardedRounds*(2*len(guardedWays)+many+1) + 2); i.ID == filterID &&
			i.Activations != want {
			return fmt.Errorf("the filter was activated %d times, expected %d", i.Activations, want)
		}
	}
	return nil
}
