// Package soak exchanges many messages with a peer that does the same, and checks every one: an operator's burn-in of a
// fabric, and the work behind `weft soak`.
//
//	one                               other
//	 │ ◄───────── greeting ──────────► │   the terms, which must be the same
//	 │ ◄──── message 0, 1, 2 … ──────► │   both ways at once; sizes and bytes follow from the seed
//	 │ ◄────────── verified ─────────► │   all of mine came as they should
//	 │            … quiet …            │   nothing may come after it
//
// Both know from the seed what has to come. Messages are counted by their tags, and they keep their order, so one that
// is missing, doubled, out of order, too long or altered is found at once.
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
	"github.com/weftnet/weft/internal/inflight"
	"github.com/weftnet/weft/internal/payload"
	"github.com/weftnet/weft/internal/together"
)

// Terms are what both sides must agree on.
type Terms struct {
	Messages int    `json:"messages"` // each way
	Longest  int    `json:"longest"`  // bytes
	Seed     uint64 `json:"seed"`     // of sizes and bytes
}

// Tags of all but the messages that count, which have their number.
const (
	tagGreeting weft.Tag = 1<<47 + iota
	tagVerified
)

// underWay is how many messages are under way each way: as many buffers of the longest size are held.
const underWay = 16

// quiet is how long both sides stay after the end: to see that nothing comes twice, and to acknowledge what the peer may
// have to send again.
const quiet = time.Second

// Report tells how it went.
type Report struct {
	Name          weft.Name `json:"name"`
	Peer          weft.Name `json:"peer"`
	Messages      int       `json:"messages"` // each way
	BytesSent     int64     `json:"bytes_sent"`
	BytesReceived int64     `json:"bytes_received"`
	Seconds       float64   `json:"seconds"`     // from the greeting until all had come
	Goodput       float64   `json:"bytes_per_s"` // received
	Segments      uint64    `json:"segments"`    // that this side's NIC has sent meanwhile, to whomever
	Resent        uint64    `json:"segments_sent_again"`
}

// Progress is what an exchange has done so far. It may be read at any time.
type Progress struct {
	Sent, Received atomic.Int64 // messages
}

// soak is one exchange.
type soak struct {
	p        *weft.Process
	peer     weft.Name
	from     weft.Address // of the peer that has sent its greeting: if that ends, no message comes
	terms    Terms
	progress *Progress
	report   Report
}

// Run exchanges messages with the peer, which must be running it too, on the same terms. The error is the first promise
// that was broken, or why the exchange could not go on. The counters of the NIC are the caller's to add to the report.
func Run(ctx context.Context, p *weft.Process, peer weft.Name, t Terms, progress *Progress) (*Report, error) {
	s := &soak{p: p, peer: peer, terms: t, progress: progress}
	s.report = Report{Name: p.Name(), Peer: peer, Messages: t.Messages}
	if _, err := p.WaitName(ctx, peer); err != nil {
		return nil, fmt.Errorf("soak: waiting for %v: %w", peer, err)
	}
	if err := s.greet(ctx); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	in := inbox{soak: s, ring: inflight.New(underWay)}
	defer in.ring.Cancel(nil)
	if err := together.Both(ctx, s.send, in.receive); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	// Not before the last message has been sent: it would be out of order.
	if err := in.conclude(ctx); err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	return &s.report, nil
}

// greet makes sure that both sides have the same terms.
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

// plan draws what one side sends: the size and the seed of one message after the other.
type plan struct {
	rng     *rand.Rand
	longest int
}

func (t Terms) plan(from weft.Name) *plan {
	seed := []uint64{t.Seed, uint64(from.Index)}
	for _, c := range []byte(from.App) {
		seed = append(seed, uint64(c))
	}
	return &plan{rand.New(rand.NewPCG(payload.Seed(seed...), t.Seed)), t.Longest}
}

// next draws one message. Most are small: they are the ones that coalesce and need order; the long ones need permission.
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
	ring := inflight.New(underWay)
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
		payload.Fill(buf, seed)
		op := ring.Next()
		if err := ring.Add(op, s.p.Peer(s.peer).StartSend(op, weft.Tag(i), buf)); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		s.report.BytesSent += int64(size)
		s.progress.Sent.Add(1)
	}
	return ring.Finish(ctx)
}

// resize makes a buffer of n bytes, of the old one's memory if there is enough.
func resize(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	return (*b)[:n]
}

// inbox holds receives under way, each with its buffer.
type inbox struct {
	*soak
	ring   *inflight.Ring
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

// receive takes all messages and checks each.
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
			return fmt.Errorf("%v sent a message with tag %d; expected %d: lost, doubled or out of order", s.peer, m.Tag, i)
		case m.Full != size:
			return fmt.Errorf("message %d from %v has %d bytes; expected %d", i, s.peer, m.Full, size)
		}
		if err := payload.Check(buf, seed); err != nil {
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

// conclude tells the peer that all of its messages came, and hears the same of it. A peer that has said so may end, and
// then it does not matter that it cannot be told.
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
	if err != nil && !errors.Is(err, weft.ErrProcessGone) && !errors.Is(err, weft.ErrUnreachable) && !errors.Is(err, weft.ErrNameUnknown) {
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
