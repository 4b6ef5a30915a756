package processtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
)

var calls = []Case{
	{"a call is answered once", askOnce, answerOnce},
	{"a reply fails if its caller has given up", giveUp, answerLate},
}

// Tags of these cases.
const (
	askTag     = 1
	gaveUpTag  = 2
	verdictTag = 3
)

func askOnce(ctx context.Context, p *weft.Process, other weft.Name) error {
	for i, n := range answerLengths {
		reply := make([]byte, n)
		m, err := p.Peer(other).Call(ctx, askTag, []byte("?"), reply)
		if err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if err := check(&m, reply[:m.Len], other, 0, i, n); err != nil {
			return fmt.Errorf("the reply to call %d: %w", i, err)
		}
		if m.IsCall() {
			return fmt.Errorf("the reply to call %d is a call", i)
		}
	}
	return finish(ctx, p, other)
}

// answerLengths holds the lengths of short replies, and of a reply that needs a permission of the
// caller's NIC.
var answerLengths = []int{0, 10, 700, 5000, 50_000}

func answerOnce(ctx context.Context, p *weft.Process, other weft.Name) error {
	var before weft.Message
	for i, n := range answerLengths {
		probed, err := p.Probe(ctx, other, askTag)
		if err != nil {
			return err
		}
		if err := refused("a reply to a call that was not received", p.Reply(ctx, probed, fill(9, 1)),
			weft.ErrBadArgument); err != nil {
			return err
		}
		m, err := p.Recv(ctx, other, askTag, make([]byte, 10))
		if err != nil {
			return err
		}
		twin := m
		if err := p.Reply(ctx, m, fill(i, n)); err != nil {
			return fmt.Errorf("reply %d of %d bytes: %w", i, n, err)
		}
		for _, again := range []weft.Message{m, twin, before} {
			if err := refused("a second reply", p.Reply(ctx, again, fill(9, n)), weft.ErrBadArgument); err != nil {
				return err
			}
		}
		before = m
	}
	return finish(ctx, p, other)
}

// rounds is the maximum number of calls that are given up until the NIC of the called process
// learns of one before the reply. A network may lose or delay this news, but rarely many times in
// a row.
const rounds = 50

// giveUp gives up calls, and tells the other process, until a reply has failed.
func giveUp(ctx context.Context, p *weft.Process, other weft.Name) error {
	verdict := make([]byte, 1)
	for range rounds {
		short, cancel := p.Runtime().WithTimeout(ctx, 20*time.Millisecond)
		_, err := p.Peer(other).Call(short, askTag, []byte("?"), make([]byte, 10))
		cancel()
		if err := refused("a call without reply", err, context.DeadlineExceeded); err != nil {
			return err
		}
		if err := p.Send(ctx, other, gaveUpTag); err != nil {
			return err
		}
		if _, err := p.Recv(ctx, other, verdictTag, verdict); err != nil {
			return err
		}
		if verdict[0] != 0 {
			return finish(ctx, p, other)
		}
	}
	return fmt.Errorf("of %d replies to calls that were given up, none has failed", rounds)
}

// answerLate answers each call after its caller has given up.
func answerLate(ctx context.Context, p *weft.Process, other weft.Name) error {
	for {
		var late error
		m, err := p.Recv(ctx, other, weft.AnyTag, make([]byte, 10))
		if err == nil && m.Tag == askTag { // otherwise the call was given up before it arrived
			if _, err = p.Recv(ctx, other, gaveUpTag, nil); err == nil {
				late = p.Reply(ctx, m, fill(1, 10))
			}
		}
		if err != nil {
			return err
		}
		verdict := []byte{0}
		if late != nil {
			verdict[0] = 1
		}
		if err := p.Send(ctx, other, verdictTag, verdict); err != nil {
			return err
		}
		if late == nil {
			continue
		}
		if err := errors.Join(
			refused("a reply to a call that was given up", late, weft.ErrCancelled),
			refused("the same again", p.Reply(ctx, m, fill(1, 10)), weft.ErrCancelled),
		); err != nil {
			return err
		}
		return finish(ctx, p, other)
	}
}
