package fault_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/mem"
)

// everything injects each fault from time to time.
var everything = fault.Config{
	Seed: 1, Loss: 0.1, Duplicate: 0.1, Corrupt: 0.1, Truncate: 0.1, Reorder: 0.1, Delay: 0, Jitter: 0, Clog: 0.02, ClogFor: 3 * time.Microsecond,
	ReorderBy: 5 * time.Microsecond,
}

// queue is a driver below with all capabilities. It has frames of several senders, and hands
// over those of one sender in runs.
type queue struct {
	link.Driver
	frames []sent
}

type sent struct {
	from  link.Addr
	frame []byte
}

func (q *queue) Caps() link.Caps {
	return link.Caps{
		Glance: func() bool { return len(q.frames) > 0 },
		Peek: func(from link.Addr) []byte {
			if len(q.frames) > 0 && q.frames[0].from == from {
				return q.frames[0].frame
			}
			return nil
		},
		Pass: func(_ clock.Time, n int) {
			if n != len(q.frames[0].frame) {
				panic(fmt.Sprintf("Pass of %d bytes; the frame has %d", n, len(q.frames[0].frame)))
			}
			q.frames = q.frames[1:]
		},
	}
}

// Poll hands over all frames, and frames of one length and sender in runs.
func (q *queue) Poll(now clock.Time, to link.Receiver) (n int, _ clock.Time) {
	n = len(q.frames)
	for len(q.frames) > 0 {
		first, run := q.frames[0], []byte(nil)
		for len(q.frames) > 0 && q.frames[0].from == first.from && len(q.frames[0].frame) == len(first.frame) {
			run = append(run, q.frames[0].frame...)
			q.frames = q.frames[1:]
		}
		to.ReceiveRun(now, first.from, run, len(first.frame))
	}
	return n, clock.Never
}

func (q *queue) Close() error { return nil }

// Frames are taken by all ways in any order, and each draws its faults once: all frames arrive,
// except for those counted as lost.
func TestEveryWayOfReceivingHasTheSameFaults(t *testing.T) {
	senders := []link.Addr{mem.Address(1), mem.Address(2)}
	q := &queue{}
	f := fault.Wrap(q, everything)
	c := f.Caps()
	r := rand.New(rand.NewPCG(2, 2))
	var in linktest.Inbox
	ways := map[string]int{}
	const frames = 20_000
	now := clock.Time(0)
	for i := 0; i < frames || len(q.frames) > 0 || f.Held() > 0; now = now.Add(time.Microsecond) {
		for n := r.IntN(2); n > 0 && i < frames; n-- {
			b := binary.LittleEndian.AppendUint64(make([]byte, 0, 40), uint64(i))
			q.frames = append(q.frames, sent{senders[i/8%2], append(b, bytes.Repeat([]byte{byte(i)}, 32)...)})
			i++
		}
		before := len(in.Frames)
		switch r.IntN(20) {
		case 0:
			n, _ := f.Poll(now, &in)
			if n != len(in.Frames)-before {
				t.Fatalf("Poll says %d frames; %d have come", n, len(in.Frames)-before)
			}
			ways["poll"] += n
		default:
			from := senders[r.IntN(2)]
			b := c.Peek(from)
			if !bytes.Equal(b, c.Peek(from)) {
				t.Fatal("a second look shows another frame")
			}
			if b == nil || r.IntN(3) == 0 {
				continue
			}
			if c.Peek(senders[0]) != nil && c.Peek(senders[1]) != nil {
				t.Fatal("two frames are shown at once")
			}
			in.Receive(now, from, b)
			c.Pass(now, len(b))
			ways["peek"]++
		}
	}
	n := f.Counts()
	if uint64(len(in.Frames)) != n.Passed || n.Passed != frames-n.Lost+n.Duplicated {
		t.Errorf("%d frames have come of %d; the wrapper counts %+v", len(in.Frames), frames, n)
	}
	for way, count := range ways {
		if count < frames/20 {
			t.Errorf("%d frames by %s", count, way)
		}
	}
	if len(ways) != 2 {
		t.Errorf("frames came by %v", ways)
	}
	damaged := uint64(0)
	for _, b := range in.Frames {
		if len(b) < 40 || !bytes.Equal(b[8:], bytes.Repeat(b[:1], 32)) {
			damaged++
		}
	}
	for what, count := range map[string]uint64{"lost": n.Lost, "twice": n.Duplicated, "corrupt": n.Corrupted, "cut": n.Truncated, "late": n.Reordered} {
		if count < frames/12 || count > frames/8 { // a tenth
			t.Errorf("%d of %d frames were %s; want a tenth", count, frames, what)
		}
	}
	if damaged < n.Truncated || damaged > 2*(n.Truncated+n.Corrupted) {
		t.Errorf("%d damaged frames have come; the wrapper counts %+v", damaged, n)
	}
}

// runs records the lengths of the runs.
type runs struct {
	linktest.Inbox
	lengths []int
}

func (r *runs) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	r.lengths = append(r.lengths, len(frames)/size)
	r.Inbox.ReceiveRun(now, from, frames, size)
}

func TestARunStaysOneButForTheFramesThatSomethingHappensTo(t *testing.T) {
	for _, cfg := range []fault.Config{{}, {Loss: 0.1, Seed: 3}, {Duplicate: 0.1, Seed: 3}} {
		q := &queue{}
		f := fault.Wrap(q, cfg)
		for i := range 100 {
			q.frames = append(q.frames, sent{mem.Address(1), bytes.Repeat([]byte{byte(i)}, 50)})
		}
		var in runs
		f.Poll(0, &in)
		n, last := f.Counts(), -1
		for _, b := range in.Frames {
			if int(b[0]) < last {
				t.Errorf("%+v: frame %d comes behind frame %d", cfg, b[0], last)
			}
			last = int(b[0])
		}
		if whole := n.Lost+n.Duplicated == 0; whole != (len(in.lengths) == 1) || uint64(len(in.lengths)) > n.Lost+n.Duplicated+1 {
			t.Errorf("%+v: %+v, and runs of %v", cfg, n, in.lengths)
		}
		if uint64(len(in.Frames)) != n.Passed {
			t.Errorf("%+v: %d frames have come; %d are counted", cfg, len(in.Frames), n.Passed)
		}
	}
}
