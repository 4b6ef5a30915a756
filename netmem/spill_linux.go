package netmem

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// lockFile keeps other servers from using a file.
func lockFile(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("it is in use by another server: %w", err)
	}
	return nil
}

// reserveFile reserves n bytes for a file, so that no write fails because the disk is full.
func reserveFile(f *os.File, n int64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return err
	}
	free := fmt.Errorf("%d bytes; the filesystem has %d left", n, int64(st.Bavail)*st.Bsize)
	if n/st.Bsize > int64(st.Bavail) {
		return free
	}
	switch err := unix.Fallocate(int(f.Fd()), 0, 0, n); {
	case errors.Is(err, unix.EOPNOTSUPP):
		if err := f.Truncate(n); err != nil { // else the space is taken later
			return refusal.Of("ftruncate", n, err)
		}
		return nil
	case errors.Is(err, unix.ENOSPC):
		return free
	case err != nil:
		return refusal.Of("fallocate", n, err)
	}
	return nil
}
