package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// longestLine bounds a line of output that stays whole, in bytes. A longer line is split.
const longestLine = 64 << 10

// lines merges the output of several hosts line by line, and marks each line with its host.
type lines struct {
	stdout, stderr io.Writer

	mu      sync.Mutex // held for one line
	readers sync.WaitGroup
}

func newLines(stdout, stderr io.Writer) *lines { return &lines{stdout: stdout, stderr: stderr} }

// pipe returns the writing end of a pipe whose lines are printed as a host's.
func (l *lines) pipe(host int, stderr bool) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	to := l.stdout
	if stderr {
		to = l.stderr
	}
	l.readers.Go(func() {
		defer r.Close()
		l.copy(to, r, fmt.Sprintf("[%d] ", host))
	})
	return w, nil
}

// copy prints the lines of r until its end. It adds a newline to an incomplete last line.
func (l *lines) copy(to io.Writer, r io.Reader, mark string) {
	in := bufio.NewReaderSize(r, longestLine)
	for {
		text, err := in.ReadSlice('\n')
		if n := len(text); n > 0 {
			line := append([]byte(mark), text...)
			if text[n-1] != '\n' {
				line = append(line, '\n')
			}
			l.mu.Lock()
			_, _ = to.Write(line) // if the reader is gone, SIGPIPE ends weft and all with it
			l.mu.Unlock()
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// wait returns when every pipe is at its end, that is, when no process holds one any more.
func (l *lines) wait() { l.readers.Wait() }

// waitFor waits like wait, for at most d.
func (l *lines) waitFor(d time.Duration) {
	done := make(chan struct{})
	go func() {
		l.wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
}
