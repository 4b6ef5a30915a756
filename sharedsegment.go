package weft

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
)

// SharedSegment is memory that processes of a NIC share with the programs in that NIC. Each segment
// has a number. Programs in the NIC write to a segment with DELIVER and read from it with GET.
//
// A segment has 256 locks and 256 flags. Processes set locks and clear flags. Programs in the NIC
// clear locks and set flags. Access to locks and flags needs no system call. A program's lock n is
// lock n mod 256 of segment n / 256. Its flags are numbered in the same way.
//
// Any number of goroutines may use a SharedSegment concurrently. Only the segment's locks and flags
// protect the segment's bytes.
type SharedSegment struct {
	p     *Process
	id    uint32
	mem   []byte
	locks []uint32
	flags []uint32
	ended atomic.Bool
	leave func() error

	mu    sync.RWMutex   // read-locked by accesses and when a wait starts; locked by Close
	waits sync.WaitGroup // calls of WaitFlag and WaitLock, which read the memory
}

// sharedSegment is a segment of a NIC inside this program.
type sharedSegment struct {
	mem   []byte
	users map[*Process]int // number of open SharedSegments of each live process
	open  int              // number of open SharedSegments, including those of ended processes
	// hide hides the segment from programs in the driver of the link. It may be called repeatedly.
	hide  func() error
	close func() error // frees the memory
}

// SharedSegment opens the segment with the number id. If no process of this NIC has the segment,
// SharedSegment makes it, with all bytes zero. The argument bytes is the length of the segment, 1
// byte to 64 MiB. It is rounded up to a multiple of 8, and must be the same for every process that
// opens the segment. With a daemon, only processes of the same user share a segment, and the
// segments of each process count towards the daemon's quota region_bytes.
//
// [SharedSegment.Close] or the end of the process releases the segment. When the last process has
// released the segment, the segment is gone, and its number may be used for a new segment. If the
// process ends before [SharedSegment.Close], this Go program may still touch the bytes of the
// segment until it calls [SharedSegment.Close].
//
// A segment that the command weft segment create made stays without a process. SharedSegment opens
// it like any other.
//
// SharedSegment fails with [ErrBadArgument] if bytes is out of range or differs from the length of
// an existing segment. It fails with [ErrNotPermitted] if the segment belongs to another user who
// does not let others write to it, with [ErrNoMemory] if the quota is used up, and with [ErrClosed]
// if the process is closed.
func (p *Process) SharedSegment(id uint32, bytes int) (*SharedSegment, error) {
	fail := func(err error) (*SharedSegment, error) { return nil, segmentError("share", id, err) }
	switch {
	case bytes < 1 || bytes > limits.SegmentBytes:
		return fail(fmt.Errorf("%w: %d bytes; expected 1 to %d", ErrBadArgument, bytes, limits.SegmentBytes))
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

// shareSegment opens a segment of a NIC inside this program, and makes it if necessary. From then
// on, the segment's flags wake the process. The function leave releases the segment.
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
// makes memory that these programs can reach. If that fails, apart is the reason.
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

// leaveSegment releases one SharedSegment of a process. It frees the memory when no SharedSegment
// uses it any more.
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

// leaveSegments releases every segment of a process that ends. The memory of its open
// SharedSegments stays. The caller holds n.mu.
func (n *NIC) leaveSegments(p *Process) (err error) {
	for id, s := range n.segments {
		if s.users[p] > 0 {
			s.users[p] = 0
			err = errors.Join(err, n.dropSegment(p, id, s))
		}
	}
	return err
}

// dropSegment removes a segment from the NIC if no process has it any more. The process p has just
// released it. The caller holds n.mu.
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

// Bytes returns the memory of the segment. After Close, this Go program must not touch this memory.
func (s *SharedSegment) Bytes() []byte {
	return s.mem[: len(s.mem)-program.SegmentTail : len(s.mem)-program.SegmentTail]
}

// Lock sets lock i, 0 to 255. If the lock was clear, Lock returns true, and the caller now holds
// the lock. A program in the NIC clears the lock, and WaitLock waits for that. Lock returns false
// if the segment is closed, and panics if i is out of range.
func (s *SharedSegment) Lock(i int) bool {
	return s.look("lock", s.locks, i, func(lock *uint32) bool { return atomic.SwapUint32(lock, 1) == 0 })
}

// Locked reports whether lock i, 0 to 255, is set. It returns false if the segment is closed, and
// panics if i is out of range.
func (s *SharedSegment) Locked(i int) bool { return s.look("lock", s.locks, i, isSet) }

// Flag reports whether flag i, 0 to 255, is set. It returns false if the segment is closed, and
// panics if i is out of range.
func (s *SharedSegment) Flag(i int) bool { return s.look("flag", s.flags, i, isSet) }

// ClearFlag clears flag i, 0 to 255, and reports whether the flag was set. Programs in the NIC set
// flags. ClearFlag returns false if the segment is closed, and panics if i is out of range.
func (s *SharedSegment) ClearFlag(i int) bool { return s.look("flag", s.flags, i, clearFlag) }

func isSet(word *uint32) bool { return atomic.LoadUint32(word) != 0 }

func clearFlag(flag *uint32) bool { return atomic.SwapUint32(flag, 0) != 0 }

// look calls the function ask with a lock or a flag. Close waits until ask returns.
func (s *SharedSegment) look(what string, words []uint32, i int, ask func(*uint32) bool) bool {
	if i < 0 || i >= len(words) {
		panic(fmt.Sprintf("weft: %s %d of segment %d; expected 0 to %d", what, i, s.id, len(words)-1))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.ended.Load() && ask(&words[i])
}

// Close releases the segment. Calls of WaitFlag and WaitLock that wait fail with [ErrClosed].
// After Close, every lock and flag reads as clear. A second Close does nothing.
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
		return segmentError("close", s.id, err)
	}
	return nil
}

// segmentError returns the error of an operation on a segment.
func segmentError(what string, id uint32, err error) error {
	return &OpError{Op: fmt.Sprintf("%s segment %d", what, id), Err: err}
}
