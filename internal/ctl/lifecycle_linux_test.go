package ctl

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
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
