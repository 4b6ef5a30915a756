package sweep

import (
	"fmt"
	"math/rand/v2"

	"github.com/weftnet/weft/internal/proc"
)

// A life's region. Other lives PUT into it and GET from it:
//
//	0                 readBytes                       readBytes + writeBytes
//	├─────────────────┼────────────────────────────────┤
//	│ noise, for GET  │ free, for PUT                  │
//	└─────────────────┴────────────────────────────────┘
//
// shadow holds the certain contents of the second part.
type region struct {
	own    *proc.Region
	mem    []byte
	base   uint64 // the id of the noise in the first part
	shadow []byte
	busy   []span // PUTs in flight, and PUTs whose extent is not known
}

type span struct{ from, to int }

const (
	readBytes  = 64 << 10
	writeBytes = 128 << 10
	mostMoved  = 48 << 10 // maximum bytes of one PUT or GET
)

func newRegion(own *proc.Region, mem []byte, base uint64) *region {
	r := &region{own: own, mem: mem, base: base, shadow: make([]byte, writeBytes)}
	copy(mem, cut(base, 0, readBytes))
	return r
}

// reserve finds room for a PUT of n bytes that no other PUT writes.
func (r *region) reserve(rng *rand.Rand, n int) (s span, ok bool) {
	for range 4 {
		s.from = rng.IntN(writeBytes - n)
		s.to = s.from + n
		if !r.isBusy(s) {
			r.busy = append(r.busy, s)
			return s, true
		}
	}
	return s, false
}

func (r *region) isBusy(s span) bool {
	for _, b := range r.busy {
		if s.from < b.to && b.from < s.to {
			return true
		}
	}
	return false
}

// written notes that a PUT has succeeded, and reports an error if its bytes are not there now.
func (r *region) written(s span, data []byte) error {
	copy(r.shadow[s.from:s.to], data)
	for i, b := range r.busy {
		if b == s {
			r.busy = append(r.busy[:i], r.busy[i+1:]...)
			break
		}
	}
	if i := mismatch(data, r.mem[readBytes+s.from:]); i < len(data) {
		return fmt.Errorf("byte %d of %d is not there", i, len(data))
	}
	return nil
}

// check reports bytes of the region that were never PUT, when nothing is in flight.
func (r *region) check() error {
	if i := mismatch(cut(r.base, 0, readBytes), r.mem); i < readBytes {
		return fmt.Errorf("byte %d, which no process may write, has changed", i)
	}
	for i := 0; i < writeBytes; i++ {
		if r.mem[readBytes+i] == r.shadow[i] {
			continue
		}
		if !r.isBusy(span{i, i + 1}) {
			return fmt.Errorf("byte %d has changed, and no PUT went there", readBytes+i)
		}
	}
	return nil
}
