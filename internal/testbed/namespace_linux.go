package testbed

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// namespace is a nameless network namespace. A descriptor and one thread hold it, so that it ends
// with this process, however the process ends.
//
// The thread also starts the processes in the namespace. They ask for SIGKILL at the death of
// their parent, and the kernel takes the starting thread for the parent. A thread that the Go
// scheduler chooses might end at any time, and they would die with it.
type namespace struct {
	fd    int
	calls chan func() // run one after the other on the namespace's thread

	mu     sync.RWMutex // held for reading while fd or calls is in use
	closed bool
}

// newNamespace makes an empty namespace: it has only a loopback link, which is down.
func newNamespace() (*namespace, error) {
	ns := &namespace{calls: make(chan func())}
	made := make(chan error)
	onOwnThread(func() {
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			ns.fd, err = currentNamespace()
		}
		made <- err
		if err != nil {
			return
		}
		for f := range ns.calls {
			f()
		}
	})
	if err := <-made; err != nil {
		return nil, explain("making a network namespace", err)
	}
	return ns, nil
}

// call runs f on the namespace's own thread, and returns when f returns. Keep f short: there is
// one such thread.
func (ns *namespace) call(f func()) error {
	ns.mu.RLock()
	defer ns.mu.RUnlock()
	if ns.closed {
		return ErrClosed
	}
	done := make(chan struct{})
	ns.calls <- func() { f(); close(done) }
	<-done
	return nil
}

// do runs fn on a thread that is in the namespace while fn runs. If fn calls runtime.Goexit, as a
// failing test does, so does the caller.
func (ns *namespace) do(fn func() error) error {
	var err error
	returned := false
	done := make(chan struct{})
	onOwnThread(func() {
		defer close(done)
		back, e := currentNamespace()
		if e != nil {
			err, returned = e, true
			return
		}
		defer unix.Close(back)
		if err = ns.enter(); err != nil {
			returned = true
			runtime.UnlockOSThread() // it is still in its namespace
			return
		}
		defer func() {
			// A thread that cannot return to its namespace stays locked to this goroutine and
			// dies with it.
			if unix.Setns(back, unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
		err = fn()
		returned = true
	})
	<-done
	if !returned {
		runtime.Goexit()
	}
	return err
}

// enter moves the calling thread into the namespace. The thread must be locked.
func (ns *namespace) enter() error {
	ns.mu.RLock()
	defer ns.mu.RUnlock()
	if ns.closed {
		return ErrClosed
	}
	if err := unix.Setns(ns.fd, unix.CLONE_NEWNET); err != nil {
		return explain("entering a network namespace", err)
	}
	return nil
}

// close gives up the namespace, and kills the processes that its thread started. The namespace
// itself lives on while a socket exists that was opened in it.
func (ns *namespace) close() error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		return nil
	}
	ns.closed = true
	close(ns.calls)
	return unix.Close(ns.fd)
}

// onOwnThread runs f in a goroutine that is locked to its thread. If f returns with the thread
// still locked, the thread ends. It is never the first thread of the process: that one cannot
// end, and /proc/PID/ns describes the process by it.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		other := make(chan struct{})
		go func() { // runs on another thread, since this one is locked until other is closed
			runtime.LockOSThread()
			close(other)
			f()
		}()
		<-other
		runtime.UnlockOSThread()
	}()
}

// currentNamespace opens the network namespace of the calling thread.
func currentNamespace() (int, error) {
	return unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// sysctl sets a network parameter in the namespace of the calling thread. It ignores failures:
// some containers mount /proc/sys read-only, and the parameters set here only save time and
// noise.
func sysctl(name, value string) {
	_ = os.WriteFile("/proc/sys/net/"+name, []byte(value), 0)
}

// explain wraps an error of the kernel. If the error means that a testbed is not possible,
// explain wraps ErrUnavailable and names the cure.
func explain(doing string, err error) error {
	var advice string
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		advice = "needs CAP_SYS_ADMIN and CAP_NET_ADMIN, and CAP_BPF for loss: run as root, " +
			"in a container with --privileged, or without loss under 'unshare --user --map-root-user'"
	case errors.Is(err, unix.ENOSPC):
		advice = "the limit on namespaces is reached: raise it with 'sysctl user.max_net_namespaces'"
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		advice = "needs a kernel with network namespaces, veth and bridge, and for loss with BPF: CONFIG_NET_NS, " +
			"CONFIG_VETH, CONFIG_BRIDGE, CONFIG_BPF_SYSCALL"
	default:
		return fmt.Errorf("testbed: %s: %w", doing, err)
	}
	return fmt.Errorf("%w: %s: %w (%s)", ErrUnavailable, doing, err, advice)
}
