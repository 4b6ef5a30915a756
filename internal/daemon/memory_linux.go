package daemon

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftnet/weft/internal/hugepage"
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
type memory struct {
	fd  int
	mem []byte
}

// newMemory makes and maps size bytes, zeroed. Nothing of it is touched.
func newMemory(name string, size int, nicOnly bool) (*memory, error) {
	fd, err := unix.MemfdCreate("weft "+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("weft "+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	m := &memory{fd: fd}
	if err := m.init(size, nicOnly); err != nil {
		return nil, errors.Join(fmt.Errorf("shared memory of %d bytes: %w", size, err), m.close())
	}
	return m, nil
}

func (m *memory) init(size int, nicOnly bool) (err error) {
	if err = unix.Ftruncate(m.fd, int64(size)); err != nil {
		return err
	}
	if m.mem, err = unix.Mmap(m.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if nicOnly {
		seals |= unix.F_SEAL_FUTURE_WRITE // our mapping was before; every later one is read-only
	}
	if _, err = unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	return nil
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

// close unmaps. No goroutine may touch the memory any more.
func (m *memory) close() error {
	err := m.shared()
	if m.mem != nil {
		err = errors.Join(err, unix.Munmap(m.mem))
		m.mem = nil
	}
	return err
}

// holds reports whether an address is in the mapping.
func (m *memory) holds(addr uintptr) bool {
	if len(m.mem) == 0 {
		return false
	}
	start := uintptr(unsafe.Pointer(&m.mem[0]))
	return addr >= start && addr-start < uintptr(len(m.mem))
}

// replace puts private zeroes where the shared memory was, so that no access faults there again.
func (m *memory) replace() error {
	addr := unsafe.Pointer(&m.mem[0])
	_, err := unix.MmapPtr(-1, 0, addr, uintptr(len(m.mem)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return err
}
