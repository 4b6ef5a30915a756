//go:build unix

package hugepage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// MapOrdinary maps n bytes of zeroed memory in ordinary pages outside Go's heap. In Go's heap, a
// lack of memory would end the program. MapOrdinary fails if the host or a cgroup has less
// memory.
func MapOrdinary(n int) ([]byte, error) {
	if err := refusal.Memory(int64(n)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes: %w", n, refusal.Of("mmap", int64(n), err))
	}
	if err := refusal.Commit(mem); err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	return mem, nil
}

// Unmap releases all memory that a call of Map or MapOrdinary has returned.
func Unmap(mem []byte) error { return unix.Munmap(mem) }
