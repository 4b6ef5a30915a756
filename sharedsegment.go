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

// SharedSegment is memory that processes and the programs of their NIC share, known by a number: programs move bytes in and out by DELIVER and GET.
// It has 256 locks and 256 flags. Processes set locks and clear flags, programs clear locks and set flags; neither needs a system call.
// Lock or flag n of the language is number n mod 256 of segment n / 256. Any number of goroutines may use a Segment; its bytes have no other
// protection than its locks and flags.
type SharedSegment struct {
	p     *Process
	id    uint32
	mem   []byte
	locks []uint32
	flags []uint32
	ended atomic.Bool
	leave func() error

	mu    sync.RWMutex   // read: of what looks at the memory at once, or begins to wait; written: of Close
	waits sync.WaitGroup // that look at the memory
}

// sharedSegment is a segment of a NIC inside this program.
type sharedSegment struct {
	mem   []byte
	users map[*Process]int // that have it, and how often; a process that has ended has none
	open  int              // Segments with its memory, those of processes that have ended too
	hide  func() error     // programs in the driver of the link find it no more; may be called again
	close func() error     // its memory goes
}

// Segment makes the segment with a number, of so many bytes, or shares it if another process of this NIC has made it, with as many. Close lets it
// go, and so does the end of the process, behind which its bytes stay memory until Close; it is freed with the last that has it. At a daemon, processes of one user share segments. A process of package
// sim has none: Segment fails with [ErrBadArgument].
func (p *Process) SharedSegment(id uint32, bytes int) (*SharedSegment, error) {
	fail := func(err error) (*SharedSegment, error) { return nil, fmt.Errorf("weft: segment %d: %w", id, err) }
	switch {
	case bytes < 1 || bytes > limits.SegmentBytes:
		return fail(fmt.Errorf("%w: %d bytes; expected 1 to %d", ErrBadArgument, bytes, limits.SegmentBytes))
	case p.share == nil:
		return fail(fmt.Errorf("%w: the NIC of this process has none", ErrBadArgument))
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

// shareSegment makes or finds a segment of a NIC inside this program, and has its flags wake the process. leave lets go of it.
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

// makeSegment makes the memory of a segment, where programs in the driver of the link reach it if there can be some. apart is why they do not.
func (n *NIC) makeSegment(id uint32, size int) (s *sharedSegment, apart error) {
	total := size + program.SegmentTail
	if n.resident != nil {
		m, err := n.resident.AddSegment(id, size)
		if err == nil {
			return &sharedSegment{mem: m.Bytes[:total:total], users: make(map[*Process]int), hide: m.Hide, close: m.Close}, nil
		}
		if apart = err; n.log != nil {
			n.log.Warn("a segment is out of reach of programs in the driver of the link", "error", err)
		}
	}
	nothing := func() error { return nil }
	return &sharedSegment{mem: words(total)[:total], users: make(map[*Process]int), hide: nothing, close: nothing}, apart
}

// leaveSegment has a process let go of a segment that it has shared once. Its memory goes with the last Segment.
func (n *NIC) leaveSegment(p *Process, id uint32, s *sharedSegment) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.users[p] > 0 {
		s.users[p]--
		err = n.keepSegment(p, id, s)
	}
	if s.open--; s.open == 0 {
		err = errors.Join(err, s.close())
	}
	return err
}

// leaveSegments has a process that ends let go of all that it shares: others may make them anew. What it has mapped stays memory. n.mu is held.
func (n *NIC) leaveSegments(p *Process) (err error) {
	for id, s := range n.segments {
		if s.users[p] > 0 {
			s.users[p] = 0
			err = errors.Join(err, n.keepSegment(p, id, s))
		}
	}
	return err
}

// keepSegment keeps a segment from programs if no process has it any more, after one has let go of it. n.mu is held.
func (n *NIC) keepSegment(p *Process, id uint32, s *sharedSegment) (err error) {
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

// Bytes is the memory of the segment. It must not be used after Close.
func (s *SharedSegment) Bytes() []byte {
	return s.mem[: len(s.mem)-program.SegmentTail : len(s.mem)-program.SegmentTail]
}

// Lock sets a lock, 0 to 255, and reports whether it was clear. A program clears it. It is false of a segment that is closed. As Locked, Flag
// and ClearFlag, it panics for another number.
func (s *SharedSegment) Lock(i int) bool {
	return s.look("lock", s.locks, i, func(lock *uint32) bool { return atomic.SwapUint32(lock, 1) == 0 })
}

// Locked reports whether a lock is set. It is false of a segment that is closed.
func (s *SharedSegment) Locked(i int) bool { return s.look("lock", s.locks, i, isSet) }

// Flag reports whether a flag, 0 to 255, is set. It is false of a segment that is closed.
func (s *SharedSegment) Flag(i int) bool { return s.look("flag", s.flags, i, isSet) }

// ClearFlag clears a flag and reports whether it was set. A program sets it. It is false of a segment that is closed.
func (s *SharedSegment) ClearFlag(i int) bool { return s.look("flag", s.flags, i, clearFlag) }

func isSet(word *uint32) bool { return atomic.LoadUint32(word) != 0 }

func clearFlag(flag *uint32) bool { return atomic.SwapUint32(flag, 0) != 0 }

// look asks of a lock or flag, while the memory is there.
func (s *SharedSegment) look(what string, words []uint32, i int, ask func(*uint32) bool) bool {
	if i < 0 || i >= len(words) {
		panic(fmt.Sprintf("weft: %s %d of segment %d; expected 0 to %d", what, i, s.id, len(words)-1))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.ended.Load() && ask(&words[i])
}

// WaitFlag waits until a flag is set, and clears it. It fails with [ErrBadArgument] for a number that is not 0 to 255, and with [ErrClosed] when the
// segment is closed.
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

// use keeps the memory until waits.Done. It is false when the segment is closed.
func (s *SharedSegment) use() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ended.Load() {
		return false
	}
	s.waits.Add(1)
	return true
}

// Close lets the segment go. What waits for a flag of it ends with [ErrClosed], and its locks and flags are clear to this process from then on.
func (s *SharedSegment) Close() error {
	s.mu.Lock()
	already := s.ended.Swap(true)
	s.mu.Unlock()
	if already {
		return nil
	}
	s.p.p.Wake()
	s.waits.Wait() // the memory may be unmapped then
	if err := s.leave(); err != nil {
		return fmt.Errorf("weft: segment %d: %w", s.id, err)
	}
	return nil
}
