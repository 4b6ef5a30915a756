package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/inflight"
)

// crew is a weft of ours in a process of its own that is spoken to by its standard input, and answers on its standard output.
type crew struct {
	*child
	in  io.WriteCloser
	out *bufio.Reader
}

// talk starts a child with pipes to and from it. It ends when its standard input does, so it does not outlive this process.
func (u *undo) talk(of *child) (c *crew, err error) {
	c = &crew{child: of}
	if c.in, err = of.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := of.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := of.start(); err != nil {
		return nil, err
	}
	u.add(func() error {
		_ = c.in.Close() // it may be closed already
		return of.end()
	})
	return c, nil
}

// startCrew starts `weft bench KIND` with arguments and waits for its first line.
func (u *undo) startCrew(self, kind string, args ...string) (c *crew, line string, err error) {
	if c, err = u.talk(newChild(self, append([]string{"bench", kind}, args...)...)); err == nil {
		line, err = c.line()
	}
	if err != nil {
		return nil, "", fmt.Errorf("bench: starting a program of processes: %w", err)
	}
	return c, line, nil
}

// startServer starts the server of a pair, and returns its address.
func (u *undo) startServer(of *child) (addr string, err error) {
	c, err := u.talk(of)
	if err != nil {
		return "", err
	}
	return c.line()
}

// hangUpWith ends c and others when ctx does, unless the function that it returns is called before.
func (c *crew) hangUpWith(ctx context.Context, others ...*crew) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		for _, c := range append(others, c) {
			_ = c.in.Close()
		}
	})
}

// line is the next line that the program says. One that ends instead has said why.
func (c *crew) line() (string, error) {
	s, err := c.out.ReadString('\n')
	if err != nil {
		_ = c.in.Close()
		if why := c.end(); why != nil {
			return "", why
		}
		return "", fmt.Errorf("it said nothing: %w", err)
	}
	return strings.TrimSpace(s), nil
}

// ask says a line, and reads the answer, if there is to be one.
func (c *crew) ask(what string, answer any) error {
	if _, err := fmt.Fprintln(c.in, what); err != nil || answer == nil {
		return err
	}
	return c.hear(answer)
}

// hear reads what the program says on its own account.
func (c *crew) hear(answer any) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), answer); err != nil {
		return fmt.Errorf("bench: a program says %q: %w", line, err)
	}
	return nil
}

// attach makes a process of the daemon at socket.
func (u *undo) attach(ctx context.Context, socket string, name weft.Name) (*weft.Process, error) {
	p, err := weft.Attach(ctx, weft.AttachConfig{Socket: socket, Name: name})
	if err != nil {
		return nil, err
	}
	u.add(p.Close)
	return p, nil
}

// errOver is what flow ends with when begin says that there is to be no more.
var errOver = errors.New("bench: it is over")

// flow keeps so many operations under way, until begin or one of them fails or ctx ends. Of each that has ended done is told.
func flow(ctx context.Context, window int, begin func() (*weft.Op, error), done func()) error {
	ring := inflight.New(window)
	defer ring.Cancel(nil)
	for {
		if ring.Full() {
			if _, err := ring.Oldest(ctx); err != nil {
				return err
			}
			done()
		}
		if err := ring.Add(begin()); err != nil {
			return err
		}
	}
}
