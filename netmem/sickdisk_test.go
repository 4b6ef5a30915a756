package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
)

// blindFile is a file that fails to read while it is blind, after it has read the bytes.
type blindFile struct {
	file
	blind bool
}

func (f *blindFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.file.ReadAt(b, at)
	if f.blind {
		err = errDisk
	}
	return n, err
}

// If the disk fails to read a frame, the pages of the frame are missing, whatever the bytes are.
// Their slot and memory are free. Pages in other frames stay.
func TestPagesThatTheDiskFailsToReadAreMissing(t *testing.T) {
	s := newShelf(t, 1)
	s.spillTo(t, 3)
	total := s.pool.Len()
	for i := range uint64(6) {
		s.put(pageKey{page: i}, 1, pattern(hsn.HalfPage, i))
	}
	disk := &blindFile{file: s.spill.f, blind: true}
	s.spill.f = disk
	if got := s.get(pageKey{page: 0}); got != nil || s.at(pageKey{page: 1}) != nil {
		t.Error("a page that the disk has failed to read is still there")
	}
	if s.spill.failed != 1 || s.bad != 2 || len(s.spill.free) != 2 || s.count() != 4 || s.pool.Len()+s.frames != total || s.loading != 0 {
		t.Errorf("%d failures, %d bad pages, %d of 3 slots free, %d pages, %d of %d buffers, %d frames are read",
			s.spill.failed, s.bad, len(s.spill.free), s.count(), s.pool.Len()+s.frames, total, s.loading)
	}
	disk.blind = false
	for i := uint64(2); i < 6; i++ {
		if s.get(pageKey{page: i}) == nil {
			t.Errorf("page %d is gone", i)
		}
	}
	if err := s.counted(); err != nil {
		t.Error(err)
	}
}

// While answers send the old version of a page, a new version needs its own frame. A store makes
// at most overwriting such frames, and reads back no more frames than that.
func TestAStoreExceedsItsLimitByItsBoundOnly(t *testing.T) {
	s := newShelf(t, 1)
	var pins []*frame
	st, v := statusOK, uint64(1)
	for ; st == statusOK && v <= 2*overwriting; v++ {
		if _, st = s.put(pageKey{page: 1}, v, pattern(hsn.MaxPage, v)); st == statusOK {
			pins = append(pins, s.pin(s.at(pageKey{page: 1})))
		}
	}
	if s.frames != 1+overwriting || st == statusOK {
		t.Errorf("a store of 1 frame has %d, and version %d ends with status %d; expected %d frames", s.frames, v, st, 1+overwriting)
	}
	for _, f := range pins {
		s.unpin(f)
	}
	if s.frames != 1 || s.room() != 0 {
		t.Errorf("%d frames are left when nothing is sent any more, with room for %d bytes", s.frames, s.room())
	}
	s = newShelf(t, 1)
	s.spillTo(t, 2*overwriting)
	for i := range uint64(2 * overwriting) {
		s.put(pageKey{page: i}, 1, pattern(hsn.MaxPage, i))
	}
	loads := 0
	for i := range uint64(2 * overwriting) {
		if p, away := s.store.get(pageKey{page: i}); p.data == nil && away != nil {
			if again := s.load(p.frame); again != away {
				t.Error("a frame is read twice")
			}
			loads++
		}
	}
	if loads != overwriting || s.loading != overwriting || s.frames != 1+overwriting {
		t.Errorf("%d frames are read back at once, and %d are in memory; expected %d and %d", loads, s.frames, overwriting, 1+overwriting)
	}
	s.move()
	if s.frames != 1 || s.loading != 0 || s.count() != 2*overwriting {
		t.Errorf("after the reads, %d frames are in memory, %d are read, and %d pages are left", s.frames, s.loading, s.count())
	}
}

// A store whose pool has no buffer reads no frame back, and counts none.
func TestAStoreWithoutBuffersReadsNothingBack(t *testing.T) {
	s := newShelf(t, 1)
	s.spillTo(t, 2)
	for i := range uint64(2) {
		s.put(pageKey{page: i}, 1, pattern(hsn.MaxPage, i))
	}
	var taken []*hsn.Buffer
	for b := s.pool.Take(); b != nil; b = s.pool.Take() {
		taken = append(taken, b)
	}
	for i := range uint64(2) {
		if p, away := s.store.get(pageKey{page: i}); p == nil || p.data == nil && (away != nil || s.loading != 0 || s.frames != 1) {
			t.Errorf("page %d is read into no buffer: %d frames are read, and %d in memory", i, s.loading, s.frames)
		}
	}
	for _, b := range taken {
		s.pool.Free(b)
	}
	for i := range uint64(2) {
		if s.get(pageKey{page: i}) == nil {
			t.Errorf("page %d is gone", i)
		}
	}
}

