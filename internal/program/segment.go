package program

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
)

// A segment is memory that programs and processes of a NIC share, known by a number (PANIC-23).
// Behind its data it has locks and flags, one word each (PANIC-24). Processes set locks and clear
// flags; programs clear locks and set flags. All use atomic stores, so neither side needs a
// system call. Lock or flag n of the language is word n mod SegmentWords of segment n /
// SegmentWords.
//
//	│ data                       │ locks, SegmentWords × 4 │ flags, SegmentWords × 4 │
//
// The memory was made by the caller of the engine, never by a process.
type segment struct {
	data  []byte
	locks []uint32
	flags []uint32
	apart error // why programs in the driver do not reach it; nil: they do, or there are none
}

// SegmentTail is the number of bytes of a segment behind its data.
const SegmentTail = 2 * limits.SegmentWords * 4

// Reasons to refuse a segment.
var (
	ErrNoSegment  = errors.New("no such segment")
	ErrSegmentBad = errors.New("segment cannot be added")
)

// AddSegment makes memory available to programs by a number. It has SegmentTail bytes behind the
// data, and is aligned to words of 8 bytes.
func (t *Table) AddSegment(id uint32, mem []byte) error {
	n := len(mem) - SegmentTail
	switch {
	case n < 1 || n > limits.SegmentBytes || n%8 != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 != 0:
		return fmt.Errorf("program: %w: it has %d bytes of data; expected 8 to %d, by eights",
			ErrSegmentBad, n, limits.SegmentBytes)
	case t.segments[id] != nil:
		return fmt.Errorf("program: %w: there is one with number %d", ErrSegmentBad, id)
	case len(t.segments) >= limits.Segments:
		return fmt.Errorf("program: %w: there are %d, which is all there may be", ErrSegmentBad, limits.Segments)
	}
	locks, flags := SegmentSync(mem)
	t.segments[id] = &segment{data: mem[:n], locks: locks, flags: flags}
	return nil
}

// KeepApart notes that programs in the driver do not find a segment, and why. List tells that
// reason.
func (t *Table) KeepApart(id uint32, why error) {
	if s := t.segments[id]; s != nil {
		s.apart = why
	}
}

// lacks returns the segments that a program in the driver does not find there, and why. It is
// empty if there are none, or if the program needs none.
func (t *Table) lacks(l *loaded) string {
	if !l.inDriver || !l.spec.Module.UsesSegments() {
		return ""
	}
	var all []string
	for _, id := range slices.Sorted(maps.Keys(t.segments)) {
		if why := t.segments[id].apart; why != nil {
			all = append(all, why.Error())
		}
	}
	return strings.Join(all, "; ")
}

// RemoveSegment removes a segment. Programs do not touch it after RemoveSegment returns.
func (t *Table) RemoveSegment(id uint32) error {
	if t.segments[id] == nil {
		return fmt.Errorf("program: %w: %d", ErrNoSegment, id)
	}
	delete(t.segments, id)
	return nil
}

// SegmentSync returns the locks and flags behind the data of a segment.
func SegmentSync(mem []byte) (locks, flags []uint32) {
	tail := mem[len(mem)-SegmentTail:]
	all := unsafe.Slice((*uint32)(unsafe.Pointer(&tail[0])), 2*limits.SegmentWords)
	return all[:limits.SegmentWords:limits.SegmentWords], all[limits.SegmentWords:]
}

func (t *Table) segmentOf(id int64) *segment {
	if uint64(id) > 1<<32-1 {
		return nil
	}
	return t.segments[uint32(id)]
}

// words returns the segment of a lock or flag, and its index there. In a missing segment every
// lock is clear.
func (t *Table) words(n int64) (s *segment, i int) {
	if n < 0 {
		return nil, 0
	}
	return t.segmentOf(n / limits.SegmentWords), int(n % limits.SegmentWords)
}

// Lock implements vm.Host.
func (h *host) Lock(n int64) bool {
	s, i := h.table().words(n)
	return s != nil && atomic.LoadUint32(&s.locks[i]) != 0
}

// ClearLock implements vm.Host. It rings too: a process may wait until a lock that it has set is
// cleared.
func (h *host) ClearLock(n int64) {
	if s, i := h.table().words(n); s != nil {
		atomic.StoreUint32(&s.locks[i], 0)
		h.nic.Rang(uint32(n / limits.SegmentWords))
	}
}

// SetFlag implements vm.Host.
func (h *host) SetFlag(n int64) {
	if s, i := h.table().words(n); s != nil {
		atomic.StoreUint32(&s.flags[i], 1)
		h.nic.Rang(uint32(n / limits.SegmentWords))
	}
}

// Rang makes the processes that share a segment check it: a program in the driver has set a flag
// of it, or cleared a lock.
func (t *Table) Rang(segment uint32) { t.nic.Rang(segment) }

// RangAll is Rang for all segments.
func (t *Table) RangAll() {
	for _, id := range slices.Sorted(maps.Keys(t.segments)) {
		t.nic.Rang(id)
	}
}
