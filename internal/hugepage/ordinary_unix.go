//go:build unix

package hugepage

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MapOrdinary makes n bytes, zeroed, in ordinary pages, apart from Go's heap: there memory that the system does not give ends the program.
func MapOrdinary(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes: %w", n, err)
	}
	return mem, nil
}

// Unmap lets go of all that Map or MapOrdinary has returned.
func Unmap(mem []byte) error { return unix.Munmap(mem) }
