package weft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
)

// SharedSegment is memory that processes of a NIC share with the programs in that NIC. A number
// identifies it. Programs write it by DELIVER and read it by GET.
//
// A segment has 256 locks and 256 flags. Processes set locks and clear flags; programs clear locks
// and set flags. Neither needs a system call. In a program, lock or flag n is number n mod 256 of
// segment n / 256.
//
// Any number of goroutines may use a SharedSegment at once. Only its locks and flags protect its
// bytes.
type SharedSegment struct {
	p     *Process
	id    uint32
	mem   []byte
	locks []uint32
	flags []uint32
	ended atomic.Bool
	leave func() error

	mu    sync.RWMutex   // held by accesses that do not wait, and by waits at their start; locked by Close
	waits sync.WaitGroup // waits for flags, which read the memory
}

// sharedSegment is a segment of a NIC inside this program.
type sharedSegment struct {
	mem   []byte
	users map[*Process]int // how often each live process has the segment open
	open  int              // SharedSegments with the memory, also those of processes that have ended
	hide  func() error     // hides the segment from programs in the driver of the link; may be called again
	close func() error     // frees the memory
}

// SharedSegment opens the segment with a number. If no process of this NIC has the segment, it
// makes one, all zero. The length in bytes, 1 to 64 MiB, is rounded up to a multiple of 8, and must
// be the same for every process that opens the segment. With a daemon only processes of the same
// user share a segment, and each process's segments count towards its quota region_bytes.
//
// [SharedSegment.Close] or the end of the process releases the segment. When the last process has
// released it, the segment is gone, and its number is free for a new one. The bytes of an open
// SharedSegment remain memory after the end of its process, until Close.
//
// SharedSegment fails with [ErrBadArgument] if bytes is out of range or is not the segment's
// length. In a simulation, which has no segments, it always does. It fails with [ErrNotPermitted]
// if the segment belongs to another user, with [ErrNoMemory] if the quota is used up, and with
// [ErrClosed] if the process is closed.
func (p *Process) SharedSegment(id uint32, bytes int) (*SharedSegment, error) {
	fail := func(err error) (*SharedSegment, error) { return nil, fmt.Errorf("weft: segment %d: %w", id, err) }
	switch {
	case bytes < 1 || bytes > limits.SegmentBytes:
		return fail(fmt.Errorf("%w: %d bytes; expected 1 to %d", ErrBadArgument, bytes, limits.SegmentBytes))
	case p.share == nil:
		return fail(fmt.Errorf("%w: a simulated NIC has no segments", ErrBadArgument))
	case p.p.Closed():
		return fail(ErrClosed)
	}
	size := (bytes + 7) / 8 * 8
	mem, leave, err := p.share(id, size)
	if err != nil {
		return fail(err)
	}
	s := &SharedSegment{p: p, id: id, mem: mem[:size+program.SegmentTail], leave: leave}
	s.locks, s.flags = program.SegmentSync(s.mem)
	return s, nil
}

// shareSegment makes or finds a segment of a NIC inside this program. From then on its flags wake
// the process. leave releases the segment.
func (n *NIC) shareSegment(p *Process, id uint32, size int) (mem []byte, leave func() error, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, there := n.procs[p]; n.closed || !there {
		return nil, nil, ErrClosed
	}
	s := n.segments[id]
	if s == nil {
		var apart error
		s, apart = n.makeSegment(id, size)
		n.poller.Do(func(clock.Time) {
			err = n.engine.Programs().AddSegment(id, s.mem)
			n.engine.Programs().KeepApart(id, apart)
		})
		if err != nil {
			return nil, nil, errors.Join(err, s.close())
		}
		if n.segments == nil {
			n.segments = make(map[uint32]*sharedSegment)
		}
		n.segments[id] = s
	}
	if have := len(s.mem) - program.SegmentTail; have != size {
		return nil, nil, fmt.Errorf("%w: it has %d bytes, not %d", ErrBadArgument, have, size)
	}
	s.users[p]++
	s.open++
	n.poller.Do(func(clock.Time) { n.engine.ShareSegment(p.addr.Slot, p.addr.Generation, id, true) })
	return s.mem, func() error { return n.leaveSegment(p, id, s) }, nil
}

// makeSegment makes the memory of a segment. If programs can run in the driver of the link, it
// makes memory that they reach; apart is the reason why that failed.
func (n *NIC) makeSegment(id uint32, size int) (s *sharedSegment, apart error) {
	total := size + program.SegmentTail
	if n.resident != nil {
		m, err := n.resident.AddSegment(id, size)
		if err == nil {
			s = &sharedSegment{mem: m.Bytes[:total:total], users: make(map[*Process]int), hide: m.Hide, close: m.Close}
			return s, nil
		}
		if apart = err; n.log != nil {
			n.log.Warn("programs in the driver of the link cannot reach a segment", "error", err)
		}
	}
	nothing := func() error { return nil }
	s = &sharedSegment{mem: words(total)[:total], users: make(map[*Process]int), hide: nothing, close: nothing}
	return s, apart
}

