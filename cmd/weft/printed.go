package main

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
)

// printed is where a command prints. It keeps the first error of writing, by which the command fails in the end, so that not every Fprintf has to be
// looked at. The end of the reader is no error: SIGPIPE ends a command then, unless others use it (outlivesReaders).
type printed struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

func (p *printed) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err == nil {
			p.err = err
		}
	}
	return n, err
}

// lost is the first error.
func (p *printed) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// stdoutOf is the standard output of a program that a command runs: no pipe lies in between if it is a file.
func stdoutOf(c *cobra.Command) io.Writer { return unprinted(c.OutOrStdout()) }

// unprinted is what is behind a printed.
func unprinted(out io.Writer) io.Writer {
	if p, ok := out.(*printed); ok {
		return p.to
	}
	return out
}
