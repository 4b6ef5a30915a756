package ranks

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
)

// lineChecker checks that the lines of writeLines come whole and in order.
type lineChecker struct {
	next int
	bad  string // the first error
}

func (l *lineChecker) take(tag string, b []byte) {
	if l.bad != "" {
		return
	}
	if len(b) == 0 || b[len(b)-1] != '\n' {
		l.bad = "a torn line: " + string(b[max(0, len(b)-100):])
		return
	}
	for part := range bytes.Lines(b) {
		if string(part) != line(tag, l.next) {
			l.bad = "line " + string(part) + " in place of " + line(tag, l.next)
			return
		}
		l.next++
	}
}

// A rank that writes fast fills the buffer with many lines and the beginning of another one.
func TestAFullBufferOfLinesIsCutAtALine(t *testing.T) {
	var got []string
	o := &output{whole: true, deliver: func(b []byte) error {
		got = append(got, string(b))
		return nil
	}}
	o.buf = append(make([]byte, 0, 16), "first\nsecond\nthi"...)
	if err := o.flush(false); err != nil || len(got) != 1 || got[0] != "first\nsecond\n" || string(o.buf) != "thi" {
		t.Errorf("delivered %q, %v; kept %q", got, err, o.buf)
	}
	o.buf = append(o.buf[:0], "a line of 16 B…"[:16]...)
	if err := o.flush(false); err != nil || len(got) != 2 || len(got[1]) != 16 || len(o.buf) != 0 {
		t.Errorf("a line at the bound: delivered %q, %v; kept %q", got, err, o.buf)
	}
}

func TestAMillionLinesOfTwoRanksComeWholeAndInOrder(t *testing.T) {
	n := 500_000
	if testing.Short() {
		n = 20_000
	}
	r := newRecorder(t)
	c := r.config(2, "set below")
	// Output runs on one goroutine for each rank and stream, so the checkers need no lock.
	var check [2]lineChecker
	c.Argv = argv("lines", "a", itoa(n))
	c.delay = patience // the ranks write pieces of lines, and a busy machine may delay the rest
	c.Output = func(rank, stream int, b []byte) error {
		if stream != Stdout {
			return r.output(rank, stream, b)
		}
		check[rank].take("a", b)
		return nil
	}
	s := r.start(c)
	s.Wait()
	for i := range check {
		if check[i].bad != "" || check[i].next != n {
			t.Errorf("rank %d: %d of %d lines arrived; %s", i, check[i].next, n, check[i].bad)
		}
		if got := r.text(i, Stderr); got != "" {
			t.Errorf("rank %d wrote %q to stderr; expected nothing", i, got)
		}
	}
}

func TestStdoutAndStderrAreTwoStreams(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(3, argv("say", "to stdout\n", "to stderr\n")...))
	s.Wait()
	for i := range 3 {
		if out, err := r.text(i, Stdout), r.text(i, Stderr); out != "to stdout\n" || err != "to stderr\n" {
			t.Errorf("rank %d wrote %q and %q", i, out, err)
		}
	}
}

func TestAPromptLeavesWithoutItsNewline(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("pieces", "name? ")...))
	r.awaitText(0, "name? ")
	s.Signal(unix.SIGTERM)
}

func TestALineInTwoQuickPiecesStaysWhole(t *testing.T) {
	r := newRecorder(t)
	c := r.config(1, argv("pieces", "one ", "two\n", "three\n")...)
	var calls []string
	c.Output = func(rank, stream int, b []byte) error {
		calls = append(calls, string(b))
		return r.output(rank, stream, b)
	}
	r.start(c)
	r.awaitText(0, "three\n")
	// On a busy machine the second piece may be late, and a torn line is then right.
	if strings.Join(calls, "") != "one two\nthree\n" {
		t.Errorf("the output is %q", calls)
	}
	for _, b := range calls {
		if !strings.HasSuffix(b, "\n") && b != "one " {
			t.Errorf("the output has the piece %q; expected whole lines", b)
		}
	}
}

func TestALongLineLeavesIn64KiBPieces(t *testing.T) {
	const n = 300 << 10
	r := newRecorder(t)
	c := r.config(1, argv("long", itoa(n))...)
	longest := 0
	c.Output = func(rank, stream int, b []byte) error {
		longest = max(longest, len(b))
		return r.output(rank, stream, b)
	}
	r.start(c).Wait()
	if got := r.text(0, Stdout); got != strings.Repeat("y", n)+"\n" {
		t.Errorf("%d bytes arrived; expected %d", len(got), n+1)
	}
	if longest > limits.RankLineBytes {
		t.Errorf("one piece has %d bytes; expected at most %d", longest, limits.RankLineBytes)
	}
}

