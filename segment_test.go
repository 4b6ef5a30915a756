package weft_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// A process writes to a segment and sets a lock. A program reads the segment, writes its answer
// there, clears the lock and sets a flag. The flag wakes the process.
func TestAProcessAndAProgramShareASegment(t *testing.T) { // PANIC-23, PANIC-24, PANIC-33
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "a"}, Link: weft.UDP("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	shareSegment(ctx, t, p)
}

// shareSegment makes a process and a program of its NIC work on a segment in turns.
func shareSegment(ctx context.Context, t *testing.T, p *weft.Process) {
	t.Helper()
	m, err := pdl.Compile("turn.pdl", []byte(`PROGRAM turn: VAR v[8], i; TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN
    IF LOCK(515) THEN BEGIN
        GET v[0] OFFSET 8 FROM 2 LEN 64;
        i = 0;
        WHILE i < 8 DO BEGIN v[i] = -v[i]; i = i + 1 END;
        DELIVER v[0] OFFSET 72 INTO 2 LEN 64;
        CLEAR LOCK 515;
        SET FLAG 517;
    END;
END;
END;`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.On(p).Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{ID: 9, Start: true}); err != nil {
		t.Fatal(err)
	}
	s, err := p.SharedSegment(2, 200)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.SharedSegment(2, 300); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("the segment once more, longer: %v", err)
	}
	for round := range uint64(50) {
		var want []byte
		for i := range uint64(8) {
			binary.LittleEndian.PutUint64(s.Bytes()[8+8*i:], round*i)
			want = binary.LittleEndian.AppendUint64(want, -(round * i))
		}
		if !s.Lock(3) { // 515 is lock 3 of segment 2
			t.Fatal("the lock was set already")
		}
		if err := program.On(p).Send(ctx, program.Address{ID: 9}, 1); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitFlag(ctx, 5); err != nil {
			t.Fatal(err)
		}
		if got := s.Bytes()[72:136]; !bytes.Equal(got, want) || s.Locked(3) || s.Flag(5) {
			t.Fatalf("round %d: the program has delivered %x, want %x; lock %v, flag %v", round, got, want, s.Locked(3), s.Flag(5))
		}
	}
	ended := make(chan error)
	go func() { ended <- s.WaitFlag(ctx, 200) }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, weft.ErrClosed) {
		t.Errorf("to wait for a flag of a segment that is closed: %v", err)
	}
	if err := program.On(p).SendHandled(ctx, program.Address{ID: 9}, 1); err != nil {
		t.Errorf("without the segment, no lock is set: %v", err)
	}
}

// After Close, the memory of a segment may be unmapped. All its locks and flags then read as
// clear.
func TestLocksAndFlagsOfAClosedSegmentAreClear(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.SharedSegment(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 256 {
		if !s.Lock(i) || s.Lock(i) || !s.Locked(i) || s.Flag(i) || s.ClearFlag(i) {
			t.Errorf("lock or flag %d is not as it was set", i)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Lock(0) || s.Locked(1) || s.Flag(0) || s.ClearFlag(0) {
		t.Error("a lock or flag of a closed segment is set, or can be")
	}
	if err := s.WaitFlag(t.Context(), 0); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("to wait for a flag of a closed segment: %v", err)
	}
}

func TestALockOrFlagThatNoSegmentHasIsNamed(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.SharedSegment(7, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, i := range []int{-1, 256} {
		if err := s.WaitFlag(t.Context(), i); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "expected 0 to 255") {
			t.Errorf("to wait for flag %d: %v", i, err)
		}
		for what, call := range map[string]func(int) bool{"lock": s.Lock, "lock ": s.Locked, "flag": s.Flag, "flag ": s.ClearFlag} {
			func() {
				defer func() {
					want := fmt.Sprintf("weft: %s %d of segment 7; expected 0 to 255", strings.TrimSpace(what), i)
					if got := recover(); got != want {
						t.Errorf("%v; expected a panic with %q", got, want)
					}
				}()
				call(i)
			}()
		}
	}
}

// When the last process of a segment ends, the segment ends with its size, its contents and its
// locks. The memory stays mapped in the processes that mapped it.
func TestASegmentGoesWithTheLastProcessThatHasIt(t *testing.T) { // PANIC-23
	ctx := t.Context()
	n, err := weft.OpenNIC(ctx, weft.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	attach := func(name string) *weft.Process {
		t.Helper()
		p, err := n.Attach(ctx, weft.Name{App: name})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	share := func(p *weft.Process, bytes int) *weft.SharedSegment {
		t.Helper()
		s, err := p.SharedSegment(2, bytes)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := attach("a"), attach("b")
	of := share(a, 64)
	share(a, 64)
	second := share(b, 64)
	of.Lock(3)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if !second.Locked(3) || share(b, 64).Close() != nil || !second.Locked(3) {
		t.Error("a lock has gone though another process has the segment")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c := attach("c")
	defer c.Close()
	anew := share(c, 128)
	if anew.Locked(3) {
		t.Error("a lock of processes that have gone is set")
	}
	for _, s := range []*weft.SharedSegment{of, second} {
		s.Bytes()[0] = 1
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// The segment still exists.
	if _, err := c.SharedSegment(2, 64); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("the segment, shorter: %v", err)
	}
	if _, err := b.SharedSegment(2, 128); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a segment of a process that is closed: %v", err)
	}
}
