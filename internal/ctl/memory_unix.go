//go:build unix

package ctl

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory maps the whole of the memory behind fd, shared.
func mapMemory(fd int, write bool) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("size of shared memory: %w", err)
	}
	return mapBytes(fd, int(st.Size), write)
}

// mapBytes maps so much of the memory behind fd, shared.
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

// one is what is added to an eventfd to signal it.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// ring signals an eventfd. It does not block: the descriptor says so, and the counter does not fill up by ones.
func ring(fd int) { _, _ = unix.Write(fd, one) }
