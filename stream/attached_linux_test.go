package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/stream"
)

// attached returns two processes, each at a daemon of its own.
func attached(t testing.TB) (a, b *weft.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var nodes []file.Entry
	open := func(app string) *weft.Process {
		socket := filepath.Join(t.TempDir(), "nic.sock")
		d, err := daemon.New(daemon.Config{Socket: socket, Listen: "127.0.0.1:0", Nodes: nodes, UnreachableAfter: daemon.Duration(20 * time.Second)}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		run, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- d.Run(run) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, file.Entry{Address: d.Addr().String()})
		p, err := weft.Attach(ctx, weft.AttachConfig{Socket: socket, Name: weft.Name{App: app}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	a, b = open("a"), open("b")
	if _, err := b.WaitName(ctx, a.Name()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestStreamsOfProcessesOfADaemon(t *testing.T) {
	a, b := attached(t)
	t.Run("refused", func(t *testing.T) { refuses(t, a, b) })
	t.Run("http", func(t *testing.T) { speaksHTTP(t, a, b) })
	t.Run("nettest", func(t *testing.T) {
		l, err := stream.Listen(a, "test")
		if err != nil {
			t.Fatal(err)
		}
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			c1, c2, err = joined(l, &stream.Dialer{Process: b})
			return c1, c2, func() { c1.Close(); c2.Close() }, err
		})
	})
}

// With a daemon, a process has a limited number of receives. If all of them are in flight, the
// error of Listen must say so, and must not name a connection.
func TestAListenWithoutAReceiveToSpareSaysSo(t *testing.T) {
	a, _ := attached(t)
	for {
		if err := a.StartRecv(new(weft.Op), weft.AnyProcess, 1, nil); errors.Is(err, weft.ErrQueueFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Listen(a, "x"); !errors.Is(err, weft.ErrQueueFull) || errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v; expected %v alone", err, weft.ErrQueueFull)
	}
}
