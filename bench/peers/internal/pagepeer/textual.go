package pagepeer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// dialect is a line protocol of a server that keeps values under keys.
type dialect interface {
	appendGet(b []byte, key string) []byte
	appendSet(b []byte, key string, value []byte) []byte
	readValue(r *bufio.Reader, value []byte) error // the answer to get, as long as value
	readStored(r *bufio.Reader) error              // the answer to set
}

// textual returns two peers for a server that speaks a dialect. The first has one read in flight
// on each of many connections, like a program with many goroutines and a pool of connections.
// The second has many reads in flight on one connection, with fewer system calls. The figures
// show which is faster.
func textual(name, kind string, d dialect) []*Peer {
	open := func(ctx context.Context, _, server string) (store, error) {
		s := &textStore{dialect: d, at: server}
		c, err := s.connect(ctx)
		s.first = c
		return s, err
	}
	return []*Peer{
		{Name: name, Kind: kind, Measures: []string{contest.Latency, contest.Reads}, open: open,
			Notes: map[string]string{contest.Reads: fmt.Sprintf("one read on each of %d connections",
				contest.ReadDepth)}},
		{Name: name + ", pipelined", Kind: kind + "-pipelined", Measures: []string{contest.Reads}, open: open,
			pipelines: true,
			Notes:     map[string]string{contest.Reads: fmt.Sprintf("%d reads on one connection", contest.ReadDepth)}},
	}
}

// textStore is a client of a server over TCP.
type textStore struct {
	dialect dialect
	at      string
	first   *textConn // for puts

	mu  sync.Mutex
	all []*textConn
}

// readAtOnce is the size of reads from the kernel, in bytes: all answers that can be in flight.
const readAtOnce = contest.ReadDepth * 2 * pageBytes

func (s *textStore) connect(ctx context.Context) (*textConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.at)
	if err != nil {
		return nil, err
	}
	t := &textConn{Conn: c, dialect: s.dialect, in: bufio.NewReaderSize(c, readAtOnce)}
	t.stop = context.AfterFunc(ctx, func() { c.Close() }) // ends a read that waits for an answer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, t)
	return t, nil
}

func (s *textStore) put(_ context.Context, number uint64, page []byte) error {
	c := s.first
	if _, err := c.Write(s.dialect.appendSet(nil, key(number), page)); err != nil {
		return err
	}
	return s.dialect.readStored(c.in)
}

func (s *textStore) reader(ctx context.Context) (reader, error) { return s.connect(ctx) }

func (s *textStore) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, c := range s.all {
		c.stop()
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// textConn is one connection.
type textConn struct {
	net.Conn
	dialect dialect
	in      *bufio.Reader
	out     []byte // requests that are not sent yet
	stop    func() bool
}

func (c *textConn) get(_ context.Context, number uint64, page []byte) error {
	c.ask(number)
	if err := c.flush(); err != nil {
		return err
	}
	return c.take(page)
}

func (c *textConn) ask(number uint64) { c.out = c.dialect.appendGet(c.out, key(number)) }

func (c *textConn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.Write(c.out)
	c.out = c.out[:0]
	return err
}

func (c *textConn) take(page []byte) error { return c.dialect.readValue(c.in, page) }

func (c *textConn) here() bool { return c.in.Buffered() > 0 }

// key returns the key of a page.
func key(number uint64) string { return "page:" + strconv.FormatUint(number, 10) }

// resp is the protocol of Redis.
type resp struct{}

func (resp) appendGet(b []byte, key string) []byte {
	return respArray(b, "GET", []byte(key))
}

func (resp) appendSet(b []byte, key string, value []byte) []byte {
	return respArray(b, "SET", []byte(key), value)
}

// respArray appends a command with its arguments.
func respArray(b []byte, command string, args ...[]byte) []byte {
	b = fmt.Appendf(b, "*%d\r\n$%d\r\n%s\r\n", 1+len(args), len(command), command)
	for _, a := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(a)), 10), "\r\n"...)
		b = append(append(b, a...), "\r\n"...)
	}
	return b
}

func (resp) readValue(r *bufio.Reader, value []byte) error {
	line, err := readLine(r)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("$%d", len(value)); string(line) != want {
		return fmt.Errorf("a GET is answered with %q: expected %q", line, want)
	}
	return readBody(r, value, "\r\n")
}

func (resp) readStored(r *bufio.Reader) error { return expect(r, "+OK") }

// memcache is the protocol of memcached.
type memcache struct{}

func (memcache) appendGet(b []byte, key string) []byte {
	return append(append(append(b, "get "...), key...), "\r\n"...)
}

func (memcache) appendSet(b []byte, key string, value []byte) []byte {
	b = fmt.Appendf(b, "set %s 0 0 %d\r\n", key, len(value))
	return append(append(b, value...), "\r\n"...)
}

func (memcache) readValue(r *bufio.Reader, value []byte) error {
	line, err := readLine(r)
	if err != nil {
		return err
	}
	if f := bytes.Fields(line); len(f) != 4 || string(f[0]) != "VALUE" || string(f[3]) != strconv.Itoa(len(value)) {
		return fmt.Errorf("a get is answered with %q: expected VALUE, a key, flags and %d", line, len(value))
	}
	return readBody(r, value, "\r\nEND\r\n")
}

func (memcache) readStored(r *bufio.Reader) error { return expect(r, "STORED") }

// readLine returns the next line without its end. It is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// readBody fills value, and reads the bytes that must follow it.
func readBody(r *bufio.Reader, value []byte, end string) error {
	if _, err := io.ReadFull(r, value); err != nil {
		return err
	}
	behind, err := r.Peek(len(end))
	if err != nil {
		return err
	}
	if string(behind) != end {
		return fmt.Errorf("%q stands behind a value: expected %q", behind, end)
	}
	_, err = r.Discard(len(end))
	return err
}

func expect(r *bufio.Reader, want string) error {
	line, err := readLine(r)
	if err == nil && string(line) != want {
		err = fmt.Errorf("the answer is %q: expected %q", line, want)
	}
	return err
}
