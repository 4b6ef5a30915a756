package sweep

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// talk is a small fabric in addition to the fabric of a run: pairs of processes on two NICs that
// ask and answer, by the calls that programs use. Most of the time only one message is in flight.
// So the shortest ways are taken, each message is met or nearly so, and the sweep can bound the
// time of each:
//
//	asks    Send ─────► Recv ········· ◄─┐        over a perfect link in a bounded number of
//	answers        └──► Recv, Send ──────┘        round trips, and without a retransmission
//
// After that, each pair streams in both directions concurrently. The sweep compares the time of
// the streams with the capacity of the link.
type talk struct {
	f       *sim.Fabric
	rng     *rand.Rand
	link    sim.Link
	faults  sim.Faults
	perfect bool
	pairs   int
	rounds  int
	stream  bool
	found   []string
}

// runTalk runs the talk of a seed.
func runTalk(seed uint64, d mutate.Defect) (violations []string, ways Ways) {
	rng := rand.New(rand.NewPCG(seed, 0x74616c6b))
	t := &talk{rng: rng, pairs: 1 + rng.IntN(4)/3, rounds: 100 + rng.IntN(100)}
	t.link = sim.Link{
		MTU:     pick(rng, 1232, 1452, 8952),
		Latency: pick(rng, 5*time.Microsecond, 20*time.Microsecond, 200*time.Microsecond, 2*time.Millisecond),
		Jitter:  time.Microsecond, Bandwidth: pick[int64](rng, 125_000_000, 1_250_000_000), Reliable: rng.IntN(2) == 0,
	}
	if t.perfect = t.link.Reliable || rng.IntN(2) == 0; t.perfect {
		// Fast enough that no queue of the sender is mistaken for a loss.
		t.link.Bandwidth = 1_250_000_000
	} else {
		t.faults = sim.Faults{Loss: pick(rng, 0.001, 0.01, 0.03), Duplicate: pick(rng, 0, 0.01),
			Reorder: pick(rng, 0, 0.01), Corrupt: pick(rng, 0, 0.01)}
	}
	t.stream = rng.IntN(4) == 0
	t.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: 2, Link: t.link, Faults: t.faults,
		Replay: replay(seed, d)},
		sealed(seed, simulated.Hooks{
			Defect: d, CreditBytes: pick(rng, 0, 0, 16<<10), Check: newChecks(limits.UnreachableAfter).check,
		})))
	for i := range t.pairs {
		a, b := fmt.Sprintf("asks/%d", i), fmt.Sprintf("answers/%d", i)
		plan := rand.New(rand.NewPCG(seed, uint64(i)))
		again := rand.New(rand.NewPCG(seed, uint64(i))) // both processes know the plan
		t.f.Process(0, a,
			func(p *sim.Process) error { return t.asks(p, weft.Name{App: "answers", Index: uint32(i)}, plan) })
		t.f.Process(1, b,
			func(p *sim.Process) error { return t.answers(p, weft.Name{App: "asks", Index: uint32(i)}, again) })
	}
	if err := t.f.Run(time.Minute); err != nil {
		t.violate("%v", err)
	}
	ways = Ways{}
	ways.count(t.f, t.link, 2)
	return t.found, ways
}

func (t *talk) violate(format string, args ...any) {
	t.found = append(t.found, fmt.Sprintf("talk, at %v: ", t.f.Elapsed())+fmt.Sprintf(format, args...))
}

// round describes one question and its answer.
type round struct {
	think time.Duration // pause before the question
	sizes []int         // sizes of the question's messages
	many  bool          // they are sent by SendMany
	// The last two messages are received by their tags, in reverse order.
	turned bool
	anyone bool // the receives name no sender
	short  int  // bytes that the buffer for the first message lacks
	answer int  // bytes of the answer
}

func (t *talk) draw(rng *rand.Rand) (r round) {
	size := func() int {
		switch rng.IntN(16) {
		case 0:
			return 8 + rng.IntN(3<<10)
		case 1:
			if t.perfect && !t.link.Reliable {
				break // no queue may be mistaken for a loss
			}
			return 8 + rng.IntN(40<<10)
		}
		return 8 + rng.IntN(700)
	}
	if rng.IntN(2) == 0 {
		r.think = time.Duration(rng.ExpFloat64() * float64(50*time.Microsecond))
	}
	r.sizes = append(r.sizes, size())
	if rng.IntN(4) == 0 {
		for range 1 + rng.IntN(20) {
			r.sizes = append(r.sizes, 8+rng.IntN(700))
		}
	}
	r.many, r.anyone = rng.IntN(2) == 0, rng.IntN(2) == 0
	// The first message may be a long one, which waits for its receive.
	r.turned = len(r.sizes) > 2 && rng.IntN(2) == 0
	if rng.IntN(16) == 0 {
		r.short = 1
	}
	r.answer = size()
	return r
}

