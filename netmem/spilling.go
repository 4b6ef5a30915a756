package netmem

import (
	"hash/crc32"

	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/internal/mutate"
)

// transfer is a frame on its way to the spill file or back. The store begins and ends it. The I/O
// between runs without the store's lock:
//
//	evict ─► transfers ─► next ─► do: write ─► finish: the buffer is free
//	load  ─► transfers ─► next ─► do: read  ─► finish: the slot is free, waiting requests go on
//
// A frame that is being written stays readable in memory until the file has it. So a store may
// exceed its limit by some frames, and it has no room only when their number is at its bound.
type transfer struct {
	f    *frame
	b    *hsn.Buffer // source of a write, target of a read
	slot int64
	in   bool
	err  error
}

// do reads or writes.
func (t *transfer) do(in file) {
	if at := (t.slot - 1) * hsn.MaxPage; t.in {
		_, t.err = in.ReadAt(t.b.Page, at)
	} else {
		_, t.err = in.WriteAt(t.b.Page, at)
	}
}

// next returns the next transfer to do; nil if there is none.
func (s *store) next() *transfer {
	if len(s.transfers) == 0 {
		return nil
	}
	t := s.transfers[0]
	s.transfers = append(s.transfers[:0], s.transfers[1:]...)
	return t
}

// fits reports whether memory has room for another frame, now or when the evictions are done.
func (s *store) fits() bool {
	return s.frames-s.evicting < s.limit && s.frames < s.limit+overwriting
}

// makeRoom compacts sparse frames and spills others until there is room for one more. It returns
// statusFull if the file has no room, and statusBusy if there may be room soon.
func (s *store) makeRoom() status {
	if s.defect == mutate.PagesEvicted {
		if f := s.victim(); f != nil {
			for _, p := range f.places {
				if p != nil {
					s.drop(p)
				}
			}
		}
	}
	sweeps := 1
	if !s.hasSlots() {
		sweeps = maxSweeps
	}
	for s.frames-s.evicting >= s.limit && (s.sweepLess(&sweeps) || s.gather() || s.evict()) {
	}
	switch {
	case s.fits():
		return statusOK
	case len(s.out) > 0: // the next sweep may free a frame or a slot
		return statusBusy
	case s.frames-s.evicting < s.limit || s.loading > 0 || s.hasSlots():
		return statusBusy
	}
	return statusFull
}

// hasSlots reports whether a frame could go to the file.
func (s *store) hasSlots() bool { return s.spill != nil && len(s.spill.free) > 0 && !s.spill.sick }

// evict begins to spill a frame. It reports whether another eviction may follow at once.
func (s *store) evict() bool {
	if s.spill != nil && s.spill.sick && s.evicting > 0 {
		return false
	}
	f := s.victim()
	if f == nil {
		return false
	}
	slot := s.spill.take()
	if slot == 0 {
		return false
	}
	s.evicting++
	s.move(&transfer{f: f, b: f.b, slot: slot})
	return !s.spill.sick
}

// move begins a transfer.
func (s *store) move(t *transfer) {
	t.f.moving = true
	t.f.pins++
	s.settle(t.f)
	s.transfers = append(s.transfers, t)
}

// victim returns a frame that was not used since the clock hand last passed it; nil if all are in
// use.
func (s *store) victim() *frame {
	for range 2 * len(s.clock) {
		s.hand = (s.hand + 1) % len(s.clock)
		f := s.clock[s.hand]
		if f.pins == 0 && !f.used {
			return f
		}
		f.used = false
	}
	return nil
}

// load begins to read a frame back from the spill file and returns it; nil if it cannot now.
func (s *store) load(f *frame) *frame {
	if f.moving {
		return f
	}
	if s.frames >= s.limit+overwriting {
		return nil
	}
	b := s.pool.Take()
	if b == nil {
		return nil
	}
	s.frames++
	s.loading++
	s.move(&transfer{f: f, b: b, slot: f.slot, in: true})
	return f
}

// finish ends a transfer and returns the requests that waited for it. After the caller has served
// them, it calls evictBeyond.
func (s *store) finish(t *transfer) []request {
	f := t.f
	f.moving = false
	f.pins--
	if t.err != nil {
		s.spill.failed++
	}
	if t.in {
		s.loaded(t)
	} else {
		s.evicted(t)
	}
	s.settle(f)
	l := f.waits
	f.waits = nil
	return l
}

// loaded puts a frame into memory. Its slot is then free for the frame that makes room.
func (s *store) loaded(t *transfer) {
	f := t.f
	s.loading--
	s.spill.in++
	s.spill.release(f.slot)
	f.slot, f.b, f.used = 0, t.b, true
	for i, p := range f.places {
		if p == nil {
			continue
		}
		p.data = f.part(p, i)
		if t.err != nil || crc32.Checksum(p.data, castagnoli) != p.sum {
			s.bad++
			s.drop(p)
		}
	}
}

// evicted frees the memory of a frame that the file has, unless the write failed or the frame is
// needed.
func (s *store) evicted(t *transfer) {
	f := t.f
	s.evicting--
	s.spill.sick = t.err != nil
	if t.err != nil || f.pins > 0 || f.held == 0 {
		s.spill.release(t.slot)
		return
	}
	s.spill.out++
	f.slot = t.slot
	for _, p := range f.places {
		if p != nil {
			p.data = nil
		}
	}
	s.free(f)
}

// evictBeyond spills frames beyond the limit.
func (s *store) evictBeyond() {
	for s.frames-s.evicting > s.limit && s.evict() {
	}
}
