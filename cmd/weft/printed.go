package main

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
)

// printed is where a command prints. It keeps the first write error, and the command fails with
// it at the end, so not every Fprintf needs a check. The end of the reader is no error: SIGPIPE
// then ends a command, unless others use the command (outlivesReaders).
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

// lost returns the first error.
func (p *printed) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// stdoutOf returns the standard output for a program that a command runs. If it is a file, no
// pipe lies in between.
func stdoutOf(c *cobra.Command) io.Writer { return unprinted(c.OutOrStdout()) }

// unprinted returns the writer behind a printed.
func unprinted(out io.Writer) io.Writer {
	if p, ok := out.(*printed); ok {
		return p.to
	}
	return out
}