// tag returns the tag of message i of a question.
func (r *round) tag(i int) weft.Tag {
	if r.turned && i == len(r.sizes)-1 {
		return 2
	}
	return 1
}

// fillTalk writes a message of a talk. checkTalk checks one.
func fillTalk(b []byte, id uint64) []byte {
	binary.LittleEndian.PutUint64(b, id)
	for i := 8; i < len(b); i++ {
		b[i] = byte(id) ^ byte(i)
	}
	return b
}

func checkTalk(b []byte, id uint64) error {
	if got := binary.LittleEndian.Uint64(b); got != id {
		return fmt.Errorf("message %x came in place of %x", got, id)
	}
	for i := 8; i < len(b); i++ {
		if b[i] != byte(id)^byte(i) {
			return fmt.Errorf("message %x is wrong from byte %d of %d on", id, i, len(b))
		}
	}
	return nil
}

// asks is the function of the process that asks.
func (t *talk) asks(p *sim.Process, peer weft.Name, plan *rand.Rand) error {
	if _, err := p.WaitName(context.Background(), peer); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	before := 0 // bytes of the last answer
	for k := range t.rounds {
		r := t.draw(plan)
		p.Runtime().Sleep(context.Background(), r.think)
		begun := p.Runtime().Now()
		if err := t.ask(p, peer, uint64(k), &r); err != nil {
			return fmt.Errorf("question %d: %w", k, err)
		}
		if err := t.take(p, peer, 3, r.anyone, buf, r.answer, uint64(k)<<8|0xff); err != nil {
			return fmt.Errorf("answer %d: %w", k, err)
		}
		if took, bound := p.Runtime().Now().Sub(begun), t.bound(&r, before); t.perfect && k > 0 && took > bound {
			t.violate("question %d of %d messages, %d bytes first, and its answer of %d bytes took %v over a perfect "+
				"link with a latency of %v; at most %v",
				k, len(r.sizes), r.sizes[0], r.answer, took, t.link.Latency, bound)
		}
		before = r.answer
	}
	for host := range 2 {
		if n := simulated.Engine(t.f, host).Transport().Resends; t.perfect && t.pairs == 1 && n > 0 {
			t.violate("NIC %d has sent %d segments again over a perfect link", host, n)
		}
	}
	return t.streams(p, peer)
}

// ask sends a question.
func (t *talk) ask(p *sim.Process, peer weft.Name, k uint64, r *round) error {
	var same [][]byte // messages of one tag
	for i, n := range r.sizes {
		b := fillTalk(make([]byte, n), k<<8|uint64(i))
		if r.many && r.tag(i) == 1 {
			same = append(same, b)
			continue
		}
		if err := t.askMany(p, peer, same); err != nil {
			return err
		}
		same = nil
		if err := p.Send(context.Background(), peer, r.tag(i), b); err != nil {
			return err
		}
	}
	return t.askMany(p, peer, same)
}

func (t *talk) askMany(p *sim.Process, peer weft.Name, same [][]byte) error {
	if len(same) == 0 {
		return nil
	}
	_, err := p.Peer(peer).SendMany(context.Background(), 1, same)
	return err
}

// answers is the function of the process that answers.
func (t *talk) answers(p *sim.Process, peer weft.Name, plan *rand.Rand) error {
	if _, err := p.WaitName(context.Background(), peer); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for k := range t.rounds {
		r := t.draw(plan)
		order := make([]int, len(r.sizes))
		for i := range order {
			order[i] = i
		}
		if n := len(order); r.turned {
			order[n-2], order[n-1] = n-1, n-2
		}
		for _, i := range order {
			b := buf
			if i == 0 && r.short > 0 && r.sizes[0] > 8 {
				b = buf[:r.sizes[0]-r.short]
			}
			if err := t.take(p, peer, r.tag(i), r.anyone, b, r.sizes[i], uint64(k)<<8|uint64(i)); err != nil {
				return fmt.Errorf("question %d, message %d of %d: %w", k, i, len(order), err)
			}
		}
		if err := p.Send(context.Background(), peer, 3,
			fillTalk(make([]byte, r.answer), uint64(k)<<8|0xff)); err != nil {
			return err
		}
	}
	return t.streams(p, peer)
}