func TestUnbufferedOutputComesByteByByte(t *testing.T) {
	r := newRecorder(t)
	c := r.config(1, argv("cat")...)
	c.Unbuffered, c.Stdin = true, map[int]bool{0: true}
	s := r.start(c)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
		if err := s.Feed(0, all[i:i+1]); err != nil {
			t.Fatal(err)
		}
		r.awaitText(0, string(all[:i+1])) // no newline has to follow
	}
	s.CloseStdin(0)
	s.Wait()
	if got := r.text(0, Stdout); got != string(all)+"EOF\n" {
		t.Errorf("the output is %q", got)
	}
}

func TestASlowReceiverStopsTheRankAndNothingGrows(t *testing.T) {
	const n = 300_000
	r := newRecorder(t)
	c := r.config(1, argv("lines", "b", itoa(n))...)
	c.delay = patience
	open := make(chan struct{})
	var check lineChecker
	var delivered atomic.Int64
	entered := make(chan struct{}, 1)
	c.Output = func(_, _ int, b []byte) error {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-open
		delivered.Add(int64(len(b)))
		check.take("b", b)
		return nil
	}
	before := heap()
	s := r.start(c)
	t.Cleanup(func() { close(open) }) // before the job's own cleanup, which waits for the output
	<-entered                         // the reader is in Output, and reads no more
	awaitFull(t, s.ranks[0].out)
	for range 20 {
		if left, _ := pipeBytes(s.ranks[0].out.from); left < limits.RankLineBytes/2 || delivered.Load() > 0 {
			t.Fatalf("the pipe holds %d bytes, and %d are delivered; expected that the rank waits", left, delivered.Load())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if state := s.Inspect()[0].State; state == "ended" {
		t.Error("the rank has ended; expected that it waits for the receiver")
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the keeper has grown by %d bytes", grown)
	}
	open <- struct{}{} // one call passes, and the rank goes on
	for delivered.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 1_000_000 {
		select {
		case open <- struct{}{}:
			continue
		case <-s.ranks[0].out.drained:
		}
		break
	}
	s.Wait()
	if check.bad != "" || check.next != n {
		t.Errorf("%d of %d lines arrived; %s", check.next, n, check.bad)
	}
}

func TestAFailedReceiverClosesTheStream(t *testing.T) {
	r := newRecorder(t)
	c := r.config(1, argv("chatty")...)
	c.Output = func(int, int, []byte) error { return errors.New("the launcher is gone") }
	r.start(c)
	if e := r.exit(0); e.Cause != "killed by SIGPIPE" {
		t.Errorf("the rank ended with %+v; expected SIGPIPE", e)
	}
}

func TestTheEndOfARankDoesNotWaitForAProcessThatKeepsItsOutput(t *testing.T) {
	for _, left := range []string{"escaped", "chatty"} {
		t.Run(left, func(t *testing.T) {
			r := newRecorder(t)
			s := r.start(r.config(1, argv("leaver", left)...))
			if e := r.exit(0); e.Cause != "" {
				t.Errorf("the rank ended with %+v; expected status 0", e)
			}
			if n := len(descendants(os.Getpid())); n != 1 {
				t.Errorf("%d processes are left; expected the one that the rank started", n)
			}
			// The output of that process still arrives after the rank's end.
			r.awaitText(0, map[string]string{"escaped": "escaped", "chatty": "still here\nstill here\n"}[left])
			s.Wait()
			if gone := s.End(0); len(gone) > 0 {
				t.Errorf("processes are left: %+v", gone)
			}
		})
	}
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// pipeBytes returns how many bytes a pipe holds.
func pipeBytes(f *os.File) (n int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := c.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n, errors.Join(err, cerr)
}

// awaitFull waits until the pipe of a stream has filled.
func awaitFull(t *testing.T, o *output) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		n, err := pipeBytes(o.from)
		if err != nil {
			t.Fatal(err)
		}
		if n > limits.RankLineBytes/2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the pipe holds %d bytes; expected that it fills", n)
		}
	}
}
