package ctl

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// longestPath is the longest path in the address of a socket, without the zero at its end.
const longestPath = len(unix.RawSockaddrUnix{}.Path) - 1

// Reach returns a path to a socket that fits into a socket address. A longer path is shortened
// through the file descriptor of its directory, which must stay open while the path is used. The
// name of a temporary directory alone may take half of the length.
func Reach(path string) (short string, done func() error, err error) {
	if len(path) <= longestPath {
		return path, func() error { return nil }, nil
	}
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), dir.Close, nil
}
