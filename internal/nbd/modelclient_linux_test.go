package nbd

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// asked is a request of a client, and its outcome.
type asked struct {
	request
	value      byte // value of all bytes that it writes
	begun      int64
	ended      int64 // 0: its end is not known
	got        []byte
	structured bool
	want       errno
}

func (a *asked) String() string {
	return fmt.Sprintf("command %d, flags %#x, %d bytes at %d, value %d, from %d to %d", a.command, a.flags, a.length, a.offset, a.value, a.begun, a.ended)
}

// writes reports whether a request may change a byte.
func (a *asked) writes(at int) bool {
	return a.want == 0 && (a.command == cmdWrite || a.command == cmdTrim || a.command == cmdWriteZeroes) && uint64(at) >= a.offset && uint64(at) < a.offset+uint64(a.length)
}

// connection sends requests on its own connection, and returns when all begun requests have
// ended. If torn is true, it closes the connection after it has sent half of its requests and
// some bytes of the next.
func (m *modelled) connection(structured, torn, oneByOne bool, cut int, l []*asked) {
	served := make(chan error, 1)
	c, err := net.Dial("unix", m.l.Addr().String())
	if err == nil {
		var there net.Conn
		if there, err = m.l.Accept(); err == nil { // the connection of any client: each serves one
			go func() { served <- m.s.ServeConn(context.Background(), own(there)) }()
		}
	}
	if err != nil {
		m.t.Error(err)
		return
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	n := &client{m.t, c, nil}
	n.begin(structured)
	whole := l
	if torn {
		whole = l[:len(l)/2]
	}
	known := make(map[uint64]*asked)
	for _, a := range l {
		known[a.cookie] = a
	}
	answers := make(chan error, 1)
	answered := make(chan struct{}, len(whole))
	go func() { answers <- m.answers(c, known, len(whole), answered) }()
	for _, a := range whole {
		a.begun = m.clock.Add(1)
		if _, err := c.Write(a.wire()); err != nil {
			m.t.Error(err)
			break
		}
		if oneByOne {
			<-answered
		}
	}
	if torn {
		for _, a := range l[len(whole):] {
			a.want = errShutdown // it has no effect
		}
		part := l[len(whole)].wire()
		_, _ = c.Write(part[:cut%len(part)])
		c.Close()
	}
	if err := <-answers; err != nil && !torn {
		m.t.Error(err)
	}
	c.Close()
	<-served
}

// wire returns a request in the form in which it is sent.
func (a *asked) wire() []byte {
	b := wire(a.flags, a.command, a.cookie, a.offset, a.length)
	if a.command == cmdWrite {
		b = append(b, slices.Repeat([]byte{a.value}, int(a.length))...)
	}
	return b
}

// answers reads the given number of answers.
func (m *modelled) answers(c net.Conn, known map[uint64]*asked, n int, answered chan<- struct{}) error {
	defer close(answered)
	be := binary.BigEndian
	for range n {
		var head [simpleLen]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		a := known[be.Uint64(head[8:])]
		if a == nil || a.begun == 0 || a.ended != 0 {
			return fmt.Errorf("an answer to what was not asked: %x", head)
		}
		failure := errno(0)
		switch be.Uint32(head[:]) {
		case magicSimple:
			failure = errno(be.Uint32(head[4:]))
			if a.structured && a.command == cmdRead {
				return fmt.Errorf("%v: a simple reply", a)
			}
			if a.command == cmdRead && failure == 0 {
				a.got = make([]byte, a.length)
			}
		case magicChunk:
			var length [4]byte
			if _, err := io.ReadFull(c, length[:]); err != nil {
				return err
			}
			more := make([]byte, be.Uint32(length[:]))
			if _, err := io.ReadFull(c, more); err != nil {
				return err
			}
			switch kind := be.Uint16(head[6:]); {
			case kind == chunkError:
				failure = errno(be.Uint32(more))
			case kind != chunkData || be.Uint64(more) != a.offset:
				return fmt.Errorf("%v: a chunk of kind %d with %x", a, kind, more[:8])
			default:
				a.got = more[8:]
			}
		default:
			return fmt.Errorf("%v: %x", a, head)
		}
		if a.got != nil && !a.structured {
			if _, err := io.ReadFull(c, a.got); err != nil {
				return err
			}
		}
		a.ended = m.clock.Add(1)
		answered <- struct{}{}
		if failure != a.want {
			return fmt.Errorf("%v: error %d, want %d", a, failure, a.want)
		}
		if a.command == cmdRead && failure == 0 && len(a.got) != int(a.length) {
			return fmt.Errorf("%v: %d bytes", a, len(a.got))
		}
	}
	return nil
}
