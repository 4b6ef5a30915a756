package proxy

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// passer writes one direction of a connection, and counts its bytes. It has no ReadFrom, because
// ReadFrom would count only at the end.
//
// While a Write waits, no goroutine reads the source, so a reset of the source would go unseen
// until the destination reads again. Therefore a timer checks the source of a waiting Write. This
// costs no goroutine:
//
//	Write ──► lookEvery ──► has the source failed? ── no ──► lookEvery ──► …
//	                                    └─ yes ──► both ends are reset, and the Write fails
type passer struct {
	to, from net.Conn
	all, own *atomic.Int64 // bytes of the proxy, and bytes of the connection

	broken  atomic.Pointer[error] // the destination accepts no more bytes
	over    chan struct{}         // closed when this direction delivers no more bytes
	writing atomic.Bool
	timer   *time.Timer

	fault        *fault // of the connection
	source, sink string // the sides of from and to, as fault names them
}

// lookEvery is the time for which a Write waits before the first check of its source, and between
// two checks.
const lookEvery = time.Second

func newPasser(to, from net.Conn, all, own *atomic.Int64) *passer {
	p := &passer{to: to, from: from, all: all, own: own, over: make(chan struct{})}
	p.timer = time.AfterFunc(time.Hour, p.look)
	p.timer.Stop()
	return p
}

// lastWords is the time for which a direction waits if its destination accepts no more bytes, so
// that earlier bytes of the destination still arrive.
const lastWords = time.Second

// pass copies one direction, and passes on its end. A server may answer and close while its
// client continues to write. Over TCP, the client still reads the answer. So if a direction
// cannot write, it ends the other direction when that direction has reached its own end, or
// lastWords later.
func (p *passer) pass(other *passer) {
	_, err := io.Copy(p, p.from)
	if err == nil {
		err = p.end(other)
	}
	if broken := p.broken.Load(); broken != nil && err == *broken {
		p.fault.note(p.sink, err)
	} else if err != nil {
		p.fault.note(p.source, err)
	}
	close(p.over)
	if p.broken.Load() != nil {
		select {
		case <-other.over:
		case <-time.After(lastWords):
		}
	}
	if err != nil {
		reset(p.from)
		reset(p.to)
	}
}

// end passes on that the source has ended. The kernel reports a reset only once: if a Write of
// the other direction got the error, a Read only sees the end.
func (p *passer) end(other *passer) error {
	if why := other.broken.Load(); why != nil && errors.Is(*why, syscall.ECONNRESET) {
		if _, ok := p.from.(syscall.Conn); ok {
			return *why
		}
	}
	err := closeWrite(p.to)
	if err != nil {
		p.broken.Store(&err)
	}
	return err
}

func (p *passer) Write(b []byte) (int, error) {
	p.writing.Store(true)
	p.timer.Reset(lookEvery)
	n, err := p.to.Write(b)
	p.writing.Store(false)
	p.timer.Stop()
	p.all.Add(int64(n))
	p.own.Add(int64(n))
	if err != nil {
		p.broken.Store(&err)
	}
	return n, err
}

// look resets both ends if the source has failed while a Write waits. It may run late, when no
// Write waits any more.
func (p *passer) look() {
	if !p.writing.Load() {
		return
	}
	if err := failed(p.from); err != nil {
		p.fault.note(p.source, err)
		reset(p.from)
		reset(p.to)
		return
	}
	p.timer.Reset(lookEvery)
}

// failed returns the reason why a connection has failed, even if unread bytes would delay the
// error of a Read. It returns nil if the connection has not failed, also if the other end has
// ended its direction in order. A stream reports the reason in an empty Write, even after its
// CloseWrite.
func failed(c net.Conn) error {
	switch c := c.(type) {
	case syscall.Conn:
		return socketFailed(c)
	case interface{ Abort() }:
		// EPIPE: one end has ended a direction.
		if _, err := c.(net.Conn).Write(nil); !errors.Is(err, syscall.EPIPE) {
			return err
		}
	}
	return nil
}

// socketFailed is failed for a socket. The option SO_ERROR alone would also report, and clear,
// errors that end no connection, such as a route that is missing for a moment.
func socketFailed(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var why error
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd)}}
		if _, err := unix.Poll(p, 0); err != nil || p[0].Revents&unix.POLLERR == 0 {
			return
		}
		why = syscall.ECONNRESET
		if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); err == nil && n != 0 {
			why = syscall.Errno(n)
		}
	})
	return errors.Join(err, why)
}
