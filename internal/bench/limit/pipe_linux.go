package limit

import (
	"sync/atomic"
	"unsafe"
)

// pipe is a ring of slots in shared memory with one producer and one consumer:
//
//	┌────────┬────────────────────────┐ ┌─ ─
//	│ word   │ up to chunk bytes      │ │        slots, each on its own cache lines
//	└────────┴────────────────────────┘ └─ ─     word: index + 1 of the chunk in the slot
//
// Each chunk is published when it is complete. The consumer publishes its progress every quarter
// of the ring, in a cache line before the slots.
type pipe struct {
	mem           []byte
	chunk, stride int
	slots         uint64
	next          uint64 // chunk to put or take
	limit         uint64 // end of the slots that the producer may fill
	consumed      *uint64
	since         uint64 // the consumer's progress that it has published
}

// pipeHead is the room before the slots. The line after the progress stays empty: processors
// fetch lines in pairs.
const pipeHead = 128

func newPipe(mem []byte, chunk, slots int) *pipe {
	p := &pipe{mem: mem[pipeHead:], chunk: chunk, stride: (8 + chunk + 63) &^ 63, slots: uint64(slots)}
	p.consumed = (*uint64)(unsafe.Pointer(&mem[0]))
	p.limit = p.slots
	return p
}

// pipeBytes returns the size of a pipe in bytes.
func pipeBytes(chunk, slots int) int { return pipeHead + slots*((8+chunk+63)&^63) }

func (p *pipe) slot() (word *uint64, data []byte) {
	at := int(p.next%p.slots) * p.stride
	return (*uint64)(unsafe.Pointer(&p.mem[at])), p.mem[at+8 : at+8+p.chunk]
}

// put copies a message in, chunk by chunk, as there is room.
func (p *pipe) put(b []byte) {
	for {
		for p.next == p.limit {
			p.limit = atomic.LoadUint64(p.consumed) + p.slots
		}
		word, data := p.slot()
		n := copy(data, b)
		p.next++
		atomic.StoreUint64(word, p.next)
		if b = b[n:]; len(b) == 0 {
			return
		}
	}
}

// take copies a message of len(b) bytes out, chunk by chunk, as they come.
func (p *pipe) take(b []byte) {
	for {
		word, data := p.slot()
		for atomic.LoadUint64(word) != p.next+1 {
		}
		n := copy(b, data)
		p.next++
		if p.next-p.since >= (p.slots+3)/4 {
			p.since = p.next
			atomic.StoreUint64(p.consumed, p.next)
		}
		if b = b[n:]; len(b) == 0 {
			return
		}
	}
}