// A closed file has no slots, and a second close does nothing.
func TestAClosedSpillFileTakesNothing(t *testing.T) {
	s := newShelf(t, 1)
	s.spillTo(t, 2)
	if slot := s.spill.take(); slot != 1 && slot != 2 {
		t.Errorf("slot %d of 2", slot)
	}
	for i := range 2 {
		if err := s.spill.close(); err != nil {
			t.Errorf("close %d: %v", i, err)
		}
	}
	var no *spill
	if slot := s.spill.take(); slot != 0 || no.take() != 0 || no.close() != nil {
		t.Errorf("a closed file gives slot %d, and no file gives slot %d", slot, no.take())
	}
}

// No request waits twice for the disk, and at most maxParked requests wait.
func TestRequestsThatWaitForTheDiskAreBounded(t *testing.T) {
	s := &Server{}
	f := &frame{}
	from := func(slot uint32) hsn.Host { return hsn.Host{Slot: uint16(slot)} }
	ask := func(slot, number uint32) bool {
		q := &request{record: record{request: number}, from: from(slot)}
		q.m.From = q.from
		return s.park(f, q)
	}
	if !ask(1, 1) || ask(1, 1) || !ask(2, 1) || !ask(1, 2) || s.parked != 3 || len(f.waits) != 3 {
		t.Errorf("%d requests are parked as %d; expected 3, each once", len(f.waits), s.parked)
	}
	for i := uint32(3); s.parked < maxParked; i++ {
		if !ask(1, i) {
			t.Fatalf("request %d of %d does not wait", s.parked+1, maxParked)
		}
	}
	if ask(9, 9) || len(f.waits) != maxParked {
		t.Errorf("%d requests wait; expected %d", len(f.waits), maxParked)
	}
}

// A server is closed while its disk reads and writes. Its memory is freed when the disk has
// finished, and not before, because another server could get the memory.
func TestTheMemoryOfAClosedServerIsKeptWhileItsDiskUsesIt(t *testing.T) {
	onSlowDisk(t, func(ctx context.Context, c *Client, s *Server, disk *slowFile) error {
		_, away := s.parts()
		disk.takes = 500 * time.Millisecond
		c.p.Runtime().Go(func() { _ = reads(ctx, c, away[0], 100*time.Millisecond) })
		sleep(c.p, 50*time.Millisecond)
		returned := func() bool {
			s.port.mu.Lock()
			defer s.port.mu.Unlock()
			return s.port.returned
		}
		if s.port.lent.Load() == 0 {
			return errors.New("the disk reads nothing")
		}
		s.Close()
		sleep(c.p, 200*time.Millisecond)
		if returned() {
			return errors.New("the memory is given back while the disk writes into it")
		}
		sleep(c.p, 5*time.Second)
		if err := s.Err(); !returned() || !errors.Is(err, weft.ErrClosed) || s.port.lent.Load() != 0 {
			return fmt.Errorf("the memory is not given back after the disk has ended: %d loans (%w)", s.port.lent.Load(), err)
		}
		return nil
	})
}

// The memory limit of a store is reached, all frames are on their way to the file, and the last
// frame has taken the last slot. The next page will have room soon, so its client is told to ask
// again, and not that the server is full.
func TestAPageForWhichThereIsRoomSoonIsNotRefused(t *testing.T) {
	const frames = overwriting + 8
	s := newShelf(t, frames)
	s.spillTo(t, overwriting+1)
	put := func(i uint64) status { return s.within(0, pageKey{page: i}, 1, pattern(hsn.MaxPage, i)) }
	for i := range uint64(frames + overwriting) {
		if st := put(i); st != statusOK {
			t.Fatalf("page %d: status %d", i, st)
		}
	}
	if s.evicting != overwriting || s.frames != frames+overwriting {
		t.Fatalf("%d frames are in memory, and %d of them go to the file", s.frames, s.evicting)
	}
	if st := put(1000); st != statusBusy || len(s.spill.free) != 0 {
		t.Errorf("a page for which a frame is free soon: status %d, with %d free slots; expected %d", st, len(s.spill.free), statusBusy)
	}
	s.move()
	if st := put(1000); st != statusOK {
		t.Errorf("when the file has taken the frames: status %d", st)
	}
	if st := put(1001); st != statusFull {
		t.Errorf("one page more: status %d; expected %d", st, statusFull)
	}
}
