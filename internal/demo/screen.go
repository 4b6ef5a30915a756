package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// screen writes for people: on a terminal with a bar that grows in place, elsewhere in plain
// lines.
type screen struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
}

func newScreen(out io.Writer, terminal bool) *screen { return &screen{out: out, terminal: terminal} }

// printf writes to the output. It ignores errors of the output.
func (s *screen) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format, args...)
}

func (s *screen) style(code, text string) string {
	if !s.terminal {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) bold(text string) string { return s.style("1", text) }
func (s *screen) dim(text string) string  { return s.style("2", text) }
func (s *screen) good(text string) string { return s.style("1;32", text) }
func (s *screen) bad(text string) string  { return s.style("1;31", text) }

// tally counts the bytes and things that a step has verified so far.
type tally struct{ bytes, things atomic.Int64 }

func (t *tally) add(bytes, things int) {
	t.bytes.Add(int64(bytes))
	t.things.Add(int64(things))
}

// step is the line of a step on the screen while the step runs.
type step struct {
	tally
	screen     *screen
	name, what string
	total      int64 // bytes or, for a step that moves no bytes, things
	began      time.Time
	told       int // percentage in the last plain line
	stop       chan struct{}
	stopped    sync.WaitGroup
}

// The interval at which a bar grows, and the interval of plain lines about a step that takes
// long.
const (
	barEvery  = 80 * time.Millisecond
	lineEvery = 2 * time.Second
)

func (s *screen) begin(name, what string, total int64) *step {
	st := &step{screen: s, name: name, what: what, total: total, began: time.Now(), stop: make(chan struct{})}
	every := lineEvery
	if s.terminal {
		every = barEvery
		st.draw()
	}
	st.stopped.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-st.stop:
				return
			case <-t.C:
				st.draw()
			}
		}
	})
	return st
}

// done returns the completed share of the step, 0…1.
func (st *step) done() float64 {
	n := st.bytes.Load()
	if n == 0 {
		n = st.things.Load()
	}
	return min(float64(n)/float64(max(st.total, 1)), 1)
}

// Widths of the columns of a step's line. A line fits 80 columns.
const (
	nameWidth  = 11
	whatWidth  = 35
	countWidth = 6
	bytesWidth = 9
	barWidth   = 20
)

// heading prints the names of the columns that end fills.
func (s *screen) heading() {
	s.printf("%s\n", s.dim(fmt.Sprintf("      %-*s %-*s %*s %*s %8s", nameWidth, "", whatWidth, "", countWidth,
		"checks", bytesWidth, "bytes", "time")))
}

// draw shows the progress of the step.
func (st *step) draw() {
	s := st.screen
	if !s.terminal {
		if p := int(100 * st.done()); p != st.told { // only a new percentage gets a line
			s.printf("  ..  %-*s %3d %% done\n", nameWidth, st.name, p)
			st.told = p
		}
		return
	}
	full := int(st.done() * barWidth)
	bar := strings.Repeat("━", full) + s.dim(strings.Repeat("━", barWidth-full))
	s.printf("\r\x1b[K  %s  %-*s %-*s %s", s.style("36", "··"), nameWidth, st.name, whatWidth, st.what, bar)
}

// end replaces the progress by the result.
func (st *step) end(err error) {
	close(st.stop)
	st.stopped.Wait()
	s := st.screen
	clear, mark := "", s.good("ok")
	if s.terminal {
		clear = "\r\x1b[K"
	}
	if err != nil {
		mark = s.bad("!!")
	}
	moved := ""
	if n := st.bytes.Load(); n > 0 {
		moved = size(int(n))
	}
	s.printf("%s  %s  %-*s %-*s %*s %*s %6.2f s\n", clear, mark, nameWidth, st.name, whatWidth, st.what,
		countWidth, count(uint64(st.things.Load())), bytesWidth, moved, time.Since(st.began).Seconds())
}

// count returns a number with thousands separators: 12,345.
func count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size returns a length in a suitable unit: 64 B, 4 KiB, 16 MiB.
func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return trimZero(float64(n)/(1<<10)) + " KiB"
	}
	return trimZero(float64(n)/(1<<20)) + " MiB"
}

func trimZero(v float64) string { return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") }
