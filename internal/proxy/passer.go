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

// passer writes one direction of a connection, and counts what goes through it. It has no ReadFrom, whose count would come at the end.
//
// While a Write waits, nothing reads the source, so a reset of the source would go unseen until the destination reads again. A Write that
// waits has a timer look at the source instead, which costs no goroutine:
//
//	Write ──► lookEvery ──► has the source failed? ── no ──► lookEvery ──► …
//	                                    └─ yes ──► both ends are reset, and the Write fails
type passer struct {
	to, from net.Conn
	all, own *atomic.Int64 // bytes of the proxy, and of the connection

	broken  atomic.Pointer[error] // the destination takes no more
	over    chan struct{}         // closed when nothing more comes of this direction
	writing atomic.Bool
	timer   *time.Timer

	fault        *fault // of the connection
	source, sink string // the sides of from and to, as fault names them
}

// lookEvery is how long a Write waits before the first look at its source, and between two.
const lookEvery = time.Second

func newPasser(to, from net.Conn, all, own *atomic.Int64) *passer {
	p := &passer{to: to, from: from, all: all, own: own, over: make(chan struct{})}
	p.timer = time.AfterFunc(time.Hour, p.look)
	p.timer.Stop()
	return p
}

// lastWords is how long a direction whose destination takes no more waits for what that has said before.
const lastWords = time.Second

// pass copies one direction, and passes its end on. A server may answer and be closed while its client goes on writing; over TCP the client reads the
// answer nevertheless. So a direction that cannot write ends the other when that has come to its own end, or lastWords later.
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

// end passes on that the source has ended. The kernel tells of a reset once: one that a Write of the other direction was told of is an end to a Read.
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

// look resets both ends if the source has failed while a Write waits. It may come late, when none does any more.
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

// failed is why a connection has failed of which bytes may wait to be read, before a Read would tell; nil if it has not, also if the other
// end has ended its direction in order. A stream tells of it in a Write of nothing, also behind its CloseWrite.
func failed(c net.Conn) error {
	switch c := c.(type) {
	case syscall.Conn:
		return socketFailed(c)
	case interface{ Abort() }:
		if _, err := c.(net.Conn).Write(nil); !errors.Is(err, syscall.EPIPE) { // EPIPE: one of the two has ended a direction
			return err
		}
	}
	return nil
}

// socketFailed is failed of a socket. Its option SO_ERROR alone would tell, and clear, errors as well that end no connection, such as a
// route that is gone for a moment.
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
