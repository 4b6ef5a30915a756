package xdp

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

// pair returns both halves of a ring: a producer for one side and a consumer for the other.
func pair(n int) (*producer[uint64], *consumer[uint64]) {
	i := indices{new(uint32), new(uint32), new(uint32)}
	*i.producer, *i.consumer = 1<<32-5, 1<<32-5 // will wrap soon
	entries := make([]uint64, n)
	return newProducer(i, entries), newConsumer(i, entries)
}

// Compares a ring with the simplest second implementation.
func TestARingIsAQueue(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 << rng.IntN(6)
		p, c := pair(n)
		var queue []uint64
		// Indices of queue: what the consumer may see, and what it has read and not returned.
		shown, taken := 0, 0
		for step := range 3000 {
			switch rng.IntN(4) {
			case 0:
				if room := p.room(1); room > 0 {
					v := rng.Uint64()
					p.put(v)
					queue = append(queue, v)
				} else if len(queue) < n {
					t.Fatalf("seed %d, step %d: no room with %d of %d", seed, step, len(queue), n)
				}
				if len(queue) > n {
					t.Fatalf("seed %d, step %d: %d entries in a ring of %d", seed, step, len(queue), n)
				}
			case 1:
				p.show()
				shown = len(queue)
			case 2:
				v, ok := c.get()
				if ok != (taken < shown) || ok && v != queue[taken] {
					t.Fatalf("seed %d, step %d: get = %d, %v; %d shown, %d taken", seed, step, v, ok, shown, taken)
				}
				if ok {
					taken++
				}
			case 3:
				c.done()
				queue, shown, taken = queue[taken:], shown-taken, 0
			}
		}
	}
}

// The same with the fuzzer's steps: the low two bits of a byte select the operation, and the
// others its size, if it has one.
func FuzzRing(f *testing.F) {
	f.Add(uint8(3), []byte{0, 1, 2, 3, 4, 8, 12, 1, 2, 2, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2})
	f.Fuzz(func(t *testing.T, size uint8, steps []byte) {
		n := 1 << (size % 6)
		p, c := pair(n)
		var queue []uint64
		shown, taken := 0, 0
		for i, s := range steps {
			for range 1 + s>>2%8 {
				switch s & 3 {
				case 0:
					if p.room(1) > 0 != (len(queue) < n) {
						t.Fatalf("step %d: room %d with %d of %d", i, p.room(1), len(queue), n)
					}
					if len(queue) < n {
						p.put(uint64(i))
						queue = append(queue, uint64(i))
					}
				case 1:
					if got := p.show(); int(got) != len(queue)-shown || p.pending() != (len(queue) > 0) {
						t.Fatalf("step %d: show = %d with %d of %d shown", i, got, shown, len(queue))
					}
					shown = len(queue)
				case 2:
					v, ok := c.get()
					if ok != (taken < shown) || ok && v != queue[taken] {
						t.Fatalf("step %d: get = %d, %v; %d shown, %d taken", i, v, ok, shown, taken)
					}
					if ok {
						taken++
					}
				case 3:
					c.done()
					queue, shown, taken = queue[taken:], shown-taken, 0
				}
			}
		}
	})
}

func TestBothHalvesAtFullSpeed(t *testing.T) {
	const entries = 200_000
	p, c := pair(64)
	go func() {
		for i := uint64(0); i < entries; {
			for p.room(1) > 0 && i < entries && i%7 != 6 {
				p.put(i)
				i++
			}
			if p.room(1) > 0 && i < entries {
				p.put(i)
				i++
			}
			p.show()
			runtime.Gosched()
		}
	}()
	for want := uint64(0); want < entries; {
		v, ok := c.get()
		if !ok {
			c.done()
			runtime.Gosched()
			continue
		}
		if v != want {
			t.Fatalf("entry %d came out as %d", want, v)
		}
		want++
	}
}
