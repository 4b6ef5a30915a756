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

// ErrLocked is what LockFile ends with when another process has the lock.
var ErrLocked = errors.New("locked")

// LockFile takes the lock at path for as long as the file stays open; the kernel lets it go when the process dies.
// The file says which process has it, and is never removed: two daemons could then hold locks on two files of one name.
// A link at path is not followed: in a directory where others may write, it could lead to a file that is not the caller's to cut short.
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
