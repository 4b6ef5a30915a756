package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/stream"
)

// reattaching dials from a process of a daemon that may be restarted. It then attaches again.
type reattaching struct {
	socket string

	mu       sync.Mutex
	p        *fabric.Process
	attached int
}

// process returns the process to dial from.
func (r *reattaching) process(ctx context.Context) (*fabric.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.p == nil {
		p, err := fabric.Attach(ctx, fabric.AttachConfig{Socket: r.socket, Name: fabric.Name{App: "client", Index: uint32(r.attached)}})
		if err == nil {
			r.attached++
			// a new NIC knows no names yet
			if _, err = p.WaitName(ctx, fabric.Name{App: "web"}); err == nil {
				r.p = p
				break
			}
			p.Close()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return r.p, nil
}

// gone releases a process whose daemon has ended.
func (r *reattaching) gone(p *fabric.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p == p && p != nil {
		r.p.Close()
		r.p = nil
	}
}

func (r *reattaching) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	for {
		p, err := r.process(ctx)
		if err != nil {
			return nil, err
		}
		c, err := (&stream.Dialer{Process: p}).DialContext(ctx, network, "web/0:http")
		if !errors.Is(err, net.ErrClosed) && !errors.Is(err, fabric.ErrNICGone) || ctx.Err() != nil {
			return c, err
		}
		r.gone(p)
	}
}

// httpLoad counts the outcomes of the requests of many clients.
type httpLoad struct {
	client            *http.Client
	begun, ok, failed atomic.Int64
	late              atomic.Int64 // of ok: begun after the daemon had come back
	back              atomic.Bool
}

// get makes one request, and returns an error if the answer, or the way in which it failed, is
// wrong.
func (l *httpLoad) get() error {
	n, back := l.begun.Add(1), l.back.Load()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := fmt.Sprintf("/%d", n)
	q, err := http.NewRequestWithContext(ctx, "GET", "http://web"+path, nil)
	if err != nil {
		return err
	}
	r, err := l.client.Do(q)
	var got []byte
	if err == nil {
		got, err = io.ReadAll(r.Body)
		r.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("request %d hangs: %w", n, err)
	case err != nil:
		l.failed.Add(1)
		return nil
	case string(got) != path:
		return fmt.Errorf("request %d was answered with %q", n, got)
	}
	l.ok.Add(1)
	if back {
		l.late.Add(1)
	}
	return nil
}

// The clients' daemon ends and is restarted in the middle. Each request succeeds or fails, and
// none hangs.
func TestRequestsOverStreamsDoNotHangWhenADaemonIsStartedAnew(t *testing.T) {
	const clients = 64
	requests := int64(3000)
	if *long {
		requests = 100_000
	}
	dir, address := t.TempDir(), testenv.Loopback(t)
	startNIC(t, "--socket", filepath.Join(dir, "server.sock"), "--listen", address)
	at := &reattaching{socket: filepath.Join(dir, "client.sock")}
	daemon := []string{"--socket", at.socket, "--listen", "127.0.0.1:0", "--node", address}
	nic, _ := startNIC(t, daemon...)

	web, err := fabric.Attach(t.Context(), fabric.AttachConfig{Socket: filepath.Join(dir, "server.sock"), Name: fabric.Name{App: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	listener, err := stream.Listen(web, "http")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })}
	go server.Serve(listener)
	defer server.Close()

	transport := &http.Transport{DialContext: at.DialContext, MaxIdleConnsPerHost: clients}
	l := &httpLoad{client: &http.Client{Transport: transport}}
	var all sync.WaitGroup
	start, deadline := time.Now(), time.Now().Add(4*patience)
	for range clients {
		all.Go(func() {
			// the last ones are for the daemon that has come back
			for l.begun.Load() < requests || l.late.Load() == 0 && time.Now().Before(deadline) {
				if err := l.get(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for l.begun.Load() < requests/2 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	end := os.Kill
	if testing.Short() { // a daemon that says goodbye is given up at once
		end = os.Interrupt
	}
	nic.Process.Signal(end)
	nic.Wait()
	startNIC(t, daemon...)
	l.back.Store(true)
	all.Wait()
	t.Logf("%d requests in %v: %d were answered, of which %d began behind the restart, and %d failed", l.begun.Load(), time.Since(start).Round(time.Millisecond), l.ok.Load(), l.late.Load(), l.failed.Load())
	if l.ok.Load()+l.failed.Load() != l.begun.Load() || l.late.Load() == 0 || at.attached < 2 {
		t.Errorf("of %d requests %d were answered, %d of them behind the restart, and %d failed; attached %d times", l.begun.Load(), l.ok.Load(), l.late.Load(), l.failed.Load(), at.attached)
	}
	transport.CloseIdleConnections()
	at.gone(at.p)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// it includes connections whose clients died with their daemon
	if err := server.Shutdown(ctx); err != nil {
		t.Errorf("the server has connections that do not end: %v", err)
	}
}
