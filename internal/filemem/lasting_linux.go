package filemem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Lasting says why a file's memory could go away under a program that has mapped it, or be long in coming, if it could. What lasts is memory by
// memfd_create that cannot be made shorter any more. A file of a disk, or of a file system that is a program, has its pages when that system
// brings them; so this asks it nothing.
func Lasting(fd int) error {
	const expected = "expected memory by memfd_create with MFD_ALLOW_SEALING, of huge pages or not, that F_ADD_SEALS has given F_SEAL_SHRINK"
	switch seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); {
	case err != nil:
		return fmt.Errorf("%w: it is no memory but a file of a file system; %s", ErrFile, expected)
	case seals&unix.F_SEAL_SHRINK == 0:
		return fmt.Errorf("%w: it could be made shorter, and its memory be gone; %s", ErrFile, expected)
	}
	return nil
}

// hugePage is how large the pages of a file are, if it is of huge pages; else 0.
func hugePage(fd int) int64 {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || uint32(st.Type) != unix.HUGETLBFS_MAGIC {
		return 0
	}
	return int64(st.Bsize)
}
