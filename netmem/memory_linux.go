package netmem

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// hugePage is the size of the kernel's huge pages.
const hugePage = 2 << 20

// mapMemory maps n bytes of zeroed memory outside Go's heap, in huge pages if the kernel grants
// them. It fails if the host or a cgroup has less memory available. Otherwise the kernel would
// grant the address range, and later kill a process when memory runs out.
func mapMemory(n int) (mem []byte, unmap func() error, err error) {
	if err := refusal.Memory(int64(n)); err != nil {
		return nil, nil, err
	}
	all, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("%d bytes of memory: %w", n, refusal.Of("mmap", int64(n+hugePage), err))
	}
	_ = unix.Madvise(all, unix.MADV_HUGEPAGE) // without support the pages are small
	mem = aligned(all, hugePage)[:n:n]
	if err := refusal.Commit(mem); err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(all))
	}
	return mem, func() error { return unix.Munmap(all) }, nil
}
