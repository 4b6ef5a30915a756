package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// Serve takes part in the measurements of clients, one at a time, until ctx ends, which is no
// error. If a client dies during a measurement, or breaks the rules, only that measurement ends.
// Serve tells clients the server's own setup, unless it is zero.
func Serve(ctx context.Context, p *weft.Process, own Setup) error {
	buf := make([]byte, answerBytes)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, tagPlan, buf)
		if err == nil {
			s := session{p: p, own: own, client: m.From}
			err = s.run(ctx, m, buf[:m.Len])
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, weft.ErrNICGone) || errors.Is(err, weft.ErrClosed) || errors.Is(err, weft.ErrNameLost):
			return err
		}
	}
}

// session is the server's part in one measurement.
type session struct {
	p      *weft.Process
	own    Setup // the server's
	client weft.Name
	plan   plan
	count  int64
}

func (s *session) run(ctx context.Context, asked weft.Message, question []byte) error {
	if err := json.Unmarshal(question, &s.plan); err != nil {
		return s.answer(ctx, asked, outcome{Error: fmt.Sprintf("plan: %v", err)})
	}
	if p := s.plan; p.Size < 0 || p.Size > MaxSize || p.Window < 1 || p.Window > windowFor(0) {
		return s.answer(ctx, asked, outcome{Error: fmt.Sprintf(
			"plan: %d bytes, %d at a time: more than this server takes", p.Size, p.Window)})
	}
	if s.plan.Over != "" {
		return s.carry(ctx, asked)
	}
	if s.plan.Echo {
		return s.echo(ctx, asked)
	}
	if s.plan.Datagrams {
		return s.sinkDatagrams(ctx, asked)
	}
	return s.sink(ctx, asked)
}

func (s *session) answer(ctx context.Context, to weft.Message, o outcome) error {
	if s.own != (Setup{}) {
		o.Setup = &s.own
	}
	if s.plan.Over == "" {
		o.Again = nicAgain(s.p.NIC())
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return s.p.Reply(ctx, to, b)
}

// roomBytes returns the length of a buffer for a message of the plan, or for the request to
// stop.
func (s *session) roomBytes() int { return max(s.plan.Size, answerBytes) }

// echo sends every message back. It posts its first receive before the client begins: later, if
// the client had died meanwhile, the receive would wait for the next process of that name.
func (s *session) echo(ctx context.Context, asked weft.Message) error {
	x := newExchange(s.p, s.client, asked.Addr, weft.AnyTag)
	defer x.cancel()
	// written before the clock starts: the first write to each page is the kernel's work
	buf, next := load.Written(s.roomBytes()), load.Written(s.roomBytes())
	if err := x.post(buf); err != nil {
		return err
	}
	if err := s.answer(ctx, asked, outcome{}); err != nil {
		return err
	}
	var m weft.Message
	for {
		if err := x.recv(ctx, buf, &m); err != nil {
			return err
		}
		if m.Tag == tagStop {
			return s.answer(ctx, m, outcome{Messages: s.count})
		}
		if m.Full != s.plan.Size {
			return wrongSize(m, s.plan.Size)
		}
		s.count++
		if err := x.send(ctx, buf[:m.Len], next); err != nil {
			return err
		}
		if x.ahead {
			buf, next = next, buf
		}
	}
}

// sink counts messages. It is ready for them before the client begins.
func (s *session) sink(ctx context.Context, asked weft.Message) error {
	if manyFor(s.plan.Size) {
		return s.sinkInbox(ctx, asked)
	}
	region, bufs, err := memory(s.p, s.plan.Window, s.roomBytes())
	if err != nil {
		return s.answer(ctx, asked, outcome{Error: err.Error()})
	}
	// after the receives; it fails if the NIC has gone, which the receives have reported
	defer region.Close()
	ring := load.NewRing(s.plan.Window)
	defer ring.Cancel(nil)
	post := func(i int64) error {
		op := ring.Next()
		return ring.Add(op, s.p.StartRecv(op, s.client, weft.AnyTag, bufs[int(i)%len(bufs)]))
	}
	for i := range bufs {
		if err := post(int64(i)); err != nil {
			return err
		}
	}
	if err := s.answer(ctx, asked, outcome{}); err != nil {
		return err
	}
	for {
		m, err := ring.Oldest(ctx)
		if err != nil {
			return err
		}
		if m.Tag == tagStop {
			// before the client goes on: its next plan must not find these receives
			ring.Cancel(nil)
			return s.answer(ctx, m, outcome{Messages: s.count})
		}
		if m.Full != s.plan.Size {
			return wrongSize(m, s.plan.Size)
		}
		if err := post(s.count); err != nil {
			return err
		}
		s.count++
	}
}

// askAgain is how often a server asks whether its client is still there, while its Inbox waits
// for the client. The first Next posts the receive. If the client has died by then, the receive
// would wait for the next process of that name.
const askAgain = time.Second

// sinkInbox is sink for short messages to an embedded process, which come through an Inbox.
func (s *session) sinkInbox(ctx context.Context, asked weft.Message) error {
	in, err := s.p.Inbox(s.client, weft.AnyTag, answerBytes)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := s.answer(ctx, asked, outcome{}); err != nil {
		return err
	}
	for done := false; !done; {
		if done, err = s.sinkWhile(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// sinkWhile counts messages until the client says stop, which it answers, or until it is time to
// ask whether the client is still there.
func (s *session) sinkWhile(ctx context.Context, in *weft.Inbox) (done bool, err error) {
	wait, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	var m weft.Message
	for {
		err = in.NextInto(wait, &m)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			ask, cancel := context.WithTimeout(ctx, askAgain)
			defer cancel()
			_, err = s.p.WaitName(ask, s.client)
			return false, err
		case err != nil:
			return false, err
		case m.Tag == tagStop:
			stop := m
			// before the client goes on: its next plan must not find this receive
			in.Close()
			return true, s.answer(ctx, stop, outcome{Messages: s.count})
		case len(m.Data) != s.plan.Size:
			return false, wrongSize(m, s.plan.Size)
		}
		s.count++
	}
}
