package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/launch"
)

// rankStream is one stream of one rank.
type rankStream struct{ rank, stream int }

// lineSink writes whole lines of many ranks to standard output and standard error.
type lineSink struct{ out, err *lineTarget }

func (s *lineSink) output(rank, stream int, b []byte) error {
	t := s.out
	if stream == launch.Stderr {
		t = s.err
	}
	return t.put(rankStream{rank, stream}, b)
}

func (s *lineSink) ended(rank int) error {
	return joinErrors(s.out.show(rankStream{rank, launch.Stdout}), s.err.show(rankStream{rank, launch.Stderr}))
}

func (s *lineSink) close() error {
	err := s.out.close()
	if s.err != s.out {
		err = joinErrors(err, s.err.close())
	}
	return err
}

// Bounds of the incomplete lines that a lineTarget holds, in bytes.
const (
	mostHeld    = 64 << 10 // of one stream
	mostHeldAll = 16 << 20 // of all streams together
)

// lineTarget is a file that many ranks write to. No line of one rank is inside a line of
// another.
//
// A rank's incomplete line is held until its rest comes, its rank ends, or no rank has written
// for showAfter. On a terminal it is shown at once, because it may be a prompt. If another rank
// writes after an incomplete line was shown, a newline ends that line first.
type lineTarget struct {
	terminal bool
	tag      bool // "[RANK] " before each line

	mu       sync.Mutex // held while the writer waits
	w        io.Writer
	open     rankStream // stream of the last incomplete line written
	isOpen   bool
	held     map[rankStream][]byte
	heldAll  int
	puts     int  // counts the calls of put
	watching bool // a goroutine shows what is held
	closed   bool
	line     []byte // of tagged lines
	failed   error  // of a write for which no caller waited
}

func newLineTarget(w io.Writer, terminal, tag bool) *lineTarget {
	return &lineTarget{w: w, terminal: terminal, tag: tag, held: make(map[rankStream][]byte)}
}

// put writes the whole lines of b, and writes or holds the rest.
func (t *lineTarget) put(s rankStream, b []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	t.puts++
	if h := t.held[s]; h != nil {
		b = append(h, b...)
		t.drop(s)
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	if err := t.write(s, b[:end]); err != nil {
		return err
	}
	rest := b[end:]
	switch continues := t.isOpen && t.open == s; {
	case len(rest) == 0:
		return nil
	case continues, t.terminal, len(rest) > mostHeld, t.heldAll+len(rest) > mostHeldAll:
		return t.write(s, rest)
	}
	t.held[s] = slices.Clone(rest)
	t.heldAll += len(rest)
	if !t.watching {
		t.watching = true
		go t.watch()
	}
	return nil
}

func (t *lineTarget) drop(s rankStream) {
	t.heldAll -= len(t.held[s])
	delete(t.held, s)
}

// write writes bytes of one stream. It first ends an incomplete line of another stream.
func (t *lineTarget) write(s rankStream, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if t.isOpen && t.open != s {
		t.isOpen = false
		if _, err := t.w.Write([]byte{'\n'}); err != nil {
			return err
		}
	}
	continues := t.isOpen
	t.isOpen, t.open = b[len(b)-1] != '\n', s
	if t.tag {
		b = t.tagged(s, b, continues)
	}
	_, err := t.w.Write(b)
	return err
}

// tagged puts the rank before each line of b. If b continues a line, the first gets none.
func (t *lineTarget) tagged(s rankStream, b []byte, continues bool) []byte {
	t.line = t.line[:0]
	for line := range bytes.Lines(b) {
		if !continues {
			t.line = fmt.Appendf(t.line, "[%d] ", s.rank)
		}
		continues = false
		t.line = append(t.line, line...)
	}
	return t.line
}

// watch shows incomplete lines when no rank has written for showAfter.
func (t *lineTarget) watch() {
	for seen := -1; ; {
		time.Sleep(showAfter)
		t.mu.Lock()
		if t.puts == seen && t.failed == nil {
			t.failed = t.showAll()
		}
		seen = t.puts
		if len(t.held) == 0 || t.closed || t.failed != nil {
			t.watching = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
	}
}

// showAll writes all held lines, in the order of ranks.
func (t *lineTarget) showAll() error {
	all := make([]rankStream, 0, len(t.held))
	for s := range t.held {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b rankStream) int { return 2*(a.rank-b.rank) + a.stream - b.stream })
	for _, s := range all {
		if err := t.showOne(s); err != nil {
			return err
		}
	}
	return nil
}

func (t *lineTarget) showOne(s rankStream) error {
	b := t.held[s]
	t.drop(s)
	return t.write(s, b)
}

// show writes the held line of one stream.
func (t *lineTarget) show(s rankStream) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	return t.showOne(s)
}

func (t *lineTarget) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.failed != nil {
		return t.failed
	}
	return t.showAll()
}
