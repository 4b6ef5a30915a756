package nbd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// conn is a connection. Its workers take turns at reading: one that has read a request lets the next one read and does what is asked for
// itself, so that no request is handed from one goroutine to another.
//
//	worker   read ─ unlock ─ do it ─ reply ─ wait for the turn ─ read …
//	worker          lock ─ read ─ unlock ─ do it …
type conn struct {
	s *Server
	c net.Conn
	r *bufio.Reader

	noZeroes   bool // agreed upon in the handshake, as are the next
	structured bool
	status     bool // base:allocation

	reading sync.Mutex // also of the next three
	ended   bool
	why     error // nil: the client has ended it in order
	cancel  context.CancelFunc

	idle    sync.Mutex // of the next two
	waiting int        // workers that wait for their turn, or read
	workers int
	wg      sync.WaitGroup

	writing sync.Mutex
}

func newConn(s *Server, c net.Conn) *conn {
	return &conn{s: s, c: c, r: bufio.NewReaderSize(c, 16<<10)}
}

// transmit serves requests until the connection ends, and returns when all are done.
func (n *conn) transmit(ctx context.Context) error {
	ctx, n.cancel = context.WithCancel(ctx)
	defer n.cancel()
	n.hire(ctx)
	n.wg.Wait()
	return n.why
}

// hire starts another worker, unless one waits already, or there are as many as may be.
func (n *conn) hire(ctx context.Context) {
	n.idle.Lock()
	defer n.idle.Unlock()
	if n.waiting > 0 || n.workers == maxWorkers {
		return
	}
	n.workers++
	n.waiting++
	n.wg.Go(func() { n.work(ctx) })
}

// work is the life of a worker.
func (n *conn) work(ctx context.Context) {
	j := &job{n: n}
	for {
		n.reading.Lock()
		ok := !n.ended && n.next(j)
		n.ended = !ok
		n.idle.Lock()
		n.waiting--
		n.idle.Unlock()
		n.reading.Unlock()
		if !ok {
			j.release()
			return
		}
		n.hire(ctx)
		err := j.do(ctx)
		j.release()
		if err != nil {
			n.c.Close() // the reader notices
			n.fail(err)
			return
		}
		n.idle.Lock()
		n.waiting++
		n.idle.Unlock()
	}
}

// fail notes why the connection ends. Before it is told, the worker that reads has noticed that the connection is closed.
func (n *conn) fail(err error) {
	n.reading.Lock()
	defer n.reading.Unlock()
	if !n.ended || n.why == nil || errors.Is(n.why, net.ErrClosed) {
		n.why = err
	}
	n.ended = true
}

// next reads the next request, with its data. It reports whether there is one; if not, why says why.
func (n *conn) next(j *job) bool {
	if _, err := io.ReadFull(n.r, j.head[:]); err != nil {
		n.cancel() // no reply is awaited any more
		if err != io.EOF {
			n.why = err
		}
		return false
	}
	if n.why = j.parse(j.head[:]); n.why != nil {
		return false
	}
	switch {
	case j.command == cmdDisconnect: // what is under way comes to its end
		return false
	case j.command == cmdWrite && j.length > maxRequest:
		n.why = fmt.Errorf("%w: a write of %d bytes, at most %d", errProtocol, j.length, maxRequest)
		return false
	case j.command == cmdWrite:
		j.reserve(int(j.length))
		n.why = n.data(j.data())
	}
	return n.why == nil
}

// data reads what a write has.
func (n *conn) data(b []byte) error {
	if n.r.Buffered() < len(b) {
		if err := n.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		defer n.c.SetReadDeadline(time.Time{})
	}
	_, err := io.ReadFull(n.r, b)
	return err
}

// send sends a reply.
func (n *conn) send(b []byte) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	if err := n.c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := n.c.Write(b)
	return err
}
