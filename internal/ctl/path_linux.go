package ctl

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// longestPath is what fits into the address of a socket, beside the zero at its end.
const longestPath = len(unix.RawSockaddrUnix{}.Path) - 1

// Reach returns a path to a socket that fits into its address: a longer one leads there by its directory, which must be
// kept open as long as the path is used. A temporary directory may well have a name of half the length by itself.
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
