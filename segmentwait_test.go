package weft_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// clearing opens a process with segment 2 and with program 9, which clears lock 3 of the segment.
func clearing(ctx context.Context, t *testing.T) (*weft.Process, *weft.SharedSegment) {
	t.Helper()
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := pdl.Compile("unlock.pdl", []byte(`PROGRAM unlock: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN CLEAR LOCK 515 END; END;`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.On(p).Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{ID: 9, Start: true}); err != nil {
		t.Fatal(err)
	}
	s, err := p.SharedSegment(2, 8)
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

// asleep starts the given number of WaitLock calls for lock 3, and returns a channel with their
// errors.
func asleep(ctx context.Context, s *weft.SharedSegment, waiters int) <-chan error {
	woken := make(chan error, waiters)
	for range waiters {
		go func() { woken <- s.WaitLock(ctx, 3) }()
	}
	return woken
}

func TestAClearedLockWakesEveryWaiter(t *testing.T) { // PANIC-24
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, s := clearing(ctx, t)
	if err := s.WaitLock(ctx, 3); err != nil || s.Locked(3) {
		t.Fatalf("the lock is clear: %v; it is set: %v", err, s.Locked(3))
	}
	for round := range 50 {
		if !s.Lock(3) {
			t.Fatal("the lock is set already")
		}
		woken := asleep(ctx, s, 3)
		if round%10 == 0 {
			// The waiters are asleep; in the other rounds the clear happens before they sleep.
			time.Sleep(5 * time.Millisecond)
		}
		select {
		case err := <-woken:
			t.Fatalf("a waiter returned before the lock was clear: %v", err)
		default:
		}
		if err := program.On(p).Send(ctx, program.Address{ID: 9}, 1); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-woken; err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
}

func TestAWaitForALockEndsWithItsContextAndItsSegment(t *testing.T) { // PANIC-24
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, s := clearing(ctx, t)
	s.Lock(3)
	short, stop := context.WithCancel(ctx)
	woken := asleep(short, s, 1)
	stop()
	if err := <-woken; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for lock 3 of segment 2") {
		t.Errorf("the context ended: %v", err)
	}
	for _, i := range []int{-1, 256} {
		if err := s.WaitLock(ctx, i); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "expected 0 to 255") {
			t.Errorf("lock %d: %v", i, err)
		}
	}
	woken = asleep(ctx, s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-woken; !errors.Is(err, weft.ErrClosed) {
			t.Errorf("the segment was closed: %v", err)
		}
	}
	if err := s.WaitLock(ctx, 3); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("the segment is closed: %v", err)
	}
	other, err := p.SharedSegment(4, 8)
	if err != nil {
		t.Fatal(err)
	}
	other.Lock(3)
	woken = asleep(ctx, other, 1)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; !errors.Is(err, weft.ErrClosed) {
		t.Errorf("the process was closed: %v", err)
	}
}
