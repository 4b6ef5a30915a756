package filemem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Lasting returns an error if a file's memory could disappear under a program that has mapped it,
// or could be slow to arrive. Only memory of memfd_create that can no longer be shortened is
// lasting. A file on a disk, or on a file system that is a program, gets its pages whenever that
// system delivers them. Lasting therefore sends no request to that system.
func Lasting(fd int) error {
	const expected = "expected memory by memfd_create with MFD_ALLOW_SEALING, of huge pages or not, " +
		"that F_ADD_SEALS has given F_SEAL_SHRINK"
	switch seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); {
	case err != nil:
		return fmt.Errorf("%w: it is no memory but a file of a file system; %s", ErrFile, expected)
	case seals&unix.F_SEAL_SHRINK == 0:
		return fmt.Errorf("%w: it could be made shorter, and its memory be gone; %s", ErrFile, expected)
	}
	return nil
}

// hugePage returns the size of a file's huge pages, or 0 if it has none.
func hugePage(fd int) int64 {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || uint32(st.Type) != unix.HUGETLBFS_MAGIC {
		return 0
	}
	return int64(st.Bsize)
}
