package proc

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/memory/touch"
)

// File says where in a file the memory lies that the caller has mapped, so that a NIC in another
// program can map it, too.
type File struct {
	FD     int
	Offset int64
}

// Register creates a region from memory of the caller. The memory lies in the file of; if of is
// nil, it may be of any kind. If sealed, the region may only be read, by other processes and by
// this process's own operations.
func (p *Process) Register(mem []byte, of *File, sealed bool) (*Region, error) {
	fail := func(err error) (*Region, error) { return nil, &OpError{Op: "register", Err: err} }
	if n := len(mem); n < 1 || n > limits.MaxRegion {
		return fail(fmt.Errorf("%w: %d bytes of memory; expected 1 to %d", ErrBadArgument, n, limits.MaxRegion))
	}
	if err := lookAtPart(mem, !sealed); err != nil {
		return fail(err)
	}
	if !p.enter() {
		return fail(ErrClosed)
	}
	defer p.leave()
	p.sharing.Lock()
	defer p.sharing.Unlock()
	p.mu.Lock()
	err := p.usable()
	if err == nil {
		err = p.overlaps(mem)
	}
	p.mu.Unlock()
	if err != nil {
		return fail(err)
	}
	r := &Region{p: p, mem: mem, sealed: sealed, theirs: true}
	if r.id, r.key, err = p.mem.Register(mem, of, sealed); err != nil {
		return fail(err)
	}
	p.mu.Lock()
	p.insert(r)
	p.noteRegistered()
	p.mu.Unlock()
	return r, nil
}

// overlaps returns an error if an open region contains some of the memory. The caller holds mu.
func (p *Process) overlaps(mem []byte) error {
	start := address(mem)
	for _, r := range p.regions {
		if a := address(r.mem); a < start+uintptr(len(mem)) && start < a+uintptr(len(r.mem)) {
			return fmt.Errorf("%w: the memory from %#x on is in an open region already; "+
				"a part of one is shared by Share", ErrBadArgument, max(a, start))
		}
	}
	return nil
}

// registered holds the open regions of the caller's memory, by address. The caller may have
// unmapped such memory. The list is never changed after its creation, so operations read it
// without a lock.
type registered []*Region

// noteRegistered updates p.registered from p.regions. The caller holds mu.
func (p *Process) noteRegistered() {
	var all registered
	for _, r := range p.regions {
		if r.theirs {
			all = append(all, r)
		}
	}
	if all == nil {
		p.registered.Store(nil)
	} else {
		p.registered.Store(&all)
	}
}

// look returns an error if a part lies in registered memory and an operation cannot read it or,
// if written is set, write it.
func (l registered) look(part []byte, written bool) error {
	start := address(part)
	end := start + uintptr(len(part))
	i, _ := slices.BinarySearchFunc(l, start, func(r *Region, a uintptr) int {
		if address(r.mem)+uintptr(len(r.mem)) <= a {
			return -1
		}
		return 1
	})
	for ; i < len(l) && address(l[i].mem) < end; i++ {
		r := l[i]
		from := max(address(r.mem), start) - start
		to := min(address(r.mem)+uintptr(len(r.mem)), end) - start
		if written && r.sealed && from < to {
			return fmt.Errorf("%w: %d bytes at %#x are to be written, and are registered as ReadOnly", ErrBadArgument,
				to-from, start+from)
		}
		if err := lookAtPart(part[from:to], written); err != nil {
			return err
		}
	}
	return nil
}

// lookAtPart returns an error if a part cannot be read or, if written is set, written.
func lookAtPart(part []byte, written bool) error {
	addr, ok := touch.All(part, written)
	switch {
	case ok:
		return nil
	case written:
		return fmt.Errorf("%w: the memory at %#x is not mapped, or may not be written; "+
			"expected %d bytes from %#x on that may be", ErrBadArgument, addr, len(part), address(part))
	}
	return fmt.Errorf("%w: the memory at %#x is not mapped, or may not be read; "+
		"expected %d bytes from %#x on that may be", ErrBadArgument, addr, len(part), address(part))
}

// readable reports whether all parts can be read.
func (l registered) readable(parts [][]byte) bool {
	for _, b := range parts {
		if l.look(b, false) != nil {
			return false
		}
	}
	return true
}

// lookedAtOnce is the number of messages of a SendMany that are checked before some of them
// leave.
const lookedAtOnce = 64

// readableFirst returns the messages before the first one that cannot be read.
func (l registered) readableFirst(messages [][]byte) [][]byte {
	for i, m := range messages {
		if i == lookedAtOnce || l.look(m, false) != nil {
			return messages[:i]
		}
	}
	return messages
}

// lookAt is look for all memory that an operation reads or writes.
func (l registered) lookAt(r *request, parts [][]byte) error {
	switch {
	case r.into != nil:
		return l.look(r.into, true)
	case r.length == 0:
		return nil
	}
	for _, b := range parts {
		if err := l.look(b, r.receive); err != nil {
			return err
		}
	}
	return nil
}
