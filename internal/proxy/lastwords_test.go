package proxy_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/proxy"
)

// spoken is a socket whose other end has answered and closed. The socket accepts no bytes, and
// the answer arrives a moment later.
type spoken struct {
	net.Conn
	refused func()
	wait    chan struct{}
	why     error // of Writes
	answer  string
}

func (c *spoken) Write([]byte) (int, error) {
	c.refused()
	return 0, c.why
}

func (*spoken) SyscallConn() (syscall.RawConn, error) { return nil, syscall.EINVAL }

// halved is a connection that records whether one of its directions was ended in order.
type halved struct {
	net.Conn
	ended bool
}

func (c *halved) CloseWrite() error {
	c.ended = true
	return c.Close()
}

func (c *spoken) Read(b []byte) (int, error) {
	<-c.wait
	time.Sleep(time.Millisecond)
	if c.answer == "" {
		return 0, io.EOF
	}
	n := copy(b, c.answer)
	c.answer = c.answer[n:]
	return n, nil
}

// single is a listener for one connection.
type single struct {
	noListener
	c chan net.Conn
}

func (l *single) Accept() (net.Conn, error) {
	if c, ok := <-l.c; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// The answer ends in order if the server ended in order. If the kernel reported a reset to the
// Write, the following Read sees an end. That must not end the answer.
func TestAnAnswerComesToAClientThatGoesOnWriting(t *testing.T) {
	for _, why := range []error{syscall.EPIPE, syscall.ECONNRESET} {
		synctest.Test(t, func(t *testing.T) {
			client, end := net.Pipe()
			from := &halved{Conn: end}
			_, to := net.Pipe()
			wait := make(chan struct{})
			s := &spoken{Conn: to, refused: sync.OnceFunc(func() { close(wait) }), wait: wait, why: why, answer: "answer"}
			l := &single{c: make(chan net.Conn, 1)}
			l.c <- from
			close(l.c)
			p := &proxy.Proxy{Listener: l, Drain: patience, Log: slog.New(slog.DiscardHandler), Dial: func(context.Context, net.Conn) (net.Conn, error) { return s, nil }}
			go func() {
				for err := error(nil); err == nil; {
					_, err = client.Write([]byte("question"))
				}
			}()
			go p.Run(t.Context())
			if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
				t.Errorf("the client reads %q, %v; expected the answer", got, err)
			}
			synctest.Wait()
			if c := p.Counts(); c.Open != 0 || c.Reset != 1 {
				t.Errorf("%+v; expected none open, and one reset", c)
			}
			if from.ended != (why == syscall.EPIPE) {
				t.Errorf("behind %v the answer ended in order: %v", why, from.ended)
			}
		})
	}
}
