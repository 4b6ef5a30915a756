package pmi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// At is the location of a rank's PMI server.
type At struct {
	FD   int    // open socket; 0: none
	Port string // HOST:PORT; used if FD is 0
	ID   int    // identifies the rank to the server at Port
}

// Client is a rank's connection to the PMI-1 server of its launcher. It is not safe for
// concurrent use.
type Client struct {
	conn  net.Conn
	lines *bufio.Reader
	name  string // of the job
	rank  int    // from a server at a port; else -1
	size  int    // from a server at a port; else -1
}

// Dial connects to a server and agrees on version 1.1. It takes over the descriptor: no other
// library of this program can use it afterwards.
func Dial(ctx context.Context, at At) (*Client, error) {
	c, err := connect(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("PMI server %s: %w", at, err)
	}
	if err = c.start(ctx, at); err != nil {
		return nil, errors.Join(fmt.Errorf("PMI server %s: %w", at, err), c.conn.Close())
	}
	return c, nil
}

func (at At) String() string {
	if at.FD != 0 {
		return fmt.Sprintf("at descriptor %d", at.FD)
	}
	return "at " + at.Port
}

// connect opens the connection.
func connect(ctx context.Context, at At) (*Client, error) {
	c := &Client{rank: -1, size: -1}
	var err error
	if at.FD == 0 {
		c.conn, err = new(net.Dialer).DialContext(ctx, "tcp", at.Port)
	} else {
		if c.conn, err = takeOver(at.FD); err != nil {
			err = fmt.Errorf(
				"not an open socket, as PMI_FD promises, unless another library has used it already: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewReaderSize(c.conn, LineBytes+1)
	return c, nil
}

// start begins the conversation.
func (c *Client) start(ctx context.Context, at At) error {
	if at.FD == 0 {
		if err := c.identify(ctx, at.ID); err != nil {
			return err
		}
	}
	m, err := c.ask(ctx, "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
	if err != nil {
		return err
	}
	if m.fields["pmi_version"] != "1" {
		return fmt.Errorf("speaks version %.20q; expected 1", m.fields["pmi_version"])
	}
	if m, err = c.ask(ctx, "cmd=get_my_kvsname", "my_kvsname"); err != nil {
		return err
	}
	if c.name = m.fields["kvsname"]; c.name == "" || len(c.name) >= NameBytes {
		return fmt.Errorf("the job has a name of %d bytes; expected 1 to %d", len(c.name), NameBytes-1)
	}
	return nil
}

// identify tells a server at a port which rank this is, and learns rank and size.
func (c *Client) identify(ctx context.Context, id int) error {
	if _, err := c.ask(ctx, "cmd=initack pmiid="+strconv.Itoa(id), "initack"); err != nil {
		return err
	}
	for {
		m, err := c.read(ctx, "set")
		if err != nil {
			return err
		}
		for name, to := range map[string]*int{"size": &c.size, "rank": &c.rank} {
			if _, told := m.fields[name]; told {
				if *to, err = m.number(name); err != nil {
					return err
				}
			}
		}
		if _, last := m.fields["debug"]; last {
			return nil
		}
	}
}

// Name returns the name of the job, which is the name of its key-value space.
func (c *Client) Name() string { return c.name }

// Place returns rank and size if the server told them. A server at a descriptor does not tell
// them; they are in the environment.
func (c *Client) Place() (rank, size int, told bool) { return c.rank, c.size, c.size >= 0 }

// Put stores a value. The other ranks see it after the next Barrier.
func (c *Client) Put(ctx context.Context, key, value string) error {
	if key == "" || len(key) >= KeyBytes || len(value) >= ValueBytes || !visible(key) || !visible(value) {
		return fmt.Errorf("PMI: key %.80q with a value of %d bytes; expected visible characters, at most %d and %d",
			key, len(value), KeyBytes-1, ValueBytes-1)
	}
	_, err := c.ask(ctx, "cmd=put kvsname="+c.name+" key="+key+" value="+value, "put_result")
	return err
}

// Get returns a value.
func (c *Client) Get(ctx context.Context, key string) (string, error) {
	m, err := c.ask(ctx, "cmd=get kvsname="+c.name+" key="+key, "get_result")
	return m.fields["value"], err
}

// OneHost reports whether the launcher says that all ranks are on one host.
func (c *Client) OneHost(ctx context.Context) (bool, error) {
	m, err := c.ask(ctx, "cmd=get kvsname="+c.name+" key="+mappingKey, "get_result")
	if errors.Is(err, errRefused) {
		return false, nil // the launcher does not tell
	}
	return err == nil && OneHost(m.fields["value"]), err
}

// Barrier waits until all ranks are in it.
func (c *Client) Barrier(ctx context.Context) error {
	_, err := c.ask(ctx, "cmd=barrier_in", "barrier_out")
	return err
}

// Finalize ends the conversation and closes the connection. A rank that only closes the
// connection counts as failed.
func (c *Client) Finalize(ctx context.Context) error {
	_, err := c.ask(ctx, "cmd=finalize", "finalize_ack")
	return errors.Join(err, c.Close())
}

// Close closes the connection. A launcher regards that as a failure of the rank.
func (c *Client) Close() error { return c.conn.Close() }

// errRefused is the error of a request that the server refused.
var errRefused = errors.New("the server refused")

// ask sends a request and returns the answer, which must have the given command.
func (c *Client) ask(ctx context.Context, request, want string) (message, error) {
	if err := ctx.Err(); err != nil {
		return message{}, err
	}
	defer c.until(ctx)()
	if _, err := c.conn.Write([]byte(request + "\n")); err != nil {
		return message{}, because(ctx, err)
	}
	return c.read(ctx, want)
}

// read reads one message, which must have the given command.
func (c *Client) read(ctx context.Context, want string) (message, error) {
	defer c.until(ctx)()
	line, err := c.lines.ReadSlice('\n')
	if err != nil {
		return message{}, because(ctx, fmt.Errorf("no %s: %w", want, err))
	}
	m, err := parse(line[:len(line)-1])
	switch rc := m.fields["rc"]; {
	case err != nil:
		return m, err
	case m.cmd != want:
		return m, fmt.Errorf("answered %.40q; expected %s", m.cmd, want)
	case rc != "" && rc != "0":
		return m, fmt.Errorf("%w: %s rc=%.20s %.200s", errRefused, want, rc, m.fields["msg"])
	}
	return m, nil
}

// until ends the waits for the server when ctx ends. The returned function undoes that.
func (c *Client) until(ctx context.Context) (undo func() bool) {
	// SetDeadline fails only if conn is closed.
	return context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
}

// because returns the error of ctx if it has ended, and err otherwise.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
