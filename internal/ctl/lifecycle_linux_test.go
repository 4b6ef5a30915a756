package ctl

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// listens reports an error unless a daemon can listen at path now.
func listens(t *testing.T, when, path string) {
	t.Helper()
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	if err := l.Close(); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// A daemon whose socket cannot be made keeps neither the lock nor a descriptor.
func TestAListenerThatFailsKeepsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nic.sock")
	listens(t, "at first", path)
	before := openFiles(t)
	for range 3 {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(path, 0o600); err == nil {
			l.Close()
			t.Fatal("a file that is no socket is replaced")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		listens(t, "without the file", path)
	}
	closedAgain(t, "listeners that have failed", before)
}

// A listener whose socket cannot be removed stops listening, and releases its lock.
func TestAListenerWhoseSocketIsReplacedEndsAllTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nic.sock")
	listens(t, "at first", path)
	before := openFiles(t)
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	accepts := make(chan error, 1)
	go func() { _, err := l.Accept(); accepts <- err }()
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err == nil {
		t.Error("that the socket is not removed is not told")
	}
	if err := ends(t, "accepting", func() error { return <-accepts }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting ends with %v; expected %v", err, net.ErrClosed)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file is now %q, %v", b, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	listens(t, "afterwards", path)
	closedAgain(t, "a listener whose socket was replaced", before)
}

// The next daemon makes its socket as soon as it has the lock. The listener removes its socket
// before it releases the lock, so it never removes the socket of the next daemon.
func TestAListenerRemovesItsSocketBeforeItReleasesItsLock(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(filepath.Join(dir, "nic.sock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_DELETE|unix.IN_CLOSE_WRITE); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var all []string // names of the socket and of the lock, in the order of their events
	for events := make([]byte, 4096); len(all) < 2; {
		n, err := unix.Read(watch, events)
		if err != nil {
			t.Fatal(err)
		}
		for e := events[:n]; len(e) > 0; {
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(e[12:]))
			all = append(all, strings.TrimRight(string(e[unix.SizeofInotifyEvent:end]), "\x00"))
			e = e[end:]
		}
	}
	if !slices.Equal(all, []string{"nic.sock", "nic.sock.lock"}) {
		t.Errorf("%q are given up in this order; expected the socket before its lock", all)
	}
}

// A daemon that does not answer a Free counts as gone, however the context has ended, and the
// memory is unmapped. A Free whose context has ended before the request changes nothing.
func TestAFreeThatIsNotAnsweredUnmapsItsMemory(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	fd := memfd(t, 4096)
	a.set(func(*Request) (*Reply, []int) { return &Reply{Region: &Region{ID: 4}}, []int{fd} })
	_, _, mem, err := p.Alloc(t.Context(), 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	asked, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	a.set(func(*Request) (*Reply, []int) { close(asked); <-over; return &Reply{}, nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Free(ctx, 4); !errors.Is(err, context.Canceled) || !mapped(mem) || p.gone.Load() {
		t.Errorf("before the request: %v; mapped %v, the daemon is gone: %v", err, mapped(mem), p.gone.Load())
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() { <-asked; cancel() }()
	if err := p.Free(ctx, 4); err != nil || mapped(mem) || !p.gone.Load() {
		t.Errorf("without an answer: %v; mapped %v, the daemon is gone: %v", err, mapped(mem), p.gone.Load())
	}
}

// The end of a context ends the operations of its own call only. A later call has no deadline,
// even if the context ends while the call does.
func TestTheEndOfAContextEndsNoLaterCall(t *testing.T) {
	c := dial(t, serve(t, func(c *Client, _ *Request) error { return c.Reply(&Reply{}) }))
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		restore := c.until(ctx)
		cancel()
		restore()
		runtime.Gosched() // nothing is left that could set a deadline now
		if _, err := c.Nodes(t.Context()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

// A client closes everything that it has opened to reach a daemon, also one that it does not trust.
func TestADialKeepsOnlyItsConnection(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(long, "nic.sock")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, dials := range []int{1, 5} { // the first may open something for all
		before := openFiles(t)
		for range dials {
			c, err := Dial(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			d, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.Close(), d.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if after := openFiles(t); dials > 1 && after > before {
			t.Errorf("%d descriptors are open after %d dials; before there were %d", after, dials, before)
		}
	}
	tmp := ownTmp(t)
	theirs := filepath.Join(directory(t, filepath.Join(tmp, "weft"), stranger, 0o755), "nic.sock")
	says(t, "a daemon in a place that any user could have made", as(t, stranger, tmp, "listen", theirs), "ready")
	before := openFiles(t)
	for range 5 {
		if c, err := Dial(t.Context(), theirs); !errors.Is(err, ErrNotTrusted) {
			t.Fatalf("%v, %v; expected %v", c, err, ErrNotTrusted)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open after five dials of a stranger's daemon; before there were %d", after, before)
	}
}

// Unmap goes on behind memory that cannot be unmapped, and tells of it.
func TestUnmapGoesOnBehindAFailure(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	a.set(func(*Request) (*Reply, []int) { return &Reply{}, nil })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	var good [][]byte
	for id := range uint32(8) {
		mem, err := mapMemory(memfd(t, 4096), true)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, mem)
		p.regions[2*id], p.regions[2*id+1] = mem, make([]byte, 1) // the second is not mapped
	}
	good = append(good, p.RW, p.RO)
	if err := p.Unmap(); err == nil {
		t.Error("a failure is not told")
	}
	for i, mem := range good {
		if mapped(mem) {
			t.Errorf("memory %d is mapped", i+1)
		}
	}
	if len(p.regions) != 0 {
		t.Errorf("%d regions are left", len(p.regions))
	}
}
