package metrics

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// listen opens the listener of an address.
func listen(a Address) (net.Listener, error) {
	if a.Path != "" {
		return listenUnix(a.Path)
	}
	l, err := net.Listen("tcp", a.TCP.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%v is in use by another program, which `ss -ltnp` shows; expected a free port: %w",
			a.TCP, err)
	}
	return l, err
}

// longestPath is the longest path of a unix socket, in bytes; a zero byte follows it.
const longestPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// listenUnix makes a socket to which only this user and root can connect. It makes the socket in a
// directory that no other user can enter, sets the mode there, and then moves the socket to its
// path. So no other user can connect before the mode is set. It replaces the socket of a killed
// daemon.
func listenUnix(path string) (net.Listener, error) {
	if err := vacate(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".m")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	making := filepath.Join(dir, "s")
	if n := max(len(path), len(making)); n > longestPath {
		return nil, fmt.Errorf("%s needs a path of %d bytes; expected at most %d", path, n, longestPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: making, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it has another name by then
	if err = os.Chmod(making, 0o600); err == nil {
		err = os.Rename(making, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &unixListener{l, path}, nil
}

// vacate removes a socket at which no program listens.
func vacate(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is no socket; expected a free path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("a program listens at %s; expected a free path", path), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
}

func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	if err == nil { // closed for the first time
		err = os.Remove(l.path)
	}
	return err
}
