//go:build unix

package ctl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory maps all of the memory behind fd, shared.
func mapMemory(fd int, write bool) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("size of shared memory: %w", err)
	}
	return mapBytes(fd, int(st.Size), write)
}

// mapBytes maps n bytes of the memory behind fd, shared.
func mapBytes(fd, n int, write bool) ([]byte, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(fd, 0, n, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", n, err)
	}
	return b, nil
}

func unmapMemory(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return fmt.Errorf("unmap: %w", err)
	}
	return nil
}

// one is the value that signals an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// ring signals an eventfd. It does not block: the descriptor is non-blocking, and increments of
// one do not fill the counter.
func ring(fd int) { _, _ = unix.Write(fd, one) }
