//go:build unix

package ctl

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked is the error of LockFile if another process has the lock.
var ErrLocked = errors.New("locked")

// LockFile takes the lock at path for as long as the file stays open. The kernel releases it when
// the process dies. The file names the process that has the lock, and is never removed: otherwise
// two daemons could hold locks on two files of one name. LockFile does not follow a link at path.
// In a directory that others may write to, a link could lead to a file that is not the caller's
// to truncate.
func LockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w: process %s holds %s", ErrLocked, strings.TrimSpace(string(holder)), path)
		}
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
