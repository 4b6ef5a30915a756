//go:build !linux

package netmem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory maps n bytes of zeroed memory outside Go's heap.
func mapMemory(n int) (mem []byte, unmap func() error, err error) {
	mem, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("%d bytes of memory: %w", n, err)
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}
