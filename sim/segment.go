package sim

import (
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/program"
)

// Segment is memory that programs in a NIC reach by a number. [Fabric.Segment] makes it, and
// processes of the host open it with SharedSegment. A Segment stays until Delete, or until its
// NIC stops.
type Segment struct {
	n     *node
	id    uint32
	s     *segment
	locks []uint32
	flags []uint32
}

// segment is a segment of a simulated NIC.
type segment struct {
	mem   []byte           // the data, followed by locks and flags
	users map[*Process]int // number of open SharedSegments of each live process
	kept  bool             // by a Segment
}

// Segment makes a segment of the NIC of a host, with all bytes zero, as the command weft segment
// create does. The argument bytes is the length, 1 byte to 64 MiB. It is rounded up to a multiple
// of 8. Segment fails with [weft.ErrBadArgument] if bytes is out of range, or if the NIC is
// stopped, has 1,024 segments, or has a segment with this number. Segment panics if the host does
// not exist.
func (f *Fabric) Segment(host int, id uint32, bytes int) (*Segment, error) {
	if host < 0 || host >= len(f.nodes) {
		panic(fmt.Sprintf("sim: segment %d on host %d; expected 0 to %d", id, host, len(f.nodes)-1))
	}
	n := f.nodes[host]
	fail := func(err error) (*Segment, error) {
		return nil, fmt.Errorf("sim: segment %d on host %d: %w", id, host, err)
	}
	switch {
	case bytes < 1 || bytes > limits.SegmentBytes:
		return fail(fmt.Errorf("%w: %d bytes; expected 1 to %d", weft.ErrBadArgument, bytes, limits.SegmentBytes))
	case n.engine == nil:
		return fail(fmt.Errorf("%w: the NIC is stopped", weft.ErrBadArgument))
	case n.segments[id] != nil:
		return fail(fmt.Errorf("%w: the NIC has it already", weft.ErrBadArgument))
	}
	s, err := n.makeSegment(id, (bytes+7)/8*8)
	if err != nil {
		return fail(err)
	}
	s.kept = true
	locks, flags := program.SegmentSync(s.mem)
	return &Segment{n: n, id: id, s: s, locks: locks, flags: flags}, nil
}

// Bytes returns the memory of the segment. Programs run only while virtual time passes.
func (s *Segment) Bytes() []byte {
	return s.s.mem[: len(s.s.mem)-program.SegmentTail : len(s.s.mem)-program.SegmentTail]
}

// Lock sets lock i, 0 to 255, and reports whether it was clear. Lock panics if i is out of range.
func (s *Segment) Lock(i int) bool { return atomic.SwapUint32(&s.locks[i], 1) == 0 }

// Locked reports whether lock i, 0 to 255, is set. Locked panics if i is out of range.
func (s *Segment) Locked(i int) bool { return atomic.LoadUint32(&s.locks[i]) != 0 }

// Flag reports whether flag i, 0 to 255, is set. Flag panics if i is out of range.
func (s *Segment) Flag(i int) bool { return atomic.LoadUint32(&s.flags[i]) != 0 }

// Delete deletes the segment. If processes have it open, it goes when the last of them releases it.
// A second Delete does nothing.
func (s *Segment) Delete() {
	s.s.kept = false
	s.n.dropSegment(s.id, s.s)
}

// makeSegment makes a segment that no process has yet.
func (n *node) makeSegment(id uint32, size int) (*segment, error) {
	s := &segment{mem: words(size + program.SegmentTail), users: make(map[*Process]int)}
	if err := n.engine.Programs().AddSegment(id, s.mem); err != nil {
		return nil, fmt.Errorf("%w: %w", weft.ErrBadArgument, err)
	}
	if n.segments == nil {
		n.segments = make(map[uint32]*segment)
	}
	n.segments[id] = s
	return s, nil
}

// dropSegment removes a segment that no process has and no Segment keeps.
func (n *node) dropSegment(id uint32, s *segment) {
	if n.segments[id] != s || s.kept || len(s.users) > 0 {
		return
	}
	delete(n.segments, id)
	_ = n.engine.Programs().RemoveSegment(id) // the engine has each segment of the table
}

// leaveSegments releases every segment of a process that ends.
func (n *node) leaveSegments(p *Process) {
	for id, s := range n.segments { // the order has no effect
		if s.users[p] > 0 {
			delete(s.users, p)
			n.dropSegment(id, s)
		}
	}
}

// ShareSegment opens a segment for a process, as an embedded NIC does. Package weft calls it.
func (v virtual) ShareSegment(id uint32, size int) (mem []byte, leave func() error, err error) {
	p, n := v.p, v.p.host
	if p.engine() == nil {
		return nil, nil, proc.ErrNICGone
	}
	s := n.segments[id]
	if s == nil {
		if s, err = n.makeSegment(id, size); err != nil {
			return nil, nil, err
		}
	}
	if have := len(s.mem) - program.SegmentTail; have != size {
		return nil, nil, fmt.Errorf("%w: it has %d bytes, not %d", weft.ErrBadArgument, have, size)
	}
	s.users[p]++
	n.engine.ShareSegment(p.slot, p.gen, id, true)
	return s.mem, func() error {
		p.leaveSegment(id, s)
		return nil
	}, nil
}

// leaveSegment releases one SharedSegment of the process.
func (p *Process) leaveSegment(id uint32, s *segment) {
	if s.users[p] == 0 {
		return // the process has ended
	}
	if s.users[p]--; s.users[p] > 0 {
		return
	}
	delete(s.users, p)
	if e := p.engine(); e != nil {
		e.ShareSegment(p.slot, p.gen, id, false)
	}
	p.host.dropSegment(id, s)
}
