package proxy

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
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

	writing atomic.Bool
	timer   *time.Timer
	why     atomic.Pointer[error] // the source has failed
}

// lookEvery is how long a Write waits before the first look at its source, and between two.
const lookEvery = time.Second

func newPasser(to, from net.Conn, all, own *atomic.Int64) *passer {
	p := &passer{to: to, from: from, all: all, own: own}
	p.timer = time.AfterFunc(time.Hour, p.look)
	p.timer.Stop()
	return p
}

func (p *passer) Write(b []byte) (int, error) {
	p.writing.Store(true)
	p.timer.Reset(lookEvery)
	n, err := p.to.Write(b)
	p.writing.Store(false)
	p.timer.Stop()
	p.all.Add(int64(n))
	p.own.Add(int64(n))
	return n, err
}

// look resets both ends if the source has failed while a Write waits. It may come late, when none does any more.
func (p *passer) look() {
	if !p.writing.Load() {
		return
	}
	if err := failed(p.from); err != nil {
		p.why.Store(&err)
		reset(p.from)
		reset(p.to)
		return
	}
	p.timer.Reset(lookEvery)
}

// failure is why the source failed while a Write waited; nil if it did not.
func (p *passer) failure() error {
	if err := p.why.Load(); err != nil {
		return *err
	}
	return nil
}

// failed is why a connection has failed of which bytes may wait to be read, before a Read would tell; nil if it has not, also if the other
// end has ended its direction in order. A socket has the error as an option; a stream tells of it in a Write of nothing, also behind its
// CloseWrite.
func failed(c net.Conn) (err error) {
	switch c := c.(type) {
	case syscall.Conn:
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		var number int
		var asked error
		err = raw.Control(func(fd uintptr) { number, asked = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR) })
		if err = errors.Join(err, asked); err == nil && number != 0 {
			err = syscall.Errno(number)
		}
		return err
	case interface{ Abort() }:
		_, err := c.(net.Conn).Write(nil)
		if errors.Is(err, syscall.EPIPE) { // one of the two has ended a direction
			err = nil
		}
		return err
	}
	return nil
}
