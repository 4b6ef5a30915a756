package ranks

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
)

// reader starts a rank with stdin.
func (r *recorder) reader(argv []string) *Set {
	r.t.Helper()
	c := r.config(2, argv...)
	c.Stdin = map[int]bool{0: true}
	return r.start(c)
}

func (r *recorder) awaitWants(n int) {
	r.t.Helper()
	r.await("further Want of rank 0", func() bool { return r.wants[0] >= n })
}

func (r *recorder) countWants() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wants[0]
}

func TestInputIsWantedOnceTheRankHasReadTheLast(t *testing.T) {
	r := newRecorder(t)
	s := r.reader(argv("askbyte"))
	r.awaitText(0, "ready\n")
	r.awaitWants(1)
	if err := s.Feed(0, []byte("ab")); err != nil {
		t.Fatal(err)
	}
	for i, read := range []string{`read "a"`, `read "b"`} {
		if n := r.countWants(); n != 1 {
			t.Errorf("before byte %d is read, input was wanted %d times; expected once", i, n)
		}
		time.Sleep(20 * time.Millisecond) // a Want too early has the time to come
		s.Signal(unix.SIGUSR1)
		r.awaitText(0, read)
	}
	r.awaitWants(2)
	s.CloseStdin(0)
	s.Signal(unix.SIGUSR1)
	r.awaitText(0, `read "" EOF`)
	time.Sleep(20 * time.Millisecond)
	if n := r.countWants(); n != 2 {
		t.Errorf("input was wanted %d times; expected no Want after CloseStdin", n)
	}
}

func TestARankThatEnlargesItsPipeIsNotFedAhead(t *testing.T) {
	r := newRecorder(t)
	s := r.reader(argv("askbyte", "enlarge"))
	r.awaitText(0, "ready\n")
	r.awaitWants(1)
	if err := s.Feed(0, []byte("ab")); err != nil {
		t.Fatal(err)
	}
	s.Signal(unix.SIGUSR1)
	r.awaitText(0, `read "a"`)
	time.Sleep(50 * time.Millisecond)
	if n := r.countWants(); n != 1 {
		t.Errorf("input was wanted %d times while a byte is unread; expected once", n)
	}
	s.Signal(unix.SIGUSR1)
	r.awaitText(0, `read "b"`)
	r.awaitWants(2)
}

func TestAllInputArrivesInOrderAndThenEOF(t *testing.T) {
	r := newRecorder(t)
	s := r.reader(argv("cat"))
	var fed bytes.Buffer
	for i := range 200 {
		r.awaitWants(i + 1)
		chunk := []byte(line(strings.Repeat("z", i*97), i))
		fed.Write(chunk)
		if err := s.Feed(0, chunk); err != nil {
			t.Fatal(err)
		}
	}
	s.CloseStdin(0)
	s.Wait()
	if got := r.text(0, Stdout); got != fed.String()+"EOF\n" {
		t.Errorf("the rank read %d bytes; expected %d", len(got), fed.Len())
	}
	// Rank 1 has no stdin.
	if got := r.text(1, Stdout); got != "EOF\n" {
		t.Errorf("rank 1 read %q; expected an empty file", got)
	}
	if r.wants[1] != 0 {
		t.Errorf("rank 1 wants input %d times; expected never", r.wants[1])
	}
	if err := s.Feed(1, []byte("x")); !errors.Is(err, ErrNoInput) {
		t.Errorf("Feed of a rank without stdin returns %v; expected %v", err, ErrNoInput)
	}
	if err := s.Feed(7, []byte("x")); !errors.Is(err, ErrNoInput) {
		t.Errorf("Feed of an unknown rank returns %v; expected %v", err, ErrNoInput)
	}
}

func TestARankThatNeverReadsIsOfferedAHundredMegabytesAndNothingGrows(t *testing.T) {
	r := newRecorder(t)
	s := r.reader(argv("sleep"))
	r.awaitText(0, "ready\n")
	r.awaitWants(1)
	before := heap()
	chunk := make([]byte, 64<<10)
	taken := 0
	for range 100 << 20 / len(chunk) {
		switch err := s.Feed(0, chunk); {
		case err == nil:
			taken += len(chunk)
		case !errors.Is(err, ErrInputFull):
			t.Fatalf("Feed returns %v; expected %v", err, ErrInputFull)
		}
	}
	// One limit for the bytes that the feeding goroutine holds, one for the bytes that wait for it.
	if taken > 2*limits.RankInputBytes {
		t.Errorf("the keeper took %d bytes; expected at most %d", taken, 2*limits.RankInputBytes)
	}
	if grown := heap() - before; grown > 4*limits.RankInputBytes {
		t.Errorf("the keeper has grown by %d bytes", grown)
	}
	if n := r.countWants(); n != 1 {
		t.Errorf("input was wanted %d times; expected once", n)
	}
	end(t, s)
}

func TestARankThatHasClosedItsInputIsNoError(t *testing.T) {
	r := newRecorder(t)
	s := r.reader(argv("closein"))
	r.awaitText(0, "ready\n")
	for range 100 {
		if err := s.Feed(0, []byte("nobody reads this\n")); err != nil {
			t.Fatalf("Feed returns %v; expected nil", err)
		}
		time.Sleep(time.Millisecond)
	}
	if n := r.countWants(); n > 1 {
		t.Errorf("a rank without stdin wants input %d times", n)
	}
	end(t, s)
	if err := s.Feed(0, []byte("after the end")); err != nil {
		t.Errorf("Feed after the rank's end returns %v; expected nil", err)
	}
	s.CloseStdin(0)
}
