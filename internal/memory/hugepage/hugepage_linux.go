// Package hugepage maps memory in the system's huge pages, which an administrator has reserved,
// or in ordinary pages.
package hugepage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Open makes a file in memory of huge pages. Its size is the smallest multiple of the size of a
// huge page that holds n bytes. The file can be sealed.
func Open(name string, n int) (fd, size int, err error) {
	if fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB); err != nil {
		return -1, 0, Explain(n, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		page := int(st.Blksize)
		size = (n + page - 1) / page * page
		err = unix.Ftruncate(fd, int64(size))
	}
	if err != nil {
		return -1, 0, errors.Join(Explain(n, err), unix.Close(fd))
	}
	return fd, size, nil
}

// Map maps at least n bytes of zeroed memory. The pages are reserved, so using them does not
// fail.
func Map(n int) ([]byte, error) {
	fd, size, err := Open("weft huge pages", n)
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return nil, Explain(n, err)
	}
	return mem, nil
}

// Explain adds to an error the number of bytes, and the remedy if too few huge pages are free.
func Explain(n int, err error) error {
	if errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf(
			"%d bytes in huge pages: %w; too few are free (HugePages_Free in /proc/meminfo), "+
				"sysctl vm.nr_hugepages sets more aside",
			n, err)
	}
	return fmt.Errorf("%d bytes in huge pages: %w", n, err)
}
