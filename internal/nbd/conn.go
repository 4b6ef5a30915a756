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

// conn is a connection. Its workers take turns at reading: a worker that has read a request lets
// the next worker read, and carries out the request itself. So no request moves from one
// goroutine to another. A worker that has read only short reads does not even wake the next
// worker: it keeps its turn while it carries them out, unless that takes long. See standin.go.
//
//	worker   read ─ give the turn ─ carry it out ─ reply ─ wait for the turn ─ read …
//	worker          have it ─ read ─ give the turn ─ carry it out …
//	worker   read all arrived short reads ─ carry them out ─ reply to those that ended ─ read …
type conn struct {
	s *Server
	c net.Conn
	r *bufio.Reader

	source source // source of r

	tls bool // c is a *tls.Conn

	noZeroes   bool // set in the handshake, like the next two
	structured bool
	status     bool // base:allocation

	// turn holds an element while no worker reads. The worker that takes it may read, and may
	// access the next three fields.
	turn   chan struct{}
	ended  bool
	why    error // nil: the client ended the connection in order
	cancel context.CancelFunc

	idle    sync.Mutex // guards the next two
	waiting int        // workers that wait for their turn, or have it
	workers int
	wg      sync.WaitGroup
	standIn standIn

	writing sync.Mutex

	held int // bytes of the server's budget, guarded by its lock

	seat seat
}

// readBuffer is the size of the read-ahead buffer, in bytes.
const readBuffer = 16 << 10

// source is the source of a connection's requests.
type source struct {
	c   net.Conn
	now bool  // reads return only bytes that have already arrived
	err error // error of such a read, for the next ordinary read
}

var errNone = errors.New("nbd: nothing is here")

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	l, ok := s.c.(interface{ readNow([]byte) (int, error) })
	switch err := s.err; {
	case s.now && (!ok || err != nil):
		return 0, errNone
	case s.now:
		n, err := l.readNow(b)
		if err != nil && err != errNone {
			s.err, err = err, errNone
		}
		return n, err
	case err != nil:
		s.err = nil
		return 0, err
	}
	return s.c.Read(b)
}

func newConn(s *Server, c net.Conn) *conn {
	n := &conn{s: s, c: c, turn: make(chan struct{}, 1)}
	n.source.c = c
	n.r = bufio.NewReaderSize(&n.source, readBuffer)
	n.turn <- struct{}{}
	n.standIn.init()
	return n
}

// transmit serves requests until the connection ends, and returns when all requests are done.
func (n *conn) transmit(ctx context.Context) error {
	ctx, n.cancel = context.WithCancel(ctx)
	defer n.standIn.wg.Wait()
	defer n.cancel()
	n.standIn.wg.Go(func() { n.stand(ctx) })
	n.hire(ctx)
	n.wg.Wait()
	return n.why
}

// hire starts another worker, unless a worker already waits or the maximum number is reached.
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

// pass gives the turn to another worker. If it must hire this worker, it does so before it gives
// the turn away. Otherwise the old worker may end with the turn, as the last one.
func (n *conn) pass(ctx context.Context) {
	n.goes()
	n.hire(ctx)
	n.turn <- struct{}{}
}

// leave gives the turn to the next worker that waits for it.
func (n *conn) leave() {
	n.goes()
	n.turn <- struct{}{}
}

// goes notes that a worker is about to give its turn away.
func (n *conn) goes() {
	n.idle.Lock()
	n.waiting--
	n.idle.Unlock()
}

// work is the loop of a worker.
func (n *conn) work(ctx context.Context) {
	w := &worker{n: n}
	for mine := false; ; {
		if !mine {
			<-n.turn
		}
		ok := !n.ended && n.gather(w)
		n.ended = !ok
		if !ok {
			n.leave()
			w.release()
			return
		}
		var err error
		if w.short {
			mine, err = w.readAll(ctx)
		} else {
			n.pass(ctx)
			mine = false
			err = w.jobs[0].do(ctx)
		}
		w.release()
		if err != nil {
			n.c.Close() // the reader notices it
			n.cancel()  // the other workers could not reply either
			if mine {
				n.leave()
			}
			n.fail(err)
			return
		}
		if !mine {
			n.idle.Lock()
			n.waiting++
			n.idle.Unlock()
		}
	}
}

// fail notes why the connection ends. fail waits for the turn: by then, the worker that reads has
// noticed that the connection is closed.
func (n *conn) fail(err error) {
	<-n.turn
	defer func() { n.turn <- struct{}{} }()
	if !n.ended || n.why == nil || errors.Is(n.why, net.ErrClosed) {
		n.why = err
	}
	n.ended = true
}

// next reads the next request, with its data. It reports whether there is one. If not, n.why
// holds the reason.
func (n *conn) next(j *job) bool {
	if _, err := io.ReadFull(n.r, j.head[:]); err != nil {
		if err != io.EOF {
			n.why = err
		}
		// The requests before the end are complete, even if the end truncated the last one.
		if err != io.EOF && err != io.ErrUnexpectedEOF || !takesReplies(n.c) {
			n.cancel()
		}
		return false
	}
	if !n.seat.speaks() {
		n.why = errGaveWay
		return false
	}
	if n.why = j.parse(j.head[:]); n.why != nil {
		return false
	}
	switch {
	case j.command == cmdDisconnect: // requests in flight are completed
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

// data reads the data of a write.
func (n *conn) data(b []byte) error {
	if n.r.Buffered() < len(b) {
		// The connection is closed.
		if err := n.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
		}
		defer n.c.SetReadDeadline(time.Time{})
	}
	_, err := io.ReadFull(n.r, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the end came within a request
	}
	return err
}

// send sends one or several replies.
func (n *conn) send(replies ...[]byte) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	if err := n.c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	l, ok := n.c.(interface{ writeAll([][]byte) error })
	if ok {
		return l.writeAll(replies)
	}
	_, err := (*net.Buffers)(&replies).WriteTo(n.c)
	return err
}
