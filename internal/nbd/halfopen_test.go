package nbd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// gated is a device whose writes wait until the gate opens, or their context ends.
type gated struct {
	*memory
	waiting atomic.Int32
	gate    chan struct{}

	withdrawn chan struct{} // closed when the context of a write ends; nil: not reported
}

func (g *gated) WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	g.waiting.Add(1)
	select {
	case <-ctx.Done():
		if g.withdrawn != nil {
			close(g.withdrawn)
		}
		return 0, ctx.Err()
	case <-g.gate:
		return g.memory.WriteAtContext(ctx, b, offset)
	}
}

// listening serves a device at a socket, and returns a client in the handshake.
func listening(t *testing.T, network string, cfg Config) *client {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "nbd")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		address = filepath.Join(dir, "s")
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{t: t, ended: make(chan error, 1)}
	go func() { c.ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	})
	if c.c, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.c.Close() })
	if err := c.c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Programs that pipe requests into a socket end their sending direction after the last request,
// and continue to read.
func TestRequestsThatWereSentWholeAreDoneBehindTheEndOfTheirDirection(t *testing.T) {
	const writes = 20
	a := newAuthority(t)
	for name, network := range map[string]string{"TCP": "tcp", "a unix socket": "unix", "TLS": "tcp"} {
		t.Run(name, func(t *testing.T) {
			dev := &gated{memory: newMemory(writes * memoryBlock), gate: make(chan struct{})}
			cfg := Config{Device: dev, Log: func(text string) { t.Errorf("it logs %q", text) }}
			if name == "TLS" {
				cfg.TLS = a.secured()
			}
			c := listening(t, network, cfg)
			if name == "TLS" {
				c.greet(flagFixedNewstyle | flagNoZeroes)
				c = c.enters(&tls.Config{RootCAs: a.pool(), ServerName: "localhost", Certificates: []tls.Certificate{a.pair(x509.ExtKeyUsageClientAuth)}})
				c.option(optGo, uint32(0), uint16(0))
				c.answered(optGo, repInfo)
				c.answered(optGo, repAck)
			} else {
				c.begin(false)
			}
			for i := range uint64(writes) {
				c.request(0, cmdWrite, i, i*memoryBlock, 4, "data")
			}
			if err := c.c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); dev.waiting.Load() < writes; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d writes have begun; expected %d", dev.waiting.Load(), writes)
				}
			}
			time.Sleep(20 * time.Millisecond) // the server reads the end
			close(dev.gate)
			var replies [writes * 16]byte
			if _, err := io.ReadFull(c.c, replies[:]); err != nil {
				t.Fatal(err)
			}
			for i := range writes {
				if e := replies[16*i+4 : 16*i+8]; string(e) != "\x00\x00\x00\x00" {
					t.Errorf("reply %d has error % x; expected none", i, e)
				}
			}
			if n, err := c.c.Read(replies[:]); n != 0 || err != io.EOF {
				t.Errorf("behind the replies %d bytes come, %v; expected the end", n, err)
			}
		})
	}
}

// If a client's end truncates a request, the complete requests before it are still carried out.
func TestATornRequestAtTheEndTakesNoWholeOneAlong(t *testing.T) {
	for name, torn := range map[string]int{"within its head": 27, "within its data": 28 + 2} {
		dev := &gated{memory: newMemory(memoryBlock), gate: make(chan struct{}), withdrawn: make(chan struct{})}
		c := listening(t, "tcp", Config{Device: dev})
		c.begin(false)
		c.request(0, cmdWrite, 1, 0, 4, "data")
		head := make([]byte, 28, 32) // a write of four bytes
		binary.BigEndian.PutUint32(head, magicRequest)
		binary.BigEndian.PutUint16(head[6:], uint16(cmdWrite))
		binary.BigEndian.PutUint32(head[24:], 4)
		if _, err := c.c.Write(append(head, "data"...)[:torn]); err != nil {
			t.Fatal(err)
		}
		if err := c.c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); dev.waiting.Load() < 1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the whole write does not begin")
			}
		}
		select {
		case <-dev.withdrawn:
			t.Errorf("torn %s: the whole write was withdrawn", name)
		case <-time.After(50 * time.Millisecond): // the server reads the end
		}
		close(dev.gate)
		var reply [16]byte
		if _, err := io.ReadFull(c.c, reply[:]); err != nil || string(reply[4:8]) != "\x00\x00\x00\x00" {
			t.Errorf("torn %s: the reply to the whole write is % x, %v; expected no error", name, reply, err)
		}
	}
}

// A client that closed its socket reads no reply, so its requests must not continue for the whole
// timeout.
func TestRequestsOfAClientThatClosedItsSocketEnd(t *testing.T) {
	dev := &gated{memory: newMemory(memoryBlock), gate: make(chan struct{}), withdrawn: make(chan struct{})}
	c := listening(t, "unix", Config{Device: dev, Timeout: time.Hour})
	c.begin(false)
	c.request(0, cmdWrite, 1, 0, 4, "data")
	c.c.Close()
	select {
	case <-dev.withdrawn:
	case <-time.After(time.Minute):
		t.Error("the write goes on without its client")
	}
}

// A check for a live server leaves in this way.
func TestAClientThatLeavesBeforeItsFirstByteIsNoError(t *testing.T) {
	s, err := New(Config{Device: newMemory(memoryBlock)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, leave := range map[string]func(c *net.TCPConn){
		"in order":   func(c *net.TCPConn) { io.ReadFull(c, make([]byte, 18)); c.Close() },
		"at once":    func(c *net.TCPConn) { c.Close() },
		"by a reset": func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		here, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.ServeConn(context.Background(), own(there)) }()
		leave(here.(*net.TCPConn))
		if err := <-ended; err != nil {
			t.Errorf("a client that leaves %s: %v; expected no error", name, err)
		}
	}
}
