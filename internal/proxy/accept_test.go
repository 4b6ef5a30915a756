package proxy_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/weftnet/weft/internal/proxy"
)

// failing is a listener whose Accept returns the given errors, and then works.
type failing struct {
	net.Listener
	errs []error
}

func (l *failing) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

func TestALackOfDescriptorsEndsNoProxy(t *testing.T) {
	l := &failing{listen(t), []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}}
	run(t, &proxy.Proxy{Listener: l, Drain: patience, Dial: func(context.Context, net.Conn) (net.Conn, error) {
		a, b := net.Pipe()
		go func() { io.Copy(b, b); b.Close() }()
		return a, nil
	}})
	c := dial(t, l.Addr().String())
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("behind accepts that failed: %v", err)
	}
}

// noListener fails each Accept with the same error.
type noListener struct{ err error }

func (l noListener) Accept() (net.Conn, error) { return nil, l.err }
func (noListener) Close() error                { return nil }
func (noListener) Addr() net.Addr              { return &net.TCPAddr{} }

func TestAListenerThatHasEndedEndsItsProxy(t *testing.T) {
	for _, want := range []error{net.ErrClosed, errors.New("the process has lost its NIC")} {
		p := &proxy.Proxy{Listener: noListener{want}, Log: slog.New(slog.DiscardHandler)}
		if err := p.Run(t.Context()); !errors.Is(err, want) {
			t.Errorf("the proxy ended with %v, want %v", err, want)
		}
	}
}

func TestAnInterruptEndsAProxyThatLacksDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &proxy.Proxy{Listener: noListener{syscall.EMFILE}, Log: slog.New(slog.DiscardHandler)}
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		synctest.Wait() // Run pauses
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the proxy ended with %v", err)
		}
	})
}
