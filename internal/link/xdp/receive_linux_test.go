package xdp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// flooded is a queue without a kernel. Its ring is always full of frames from one address.
type flooded struct {
	*queue
	rx    *producer[desc]
	bytes uint32
}

// newFlooded puts the same frame into each chunk.
func newFlooded(from netip.AddrPort) *flooded {
	n := indices{new(uint32), new(uint32), new(uint32)}
	fill := indices{new(uint32), new(uint32), new(uint32)}
	f := &flooded{queue: &queue{fd: -1, umem: make([]byte, fillRing*chunkBytes)}}
	entries := make([]desc, fillRing)
	f.rx, f.queue.rx = newProducer(n, entries), newConsumer(n, entries)
	f.fill = newProducer(fill, make([]uint64, fillRing))
	h := makeHeader(&path{from: from, to: netip.MustParseAddrPort("10.0.0.1:7")})
	for chunk := 0; chunk < len(f.umem); chunk += chunkBytes {
		b := f.umem[chunk+chunkSpare:][:h.n+8]
		binary.BigEndian.PutUint64(b[h.n:], 1)
		h.put(b)
		f.bytes = uint32(len(b))
	}
	return f
}

// receiveAgain fills the ring.
func (f *flooded) receiveAgain() {
	for f.rx.room(1) > 0 {
		chunk := uint64(f.rx.next&(fillRing-1)) * chunkBytes
		f.rx.put(desc{addr: chunk + chunkSpare, length: f.bytes})
	}
	f.rx.show()
	*f.fill.consumer = *f.fill.producer // all returned chunks are filled
}

// senders counts frames by their sender.
type senders map[link.Addr]int

func (s senders) Receive(_ clock.Time, from link.Addr, _ []byte) { s[from]++ }

func (s senders) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(s, now, from, frames, size)
}

func TestAFloodOnOneQueueLeavesTheOthersTheirTurn(t *testing.T) {
	d := &Driver{slowNext: clock.Never}
	var queues []*flooded
	for i := range 3 {
		f := newFlooded(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 2)}), 7))
		queues = append(queues, f)
		d.queues = append(d.queues, f.queue)
	}
	const polls = 90 // fewer than until the first look at the ordinary socket
	in := senders{}
	for range polls {
		for _, f := range queues {
			f.receiveAgain()
		}
		if n, _ := d.Poll(0, in); n != limits.PollBatch {
			t.Fatalf("a poll of full queues brings %d frames; expected %d", n, limits.PollBatch)
		}
	}
	for from, n := range in {
		if n != polls*limits.PollBatch/len(queues) {
			t.Errorf("%d frames of %d are from %v", n, polls*limits.PollBatch, from)
		}
	}
	if len(in) != len(queues) {
		t.Errorf("frames have come by %d of %d queues", len(in), len(queues))
	}
}
