package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// crew is a child process that reads questions from its standard input, and answers on its
// standard output.
type crew struct {
	*child
	in  io.WriteCloser
	out *bufio.Reader
}

// talk starts a child with pipes to and from it. The child's standard input ends when ctx or
// this process ends, and the child ends with it.
func (u *undo) talk(ctx context.Context, of *child) (c *crew, err error) {
	// not StdoutPipe, which is closed as soon as the child ends, even if its last output is
	// unread
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	u.add(out.Close)
	c = &crew{child: of, out: bufio.NewReader(out)}
	of.Stdout = theirs
	if c.in, err = of.StdinPipe(); err == nil {
		err = of.start()
	}
	theirs.Close() // the child has its own
	if err != nil {
		return nil, err
	}
	hungUp := context.AfterFunc(ctx, func() { _ = c.in.Close() })
	u.add(func() error {
		hungUp()
		_ = c.in.Close() // it may be closed already
		return of.end()
	})
	return c, nil
}

// startCrew starts a program of processes and waits for its first line.
func (u *undo) startCrew(ctx context.Context, self, kind string, p crewPlan) (c *crew, line string, err error) {
	if c, err = u.talk(ctx, newChild(self, childPlan{Crew: &p}.args(kind)...)); err == nil {
		line, err = c.line()
	}
	if err != nil {
		return nil, "", fmt.Errorf("bench: starting a program of processes: %w", err)
	}
	return c, line, nil
}

// startServer starts the server of a pair, and returns its address.
func (u *undo) startServer(ctx context.Context, of *child) (addr string, err error) {
	c, err := u.talk(ctx, of)
	if err == nil {
		addr, err = c.line()
	}
	if err != nil {
		err = fmt.Errorf("bench: starting a server: %w", err)
	}
	return addr, err
}

// line returns the next line of the program. If the program ends instead, it returns the
// program's error.
func (c *crew) line() (string, error) {
	s, err := c.out.ReadString('\n')
	if err != nil {
		_ = c.in.Close()
		if why := c.end(); why != nil {
			return "", why
		}
		return "", fmt.Errorf("bench: a process that was to answer has ended: %w", err)
	}
	return strings.TrimSpace(s), nil
}

// ask sends a question, and reads the answer. If the program has ended, it returns the program's
// error.
func (c *crew) ask(question, answer any) error {
	c.tell(question)
	return c.hear(answer)
}

// tell sends a question without reading the answer.
func (c *crew) tell(question any) {
	_ = json.NewEncoder(c.in).Encode(question) // hear finds an error
}

// hear reads a line that the program prints.
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

// flow keeps window operations in flight, until begin or one of them fails, or ctx ends. It
// calls done after each operation that has ended.
func flow(ctx context.Context, window int, begin func(*weft.Op) error, done func()) error {
	ring := load.NewRing(window)
	defer ring.Cancel(nil)
	for {
		if ring.Full() {
			if _, err := ring.Oldest(ctx); err != nil {
				return err
			}
			done()
		}
		op := ring.Next()
		if err := ring.Add(op, begin(op)); err != nil {
			return err
		}
	}
}
