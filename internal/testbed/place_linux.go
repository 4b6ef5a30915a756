package testbed

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Place is a host of a testbed that another process holds. It serves to start commands there.
type Place struct{ ns *namespace }

// Namespace opens the network namespace of the host, for NewPlace in another process. The
// namespace lives at least until the file is closed. Its links to other hosts go when the testbed
// is closed.
func (h *Host) Namespace() (*os.File, error) {
	h.ns.mu.RLock()
	defer h.ns.mu.RUnlock()
	if h.ns.closed {
		return nil, ErrClosed
	}
	fd, err := unix.FcntlInt(uintptr(h.ns.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, explain("opening a host's namespace", err)
	}
	return os.NewFile(uintptr(fd), "namespace of a host"), nil
}

// NewPlace returns the host of a file from Host.Namespace, and takes over the file.
func NewPlace(f *os.File) (*Place, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	f.Close()
	if err != nil {
		return nil, explain("opening a host's namespace", err)
	}
	ns := &namespace{fd: fd, calls: make(chan func())}
	entered := make(chan error)
	onOwnThread(func() {
		err := unix.Setns(fd, unix.CLONE_NEWNET)
		entered <- err
		if err != nil {
			return
		}
		for f := range ns.calls {
			f()
		}
	})
	if err := <-entered; err != nil {
		unix.Close(fd)
		return nil, explain("entering a host's namespace", err)
	}
	return &Place{ns}, nil
}

// Command makes a command that will run on the host; see Cmd. It gets SIGKILL when this process
// ends, or from Close.
func (p *Place) Command(ctx context.Context, name string, args ...string) *Cmd {
	return newCmd(ctx, p.ns, name, args...)
}

// Close kills the running commands.
func (p *Place) Close() error { return p.ns.close() }
