package daemon

import (
	"errors"
	"fmt"
	"os"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/memfd"
	"github.com/weftnet/weft/internal/memory/hugepage"
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

// memory is shared memory that the daemon made (decision 10), or the memory of a region, which a
// process may have made. Whatever a process does with its descriptor, it cannot make the memory
// shorter while the NIC uses it, nor map for writing what only the NIC writes.
//
// If the kernel cannot provide a page nevertheless, since the huge pages have run out, zeros
// replace all of the memory (package standin).
type memory struct {
	fd    int
	mem   []byte
	guard *standin.Memory

	unsealed error // why it has no seals; nil: it has them
}

// newMemory makes and maps size bytes, zeroed. It touches none of them.
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
		// Our mapping exists already; every later one is read-only.
		seals |= unix.F_SEAL_FUTURE_WRITE
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

// mayHave returns an error if a process of a user may not have the memory. Without seals a
// process could make it shorter, so only processes of the daemon's own user and root's may have
// it.
func (m *memory) mayHave(uid int) error {
	if m.unsealed == nil || uid == os.Geteuid() || uid == 0 {
		return nil
	}
	return fmt.Errorf("%w: shared memory for user %d: %w; "+
		"without memfd_create, only processes of the daemon's user, %d, may attach",
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

// mapped returns a memory for an existing mapping. The descriptor is not ours.
func mapped(mem []byte) (*memory, error) {
	g, err := standin.Guard(mem)
	return &memory{fd: -1, mem: mem, guard: g}, err
}

// close unmaps the memory. No goroutine may touch it any more.
func (m *memory) close() error {
	err := m.shared()
	m.release()
	if m.mem != nil {
		err = errors.Join(err, unix.Munmap(m.mem))
		m.mem = nil
	}
	return err
}

// release ends the guard of the memory, which is about to be unmapped: faults in it are faults
// again.
func (m *memory) release() {
	if m.guard != nil {
		m.guard.Release()
		m.guard = nil
	}
}

// fault returns the address of a page that the kernel could not provide, or 0 if there was none.
func (m *memory) fault() uintptr {
	if m.guard == nil {
		return 0
	}
	return m.guard.Fault()
}
