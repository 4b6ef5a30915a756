package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/weftnet/weft/internal/proxy"
)

// readPrivate reads a file of at most most bytes. It returns an error if others than this user
// and root may read or change the file.
func readPrivate(path string, most int64) ([]byte, error) {
	// without O_NONBLOCK, a pipe waits for its writer
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %#o: others may read or write it; expected 0600 (chmod 600 %s)",
			path, info.Mode().Perm(), path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes; expected at most %d", path, info.Size(), most)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to user %d, who may change it; expected a file of user %d or of root",
			path, owner.Uid, os.Geteuid())
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes; expected at most that", path, most)
	}
	return b, err
}

// resolveTCP looks up the host of a TCP address and reports whether other hosts can reach it. The
// caller listens at the resolved address, so a later change of the name does not matter.
func resolveTCP(address string) (resolved string, offLoopback bool, err error) {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", false, err
	}
	return a.String(), proxy.OffLoopback(a), nil
}
