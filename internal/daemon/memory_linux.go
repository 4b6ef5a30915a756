package daemon

import (
	"errors"
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/hugepage"
	"github.com/weftnet/weft/internal/memfd"
	"github.com/weftnet/weft/internal/refusal"
	"github.com/weftnet/weft/internal/standin"
	"golang.org/x/sys/unix"
)

// newHugeMemory makes and maps at least size bytes of huge pages.
func newHugeMemory(name string, size int) (*memory, error) {
	fd, size, err := hugepage.Open("weft "+name, size)
	if err != nil {
		return nil, err
	}
	m := &memory{fd: fd}
	if err := m.init(size, false); err != nil {
		return nil, errors.Join(hugepage.Explain(size, err), m.close())
	}
	return m, nil
}

// memory is shared memory that the daemon made (decision 10), or a region's, which a process may have made. No process can make it shorter
// while the NIC uses it, nor map for writing what only the NIC writes, whatever it does with the descriptor.
//
// Where a page of it cannot be had nevertheless, since the huge pages have run out, zeros take the place of all of it (package standin).
type memory struct {
	fd    int
	mem   []byte
	guard *standin.Memory

	unsealed error // why it has no seals; nil: it has
}

// newMemory makes and maps size bytes, zeroed. Nothing of it is touched.
func newMemory(name string, size int, nicOnly bool) (*memory, error) {
	file, err := memfd.Create("weft " + name)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	m := &memory{fd: file.FD, unsealed: file.Why}
	if err := m.init(size, nicOnly); err != nil {
		return nil, errors.Join(fmt.Errorf("shared memory of %d bytes: %w", size, err), m.close())
	}
	return m, nil
}

func (m *memory) init(size int, nicOnly bool) (err error) {
	file := memfd.File{FD: m.fd, Sealed: m.unsealed == nil}
	if err = file.Grow(int64(size)); err != nil {
		return err
	}
	if m.mem, err = unix.Mmap(m.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return refusal.Of("mmap", int64(size), err)
	}
	if m.guard, err = standin.Guard(m.mem); err != nil {
		return err
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if nicOnly {
		seals |= unix.F_SEAL_FUTURE_WRITE // our mapping was before; every later one is read-only
	}
	if err := file.Seal(seals); err != nil || file.Sealed || !nicOnly {
		return err
	}
	fd, err := file.ReadOnly() // in place of a seal
	if err != nil {
		return err
	}
	m.fd, fd = fd, m.fd
	return unix.Close(fd)
}

// mayHave reports whether a process of a user may have the memory. Without seals a process could
// make it shorter, so only processes of the daemon's own user may have it.
func (m *memory) mayHave(uid int) error {
	if m.unsealed == nil || uid == os.Geteuid() || uid == 0 {
		return nil
	}
	return fmt.Errorf("%w: shared memory for user %d: %w; without memfd_create, only processes of the daemon's user, %d, may attach",
		ctl.ErrRefused, uid, m.unsealed, os.Geteuid())
}

// shared gives up the daemon's descriptor once the process has its own. The mapping stays.
func (m *memory) shared() error {
	if m.fd < 0 {
		return nil
	}
	fd := m.fd
	m.fd = -1
	return unix.Close(fd)
}

// mapped is a memory of which only the mapping is ours, and is there already.
func mapped(mem []byte) (*memory, error) {
	g, err := standin.Guard(mem)
	return &memory{fd: -1, mem: mem, guard: g}, err
}

// close unmaps. No goroutine may touch the memory any more.
func (m *memory) close() error {
	err := m.shared()
	m.release()
	if m.mem != nil {
		err = errors.Join(err, unix.Munmap(m.mem))
		m.mem = nil
	}
	return err
}

// release has faults in the memory be faults again: it is about to be unmapped.
func (m *memory) release() {
	if m.guard != nil {
		m.guard.Release()
		m.guard = nil
	}
}

// fault is the address at which a page could not be had; 0 if there is none.
func (m *memory) fault() uintptr {
	if m.guard == nil {
		return 0
	}
	return m.guard.Fault()
}
