// Package soak exchanges many messages with a peer that does the same, and checks every message.
// It is a burn-in of a fabric for operators, and does the work of `weft soak`.
//
//	one                               other
//	 │ ◄───────── greeting ──────────► │   the terms, which must be the same
//	 │ ◄──── message 0, 1, 2 … ──────► │   both directions; sizes and bytes follow from the seed
//	 │ ◄────────── verified ─────────► │   all messages of the peer arrived intact
//	 │            … quiet …            │   nothing may come after it
//
// Both sides know from the seed which messages must arrive. Messages are numbered by their tags,
// and keep their order. So a message that is missing, duplicated, out of order, too long or
// altered is detected at once.
package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// Terms holds the parameters on which both sides must agree.
type Terms struct {
	Messages int    `json:"messages"` // in each direction
	Longest  int    `json:"longest"`  // maximum length in bytes
	Seed     uint64 `json:"seed"`     // for sizes and bytes
}

// Tags of all other messages. Numbered messages have their number as the tag.
const (
	tagGreeting weft.Tag = 1<<47 + iota
	tagVerified
)

// underWay is the number of messages in flight in each direction. Each needs a buffer of the
// maximum length.
const underWay = 16

// quiet is the time for which both sides stay after the end, to detect duplicates, and to
// acknowledge messages that the peer may have to retransmit.
const quiet = time.Second

// Report holds the results of one side.
type Report struct {
	Name          weft.Name `json:"name"`
	Peer          weft.Name `json:"peer"`
	Messages      int       `json:"messages"` // in each direction
	BytesSent     int64     `json:"bytes_sent"`
	BytesReceived int64     `json:"bytes_received"`
	Seconds       float64   `json:"seconds"`     // from the greeting until all messages had arrived
	Goodput       float64   `json:"bytes_per_s"` // bytes received per second
	Segments      uint64    `json:"segments"`    // sent by this side's NIC meanwhile, to any NIC
	Resent        uint64    `json:"segments_sent_again"`
}

// Progress counts the messages so far. It may be read at any time.
type Progress struct {
	Sent, Received atomic.Int64 // messages
}

// soak is one exchange.
type soak struct {
	p    *weft.Process
	peer weft.Name
	// The address of the peer that has sent its greeting. If that process ends, no more messages
	// arrive.
	from     weft.Address
	terms    Terms
	progress *Progress
	report   Report
}

// Run exchanges messages with the peer, which must also call Run, with the same terms. The error
// is the first broken promise, or the reason why the exchange could not continue. The caller adds
// the counters of the NIC to the report.
func Run(ctx context.Context, p *weft.Process, peer weft.Name, t Terms, progress *Progress) (*Report, error) {
	s := &soak{p: p, peer: peer, terms: t, progress: progress}
	s.report = Report{Name: p.Name(), Peer: peer, Messages: t.Messages}
	if _, err := p.WaitName(ctx, peer); err != nil {
		return nil, fmt.Errorf("soak: waiting for %v: %w", peer, err)
	}
	if err := s.greet(ctx); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	in := inbox{soak: s, ring: load.NewRing(underWay)}
	defer in.ring.Cancel(nil)
	if err := load.Both(ctx, s.send, in.receive); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	// This must not come before the last message has been sent: it would be out of order.
	if err := in.conclude(ctx); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	return &s.report, nil
}

// greet checks that both sides have the same terms.
func (s *soak) greet(ctx context.Context) error {
	mine, err := json.Marshal(s.terms)
	if err != nil {
		return err
	}
	if err := s.p.Send(ctx, s.peer, tagGreeting, mine); err != nil {
		return err
	}
	buf := make([]byte, 512)
	m, err := s.p.Recv(ctx, s.peer, weft.AnyTag, buf)
	if err != nil {
		return err
	}
	s.from = m.Addr
	var theirs Terms
	if m.Tag != tagGreeting || json.Unmarshal(buf[:m.Len], &theirs) != nil {
		return fmt.Errorf("%v sent a message of %d bytes with tag %d; expected its greeting", s.peer, m.Full, m.Tag)
	}
	if theirs != s.terms {
		return fmt.Errorf("%v has the terms %+v; expected those of this side, %+v", s.peer, theirs, s.terms)
	}
	return nil
}

// plan draws the messages of one side: the size and the seed of each message, one after the
// other.
type plan struct {
	rng     *rand.Rand
	longest int
}

func (t Terms) plan(from weft.Name) *plan {
	seed := []uint64{t.Seed, uint64(from.Index)}
	for _, c := range []byte(from.App) {
		seed = append(seed, uint64(c))
	}
	return &plan{rand.New(rand.NewPCG(load.Seed(seed...), t.Seed)), t.Longest}
}

