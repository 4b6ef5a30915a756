package daemon_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// turnSource negates eight words of segment 2 if lock 3 is set, then clears the lock and sets
// flag 5.
const turnSource = `PROGRAM turn: VAR v[8], i; TRIGGERS 1;
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
END;`

func loadTurn(ctx context.Context, t *testing.T, p *weft.Process) {
	t.Helper()
	m, err := pdl.Compile("turn.pdl", []byte(turnSource))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.On(p).Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{ID: 9, Start: true}); err != nil {
		t.Fatal(err)
	}
}

func segment(t *testing.T, p *weft.Process, bytes int) *weft.SharedSegment {
	t.Helper()
	s, err := p.SharedSegment(2, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Two processes of a daemon and a program share a segment: one writes and starts the program, the
// other sleeps until a flag reports the program's answer.
func TestProcessesOfADaemonShareASegmentWithAProgram(t *testing.T) { // PANIC-23, PANIC-24, PANIC-25
	c := configs(t, 1)[0]
	run(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	writer, reader := mustAttach(t, c, "writer/0"), mustAttach(t, c, "reader/0")
	loadTurn(ctx, t, writer)
	in, out := segment(t, writer, 200), segment(t, reader, 200)
	for round := range uint64(20) {
		var want []byte
		for i := range uint64(8) {
			binary.LittleEndian.PutUint64(in.Bytes()[8+8*i:], round*i)
			want = binary.LittleEndian.AppendUint64(want, -(round * i))
		}
		if !in.Lock(3) || !out.Locked(3) {
			t.Fatal("a lock was set before, or does not show to the other process")
		}
		flag := make(chan error)
		go func() { flag <- out.WaitFlag(ctx, 5) }()
		if round%4 == 0 {
			time.Sleep(5 * time.Millisecond) // it sleeps
		}
		if err := program.On(writer).Send(ctx, program.Address{ID: 9}, 1); err != nil {
			t.Fatal(err)
		}
		if err := <-flag; err != nil {
			t.Fatal(err)
		}
		if got := out.Bytes()[72:136]; !bytes.Equal(got, want) || out.Locked(3) || in.Flag(5) {
			t.Fatalf("round %d: the program has delivered %x, want %x; lock %v, flag %v", round, got, want, out.Locked(3), in.Flag(5))
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if !out.Lock(3) {
		t.Error("a lock is set that the program has cleared")
	}
	if err := program.On(writer).SendHandled(ctx, program.Address{ID: 9}, 1); err != nil || out.Locked(3) {
		t.Errorf("one process has let the segment go, and the program does without: %v", err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if _, err := writer.SharedSegment(2, 300); err != nil {
		t.Errorf("the last has let it go, and one of another length is made: %v", err)
	}
}

func TestASegmentThatDoesNotFitIsRefused(t *testing.T) {
	c := configs(t, 1)[0]
	c.RegionBytes = 1 << 20
	run(t, c)
	p := mustAttach(t, c, "a/0")
	s := segment(t, p, 200)
	for _, bytes := range []int{0, -1, 192, 208, 64<<20 + 1} {
		if _, err := p.SharedSegment(2, bytes); !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("%d bytes of a segment that has 200: %v", bytes, err)
		}
	}
	if _, err := p.SharedSegment(3, 1<<20); err == nil {
		t.Error("a process has more memory than its quota")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, err := p.SharedSegment(3, 1<<20); err != nil {
		t.Errorf("what was let go still counts: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A process that dies releases its segments. Programs see the same memory as the living
// processes.
func TestASegmentGoesWithTheLastProcess(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := mustAttach(t, c, "a/0")
	loadTurn(ctx, t, p)
	dies := child(t, "sharer", c.Socket)
	mine := segment(t, p, 200)
	if string(mine.Bytes()[:5]) != "hello" {
		t.Fatalf("the segment begins with %q", mine.Bytes()[:5])
	}
	if err := dies.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = dies.Wait() // killed
	mine.Lock(3)
	if err := program.On(p).SendHandled(ctx, program.Address{ID: 9}, 1); err != nil || mine.Locked(3) {
		t.Errorf("the other process has died, and the program has the segment no more: %v", err)
	}
	if err := mine.Close(); err != nil {
		t.Error(err)
	}
	// until the daemon knows of the death
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s, err := p.SharedSegment(2, 100)
		if err == nil {
			if got := s.Bytes()[0]; got != 0 {
				t.Errorf("a new segment begins with %d", got)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the dead process still has the segment: %v", err)
		}
	}
}

// Close unmaps a segment. Its locks and flags then read as clear, also for a goroutine that reads
// them at that moment.
func TestAClosedSegmentIsNotLookedAt(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	p := mustAttach(t, c, "a/0")
	for range 20 {
		s := segment(t, p, 200)
		s.Lock(1)
		looking, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for n := 0; s.Locked(1); n++ { // until it is closed
				if s.Flag(2) || s.ClearFlag(2) {
					t.Error("a flag is set")
				}
				if n == 10 {
					close(looking)
				}
			}
		}()
		<-looking
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		<-done
		if s.Lock(3) || s.Locked(3) || s.Flag(3) || s.ClearFlag(3) {
			t.Error("a lock or flag of a closed segment is set, or can be")
		}
	}
}