// leaveSegment releases one SharedSegment of a process. The last one frees the memory.
func (n *NIC) leaveSegment(p *Process, id uint32, s *sharedSegment) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.users[p] > 0 {
		s.users[p]--
		err = n.dropSegment(p, id, s)
	}
	if s.open--; s.open == 0 {
		err = errors.Join(err, s.close())
	}
	return err
}

// leaveSegments releases every segment of a process that ends. Memory of its open SharedSegments
// stays. n.mu is held.
func (n *NIC) leaveSegments(p *Process) (err error) {
	for id, s := range n.segments {
		if s.users[p] > 0 {
			s.users[p] = 0
			err = errors.Join(err, n.dropSegment(p, id, s))
		}
	}
	return err
}

// dropSegment removes a segment from the NIC if no process has it any more. p has just released it.
// n.mu is held.
func (n *NIC) dropSegment(p *Process, id uint32, s *sharedSegment) (err error) {
	if s.users[p] == 0 {
		delete(s.users, p)
	}
	if len(s.users) > 0 {
		return nil
	}
	delete(n.segments, id)
	n.poller.Do(func(clock.Time) { err = n.engine.Programs().RemoveSegment(id) })
	if errors.Is(err, program.ErrNoSegment) {
		err = nil
	}
	return errors.Join(err, s.hide())
}

// Bytes returns the memory of the segment. It must not be touched after Close.
func (s *SharedSegment) Bytes() []byte {
	return s.mem[: len(s.mem)-program.SegmentTail : len(s.mem)-program.SegmentTail]
}

// Lock sets a lock, 0 to 255, and reports whether the lock was clear, so that the caller now has
// it. A program clears the lock. Lock returns false if the segment is closed, and panics if the
// lock's number is out of range.
func (s *SharedSegment) Lock(i int) bool {
	return s.look("lock", s.locks, i, func(lock *uint32) bool { return atomic.SwapUint32(lock, 1) == 0 })
}

// Locked reports whether a lock, 0 to 255, is set. It returns false if the segment is closed, and
// panics if the number is out of range.
func (s *SharedSegment) Locked(i int) bool { return s.look("lock", s.locks, i, isSet) }

// Flag reports whether a flag, 0 to 255, is set. It returns false if the segment is closed, and
// panics if the number is out of range.
func (s *SharedSegment) Flag(i int) bool { return s.look("flag", s.flags, i, isSet) }

// ClearFlag clears a flag, 0 to 255, and reports whether it was set. A program sets flags.
// ClearFlag returns false if the segment is closed, and panics if the number is out of range.
func (s *SharedSegment) ClearFlag(i int) bool { return s.look("flag", s.flags, i, clearFlag) }

func isSet(word *uint32) bool { return atomic.LoadUint32(word) != 0 }

func clearFlag(flag *uint32) bool { return atomic.SwapUint32(flag, 0) != 0 }

// look calls ask with a lock or flag. Close waits until it returns.
func (s *SharedSegment) look(what string, words []uint32, i int, ask func(*uint32) bool) bool {
	if i < 0 || i >= len(words) {
		panic(fmt.Sprintf("weft: %s %d of segment %d; expected 0 to %d", what, i, s.id, len(words)-1))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.ended.Load() && ask(&words[i])
}

// WaitFlag waits until a flag, 0 to 255, is set, and clears it. It fails with [ErrBadArgument] if
// the number is out of range, with [ErrClosed] if the segment is closed, and with ctx's error if
// ctx ends first.
func (s *SharedSegment) WaitFlag(ctx context.Context, i int) error {
	fail := func(err error) error { return fmt.Errorf("weft: flag %d of segment %d: %w", i, s.id, err) }
	if i < 0 || i >= len(s.flags) {
		return fail(fmt.Errorf("%w: expected 0 to %d", ErrBadArgument, len(s.flags)-1))
	}
	if !s.use() {
		return fail(ErrClosed)
	}
	defer s.waits.Done()
	flag := &s.flags[i]
	for !clearFlag(flag) {
		if err := s.p.p.Await(ctx, func() bool { return isSet(flag) || s.ended.Load() }); err != nil {
			return fail(err)
		}
		if s.ended.Load() {
			return fail(ErrClosed)
		}
	}
	return nil
}

// use keeps the memory until the caller calls waits.Done. It returns false if the segment is
// closed.
func (s *SharedSegment) use() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ended.Load() {
		return false
	}
	s.waits.Add(1)
	return true
}

// Close releases the segment. A WaitFlag that waits fails with [ErrClosed]. From then on every lock
// and flag reads as clear. A second Close does nothing.
func (s *SharedSegment) Close() error {
	s.mu.Lock()
	already := s.ended.Swap(true)
	s.mu.Unlock()
	if already {
		return nil
	}
	s.p.p.Wake()
	s.waits.Wait() // before leave, which may unmap the memory
	if err := s.leave(); err != nil {
		return fmt.Errorf("weft: segment %d: %w", s.id, err)
	}
	return nil
}