// next draws one message. Most messages are small: small messages coalesce and must keep their
// order. Long ones need permission.
func (p *plan) next() (size int, seed uint64) {
	bound := p.longest
	switch n := p.rng.IntN(10); {
	case n < 7:
		bound = min(bound, 1<<10)
	case n < 9:
		bound = min(bound, 16<<10)
	}
	return p.rng.IntN(bound + 1), p.rng.Uint64()
}

func (s *soak) send(ctx context.Context) error {
	plan := s.terms.plan(s.p.Name())
	ring := load.NewRing(underWay)
	defer ring.Cancel(nil)
	bufs := make([][]byte, underWay)
	for i := range s.terms.Messages {
		if ring.Full() {
			if _, err := ring.Oldest(ctx); err != nil {
				return err
			}
		}
		size, seed := plan.next()
		buf := resize(&bufs[i%underWay], size)
		load.Fill(buf, seed)
		op := ring.Next()
		if err := ring.Add(op, s.p.Peer(s.peer).StartSend(op, weft.Tag(i), buf)); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		s.report.BytesSent += int64(size)
		s.progress.Sent.Add(1)
	}
	return ring.Finish(ctx)
}

// resize returns a buffer of n bytes. It reuses the old buffer if that is large enough.
func resize(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	return (*b)[:n]
}

// inbox holds receives in flight, each with its buffer.
type inbox struct {
	*soak
	ring   *load.Ring
	bufs   [underWay][]byte
	posted int
	taken  int
}

func (in *inbox) post() error {
	buf := resize(&in.bufs[in.posted%underWay], max(in.terms.Longest, 1))
	in.posted++
	op := new(weft.Op)
	return in.ring.Add(op, in.p.PeerAt(in.from).StartRecv(op, weft.AnyTag, buf))
}

func (in *inbox) next(ctx context.Context) (weft.Message, []byte, error) {
	m, err := in.ring.Oldest(ctx)
	if err != nil {
		return m, nil, err
	}
	buf := in.bufs[in.taken%underWay][:m.Len]
	in.taken++
	return m, buf, nil
}

// receive receives all messages and checks each one.
func (in *inbox) receive(ctx context.Context) error {
	s, begin, plan := in.soak, time.Now(), in.terms.plan(in.peer)
	for range underWay {
		if err := in.post(); err != nil {
			return err
		}
	}
	for i := range s.terms.Messages {
		size, seed := plan.next()
		m, buf, err := in.next(ctx)
		if err != nil {
			return fmt.Errorf("waiting for message %d: %w", i, err)
		}
		switch {
		case m.Tag != weft.Tag(i):
			return fmt.Errorf("%v sent a message with tag %d; expected %d: lost, doubled or out of order", s.peer,
				m.Tag, i)
		case m.Full != size:
			return fmt.Errorf("message %d from %v has %d bytes; expected %d", i, s.peer, m.Full, size)
		}
		if err := load.Check(buf, seed); err != nil {
			return fmt.Errorf("message %d from %v: %w", i, s.peer, err)
		}
		s.report.BytesReceived += int64(size)
		s.progress.Received.Add(1)
		if err := in.post(); err != nil {
			return err
		}
	}
	s.report.Seconds = time.Since(begin).Seconds()
	s.report.Goodput = float64(s.report.BytesReceived) / s.report.Seconds
	return nil
}

// conclude tells the peer that all its messages arrived, and waits for the same notice from the
// peer. A peer that has sent this notice may end. If it can then not be told, that is no error.
func (in *inbox) conclude(ctx context.Context) error {
	told := make(chan error, 1)
	go func() { told <- in.p.Peer(in.peer).SendDelivered(ctx, tagVerified) }()
	m, _, err := in.next(ctx)
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("waiting until %v has verified its messages: %w", in.peer, err), <-told)
	case m.Tag != tagVerified:
		return fmt.Errorf("%v sent a message with tag %d after its last; expected none", in.peer, m.Tag)
	}
	err = <-told
	if err != nil && !errors.Is(err, weft.ErrProcessGone) && !errors.Is(err, weft.ErrUnreachable) &&
		!errors.Is(err, weft.ErrNameUnknown) {
		return fmt.Errorf("telling %v that its messages came: %w", in.peer, err)
	}
	select {
	case <-time.After(quiet):
	case <-ctx.Done():
		return ctx.Err()
	}
	err = nil
	in.ring.Cancel(func(m weft.Message) {
		err = fmt.Errorf("%v sent a message with tag %d when all was over; expected none", in.peer, m.Tag)
	})
	return err
}