// take receives one message.
func (t *talk) take(p *sim.Process, peer weft.Name, tag weft.Tag, anyone bool, buf []byte, size int, id uint64) error {
	from := peer
	if anyone && t.pairs == 1 {
		from = weft.AnyProcess
	}
	m, err := p.Recv(context.Background(), from, tag, buf)
	switch {
	case size > len(buf) && (!errors.Is(err, weft.ErrTruncated) || m.Full != size || m.Len != len(buf)):
		return fmt.Errorf("a message of %d bytes in a buffer of %d: %d of %d, %w", size, len(buf), m.Len, m.Full, err)
	case size > len(buf):
	case err != nil:
		return err
	case m.Len != size || m.From != peer || m.Tag != tag:
		return fmt.Errorf("%d bytes from %v with tag %d in place of %d from %v with tag %d", m.Len, m.From, m.Tag,
			size, peer, tag)
	}
	return checkTalk(buf[:min(size, len(buf))], id)
}

// A question and its answer over a perfect link may take more than round trips and the time on
// the wire: NICs take turns, processes wake, and only a helper polls an idle NIC.
const (
	talkSlack   = 200 * time.Microsecond
	talkMessage = 10 * time.Microsecond
	talkHeaders = 128 // maximum bytes of a frame in addition to a message
)

// bound returns the longest time of a question and its answer over a perfect link. It is three
// round trips, because a NIC must ask for credit at first, or when the credit is spent. Each
// message that asks for permission adds two. Over a reliable link, the sender of a message of
// several frames gets its memory back when the peer has answered after the last frame. That adds
// one for each such message, and one for the answer of the round before: its sender takes the
// next question only when it has its memory back.
func (t *talk) bound(r *round, before int) time.Duration {
	trips, bytes := 3, 0
	for _, n := range append(r.sizes, r.answer) {
		if bytes += n; n > limits.CopiedMessage {
			trips += 2
		}
	}
	for _, n := range append(r.sizes, before) {
		if t.link.Reliable && n > t.link.MTU-talkHeaders {
			trips++
		}
	}
	took := time.Duration(trips*2)*(t.link.Latency+t.link.Jitter) +
		time.Duration(t.pairs*2*bytes)*time.Second/time.Duration(t.link.Bandwidth)
	return took + talkSlack + time.Duration(t.pairs*(1+len(r.sizes)))*talkMessage
}

// The sizes of a stream. Each sender sends this many long messages.
const (
	streamSenders  = 4
	streamMessages = 4
	streamLength   = 64 << 10
	streamBytes    = streamSenders * streamMessages * streamLength
	permitted      = 128 << 10 // minimum bytes that a NIC permits to others in two round trips
)

// streams sends and receives concurrently, if the plan requires it. It compares the amount and
// the time with the capacity of the link.
func (t *talk) streams(p *sim.Process, peer weft.Name) error {
	// Neither process ends while the other still waits for the end of its sends.
	defer p.Runtime().Sleep(context.Background(), time.Second)
	if !t.stream {
		return nil
	}
	p.Runtime().Sleep(context.Background(), 10*time.Millisecond)
	for i := range streamSenders {
		p.Start(fmt.Sprintf("stream %d", i), func(p *sim.Process) error {
			data := fillTalk(make([]byte, streamLength), uint64(i))
			for range streamMessages {
				if err := p.Send(context.Background(), peer, weft.Tag(10+i), data); err != nil {
					return err
				}
			}
			return nil
		})
	}
	begun := p.Runtime().Now()
	left := streamSenders
	for i := range streamSenders {
		p.Start(fmt.Sprintf("sink %d", i), func(p *sim.Process) error {
			buf := make([]byte, streamLength)
			for range streamMessages {
				if err := t.take(p, peer, weft.Tag(10+i), false, buf, streamLength, uint64(i)); err != nil {
					return err
				}
			}
			if left--; left == 0 {
				t.streamed(p.Runtime().Now().Sub(begun))
			}
			return nil
		})
	}
	for left > 0 {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	return nil
}

// streamed judges the time of a stream. The same amount went in the other direction meanwhile,
// and in the streams of the other pair.
func (t *talk) streamed(took time.Duration) {
	wire := time.Duration(t.pairs*streamBytes) * time.Second / time.Duration(t.link.Bandwidth)
	trips := 2*t.pairs*streamBytes/permitted + 2
	most := (wire+time.Duration(2*trips)*t.link.Latency)*8/5 + talkSlack
	if took > most {
		t.violate("%d bytes took %v both ways at once, with a latency of %v and a loss of %g %%; at most %v",
			streamBytes, took, t.link.Latency, 100*t.faults.Loss, most)
	}
}
