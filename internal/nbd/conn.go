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
// itself, so that no request is handed from one goroutine to another. One that has read nothing but short reads does not even wake the next: it keeps
// its turn while it does them, unless that takes long. See standin.go.
//
//	worker   read ─ give the turn ─ do it ─ reply ─ wait for the turn ─ read …
//	worker          have it ─ read ─ give the turn ─ do it …
//	worker   read short reads, all that have come ─ do them ─ reply to those that have ended, read those that have come ─ do them …
type conn struct {
	s *Server
	c net.Conn
	r *bufio.Reader

	source source // of r

	tls bool // c is a *tls.Conn

	noZeroes   bool // agreed upon in the handshake, as are the next
	structured bool
	status     bool // base:allocation

	turn   chan struct{} // has an element while no worker reads; the worker that takes it may read, and look at the next three
	ended  bool
	why    error // nil: the client has ended it in order
	cancel context.CancelFunc

	idle    sync.Mutex // of the next two
	waiting int        // workers that wait for their turn, or have it
	workers int
	wg      sync.WaitGroup
	standIn standIn

	writing sync.Mutex

	held int // bytes of the server's budget, under its lock

	seat seat
}

// readBuffer is the size of the read-ahead buffer, in bytes.
const readBuffer = 16 << 10

// source is where a connection's requests come from.
type source struct {
	c   net.Conn
	now bool  // only what is here is read
	err error // found by such a read, for the next other one
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

// transmit serves requests until the connection ends, and returns when all are done.
func (n *conn) transmit(ctx context.Context) error {
	ctx, n.cancel = context.WithCancel(ctx)
	defer n.standIn.wg.Wait()
	defer n.cancel()
	n.standIn.wg.Go(func() { n.stand(ctx) })
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

// pass gives the turn to another worker. If one has to be hired for that, it is before the turn is given: the worker that had it may end with it, and be the last.
func (n *conn) pass(ctx context.Context) {
	n.goes()
	n.hire(ctx)
	n.turn <- struct{}{}
}

// leave gives the turn to one that waits for it, or comes to.
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

// work is the life of a worker.
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
			n.c.Close() // the reader notices
			n.cancel()  // the others could not reply either
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

// fail notes why the connection ends. Before it is told, the worker that reads has noticed that the connection is closed.
func (n *conn) fail(err error) {
	<-n.turn
	defer func() { n.turn <- struct{}{} }()
	if !n.ended || n.why == nil || errors.Is(n.why, net.ErrClosed) {
		n.why = err
	}
	n.ended = true
}

// next reads the next request, with its data. It reports whether there is one; if not, why says why.
func (n *conn) next(j *job) bool {
	if _, err := io.ReadFull(n.r, j.head[:]); err != nil {
		if err != io.EOF {
			n.why = err
		}
		// The requests before the end were sent whole, also if it tore the last one.
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
		if err := n.c.SetReadDeadline(time.Now().Add(patience)); err != nil { // it is closed
			return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
		}
		defer n.c.SetReadDeadline(time.Time{})
	}
	_, err := io.ReadFull(n.r, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // a request has no end in between
	}
	return err
}

// send sends a reply, or several.
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
