package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/launch"
)

// settled waits until cond is true, for up to a minute.
func settled(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute, %s", what)
		}
	}
}

func TestLinesOfRanksAreWhole(t *testing.T) {
	var out bytes.Buffer
	l := newLineTarget(&out, false, false)
	for _, p := range []struct {
		rank int
		text string
	}{{0, "a1\na"}, {1, "b1\nb2"}, {0, "2\n"}, {1, "\nb3\n"}, {0, "a3"}, {1, "b4\n"}} {
		if err := l.put(rankStream{p.rank, launch.Stdout}, []byte(p.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.show(rankStream{0, launch.Stdout}); err != nil {
		t.Fatal(err)
	}
	if err := l.put(rankStream{1, launch.Stdout}, []byte("b5\n")); err != nil {
		t.Fatal(err)
	}
	if want := "a1\nb1\na2\nb2\nb3\nb4\na3\nb5\n"; out.String() != want {
		t.Errorf("written %q; expected %q", out.String(), want)
	}
}

func TestTagsStandBeforeLinesOnly(t *testing.T) {
	var out bytes.Buffer
	l := newLineTarget(&out, true, true)
	for _, p := range []struct {
		rank int
		text string
	}{{0, "x\ny"}, {0, "z\n"}, {12, "p"}, {0, "w\n"}, {12, "q\n"}} {
		if err := l.put(rankStream{p.rank, launch.Stdout}, []byte(p.text)); err != nil {
			t.Fatal(err)
		}
	}
	if want := "[0] x\n[0] yz\n[12] p\n[0] w\n[12] q\n"; out.String() != want {
		t.Errorf("written %q; expected %q", out.String(), want)
	}
}

func TestAnIncompleteLineIsShownWhenNobodyWrites(t *testing.T) {
	var out sharedBuffer
	l := newLineTarget(&out, false, false)
	if err := l.put(rankStream{3, launch.Stdout}, []byte("Name: ")); err != nil {
		t.Fatal(err)
	}
	if out.String() != "" {
		t.Error("an incomplete line was not held")
	}
	settled(t, "the incomplete line is not shown", func() bool { return out.String() == "Name: " })
	settled(t, "the goroutine that watches does not end", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.watching
	})
}

func TestALongLineIsNotHeld(t *testing.T) {
	var out bytes.Buffer
	l := newLineTarget(&out, false, false)
	piece := bytes.Repeat([]byte{'x'}, 40<<10)
	for range 4 {
		if err := l.put(rankStream{0, launch.Stdout}, piece); err != nil {
			t.Fatal(err)
		}
	}
	if l.heldAll > mostHeld || out.Len() < 80<<10 {
		t.Errorf("%d bytes are held, %d written", l.heldAll, out.Len())
	}
	if err := l.close(); err != nil || out.Len() != 160<<10 || l.heldAll != 0 {
		t.Errorf("after the end %d bytes are written, %d held, %v", out.Len(), l.heldAll, err)
	}
}

func TestIncompleteLinesOfManyRanksStayBounded(t *testing.T) {
	l := newLineTarget(io.Discard, false, false)
	piece := bytes.Repeat([]byte{'x'}, mostHeld)
	for rank := range 1024 {
		if err := l.put(rankStream{rank, launch.Stdout}, piece); err != nil {
			t.Fatal(err)
		}
	}
	if l.heldAll > mostHeldAll {
		t.Errorf("%d bytes are held; expected at most %d", l.heldAll, mostHeldAll)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// blockedPipe returns a full pipe, and its reader, which does not read.
func blockedPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestAStoppedReaderStopsRanksAndHoldsNothing(t *testing.T) {
	r, w := blockedPipe(t)
	s := &lineSink{out: newLineTarget(wholeWriter{w}, false, false)}
	s.err = s.out
	var put sync.WaitGroup
	line := append(bytes.Repeat([]byte{'y'}, 1023), '\n')
	const lines = 4096 // 4 MiB, 64 times what a pipe holds
	put.Go(func() {
		for range lines {
			if err := s.output(0, launch.Stdout, line); err != nil {
				t.Error(err)
			}
		}
	})
	n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	if err != nil || n != 1<<20 {
		t.Fatal(n, err)
	}
	// -race would find a race: only the writer holds lines
	if s.out.heldAll != 0 {
		t.Errorf("%d bytes are held", s.out.heldAll)
	}
	go func() { put.Wait(); w.Close() }()
	m, err := io.Copy(io.Discard, r)
	if err != nil || n+m != lines*1024 {
		t.Errorf("read %d bytes, %v; expected %d", n+m, err, lines*1024)
	}
}

func TestANonBlockingOutputGetsEveryByte(t *testing.T) {
	r, w := blockedPipe(t)
	fd := int(w.Fd()) // from here on, Go takes the file for blocking
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	const bytesAll = 1 << 20
	var wrote sync.WaitGroup
	wrote.Go(func() {
		if n, err := (wholeWriter{w}).Write(make([]byte, bytesAll)); n != bytesAll || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		w.Close()
	})
	n, err := io.Copy(io.Discard, r)
	wrote.Wait()
	if n != bytesAll || err != nil {
		t.Errorf("read %d bytes, %v; expected %d", n, err, bytesAll)
	}
}

// refusesAfter is a writer whose reader closes after n bytes.
type refusesAfter struct{ n int }

func (w *refusesAfter) Write(b []byte) (int, error) {
	if w.n -= len(b); w.n < 0 {
		return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
	}
	return len(b), nil
}

func TestALostOutputIsToldOnce(t *testing.T) {
	told := 0
	c := &console{sink: &rawSink{out: &refusesAfter{3}}, events: &eventQueue{}, note: func(launch.Note) {}, lost: func(err error) { told++ }}
	for range 3 {
		err := c.Output(0, launch.Stdout, []byte("ab"))
		if told == 1 && err == nil {
			t.Error("the ranks do not hear that their output is lost")
		}
	}
	if told != 1 {
		t.Errorf("told %d times; expected once", told)
	}
}

func TestEachRankHasItsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := newFileSink(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 2 {
		for _, stream := range []int{launch.Stdout, launch.Stderr} {
			if err := s.output(rank, stream, fmt.Appendf(nil, "%d on %s", rank, streamText(stream))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"0.out": "0 on stdout", "0.err": "0 on stderr", "1.out": "1 on stdout", "1.err": "1 on stderr"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v; expected %q", name, b, err, want)
		}
	}
	if _, err := newFileSink(filepath.Join(dir, "0.out"), 1); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestOutputThatIsNoTextIsBytesInJSON(t *testing.T) {
	var out bytes.Buffer
	s := &jsonSink{newJSONEvents(&out)}
	for _, b := range []string{"<ü>\n", "\xff\x00"} {
		if err := s.output(5, launch.Stderr, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"event":"output","rank":5,"stream":"stderr","text":"<ü>\n"}
{"event":"output","rank":5,"stream":"stderr","bytes":"/wA="}
`
	if out.String() != want {
		t.Errorf("printed %s; expected %s", out.String(), want)
	}
}

func TestLinesOfManyRanksAreNeitherLostNorTorn(t *testing.T) {
	var out bytes.Buffer
	l := newLineTarget(&out, false, false)
	const ranks, lines = 8, 2000
	var text [ranks][]byte
	for rank := range ranks {
		for i := range lines {
			text[rank] = fmt.Appendf(text[rank], "%d %d %s.\n", rank, i, strings.Repeat("z", (rank*31+i*7)%90))
		}
	}
	for step := 0; len(bytes.Join(text[:], nil)) > 0; step++ {
		for rank := range ranks {
			n := min(len(text[rank]), 17+(step*13+rank*101)%499)
			if n == 0 {
				continue
			}
			if err := l.put(rankStream{rank, launch.Stdout}, text[rank][:n]); err != nil {
				t.Fatal(err)
			}
			text[rank] = text[rank][n:]
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	var next [ranks]int
	for line := range strings.Lines(out.String()) {
		var rank, i int
		if _, err := fmt.Sscanf(line, "%d %d", &rank, &i); err != nil || i != next[rank] || !strings.HasSuffix(line, ".\n") || strings.Count(line, ".") != 1 {
			t.Fatalf("line %q; expected line %d of rank %d", line, next[rank], rank)
		}
		next[rank]++
	}
	for rank, n := range next {
		if n != lines {
			t.Errorf("rank %d: %d lines; expected %d", rank, n, lines)
		}
	}
}

// sharedBuffer takes the output of one goroutine while another reads it.
type sharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sharedBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *sharedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
