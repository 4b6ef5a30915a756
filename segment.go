package weft

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
)

// A Segment is memory that processes and the programs of their NIC share, known by a number: programs move bytes in and out by DELIVER and GET.
// It has 256 locks and 256 flags. Processes set locks and clear flags, programs clear locks and set flags; neither needs a system call.
// Lock or flag n of the language is number n mod 256 of segment n / 256. Any number of goroutines may use a Segment; its bytes have no other
// protection than its locks and flags.
type Segment struct {
	p     *Process
	id    uint32
	mem   []byte
	locks []uint32
	flags []uint32
	ended atomic.Bool
}

// sharedSegment is a segment of a NIC inside this program.
type sharedSegment struct {
	mem   []byte
	users int
}

// Segment makes the segment with a number, of so many bytes, or shares it if another process of this program has made it, with as many. Close
// lets it go; it is freed with the last that has it. It is for processes whose NIC is inside this program.
func (p *Process) Segment(id uint32, bytes int) (*Segment, error) {
	if p.nic == nil {
		return nil, fmt.Errorf("weft: segment %d: %w: the NIC of this process is not inside this program", id, ErrBadArgument)
	}
	mem, err := p.nic.shareSegment(p, id, bytes)
	if err != nil {
		return nil, fmt.Errorf("weft: segment %d: %w", id, err)
	}
	s := &Segment{p: p, id: id, mem: mem}
	s.locks, s.flags = program.SegmentSync(mem)
	return s, nil
}

// shareSegment makes or finds a segment, and has its flags wake the process.
func (n *NIC) shareSegment(p *Process, id uint32, size int) (mem []byte, err error) {
	if size < 1 || size > limits.SegmentBytes {
		return nil, fmt.Errorf("%w: %d bytes; expected 1 to %d", ErrBadArgument, size, limits.SegmentBytes)
	}
	size = (size + 7) / 8 * 8
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	s := n.segments[id]
	if s == nil {
		s = &sharedSegment{mem: words(size + program.SegmentTail)[:size+program.SegmentTail]}
		n.poller.Do(func(clock.Time) { err = n.engine.Programs().AddSegment(id, s.mem) })
		if err != nil {
			return nil, err
		}
		if n.segments == nil {
			n.segments = make(map[uint32]*sharedSegment)
		}
		n.segments[id] = s
	}
	if have := len(s.mem) - program.SegmentTail; have != size {
		return nil, fmt.Errorf("%w: it has %d bytes, not %d", ErrBadArgument, have, size)
	}
	s.users++
	n.poller.Do(func(clock.Time) { n.engine.ShareSegment(p.addr.Slot, p.addr.Generation, id, true) })
	return s.mem, nil
}

// leaveSegment frees a segment with the last that has it.
func (n *NIC) leaveSegment(id uint32) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.segments[id]
	if s.users--; s.users > 0 {
		return nil
	}
	delete(n.segments, id)
	n.poller.Do(func(clock.Time) { err = n.engine.Programs().RemoveSegment(id) })
	return err
}

// Bytes is the memory of the segment. It must not be used after Close.
func (s *Segment) Bytes() []byte {
	return s.mem[: len(s.mem)-program.SegmentTail : len(s.mem)-program.SegmentTail]
}

// Lock sets a lock, 0 to 255, and reports whether it was clear. A program clears it.
func (s *Segment) Lock(i int) bool { return atomic.SwapUint32(&s.locks[i], 1) == 0 }

// Locked reports whether a lock is set.
func (s *Segment) Locked(i int) bool { return atomic.LoadUint32(&s.locks[i]) != 0 }

// Flag reports whether a flag, 0 to 255, is set.
func (s *Segment) Flag(i int) bool { return atomic.LoadUint32(&s.flags[i]) != 0 }

// ClearFlag clears a flag and reports whether it was set. A program sets it.
func (s *Segment) ClearFlag(i int) bool { return atomic.SwapUint32(&s.flags[i], 0) != 0 }

// WaitFlag waits until a flag is set, and clears it.
func (s *Segment) WaitFlag(ctx context.Context, i int) error {
	for !s.ClearFlag(i) {
		if err := s.p.p.Await(ctx, func() bool { return s.Flag(i) || s.ended.Load() }); err != nil {
			return fmt.Errorf("weft: flag %d of segment %d: %w", i, s.id, err)
		}
		if s.ended.Load() {
			return fmt.Errorf("weft: flag %d of segment %d: %w", i, s.id, ErrClosed)
		}
	}
	return nil
}

// Close lets the segment go.
func (s *Segment) Close() error {
	if s.ended.Swap(true) {
		return nil
	}
	err := s.p.nic.leaveSegment(s.id)
	if errors.Is(err, program.ErrNoSegment) {
		err = nil
	}
	return err
}
