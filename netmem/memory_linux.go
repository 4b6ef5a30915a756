package netmem

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// hugePage is the size of the kernel's huge pages.
const hugePage = 2 << 20

// mapMemory maps n bytes of zeroed memory outside Go's heap, in huge pages if the kernel grants
// them. It fails if the host has less memory available. Otherwise the kernel would grant the
// address range, and later kill a process when memory runs out.
func mapMemory(n int) (mem []byte, unmap func() error, err error) {
	if has, ok := available(); ok && uint64(n) > has {
		return nil, nil, fmt.Errorf("%d bytes of memory; this host has %d available", n, has)
	}
	mem, err = unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("%d bytes of memory: %w", n, err)
	}
	all := mem
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // without support the pages are small
	mem = aligned(mem, hugePage)
	return mem[:n:n], func() error { return unix.Munmap(all) }, nil
}

// available returns the number of bytes that the host could give to a program now without swapping.
func available() (n uint64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(text, []byte("MemAvailable:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	kib, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 54)
	return kib << 10, ok && err == nil
}
