package gopeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// httpConnections is how many clients send requests concurrently, each over its own connection.
const httpConnections = 64

var httpNotes = map[string]string{contest.Latency: "a POST and its echo, one at a time",
	contest.Rate: fmt.Sprintf("POSTs and their echoes from %d connections", httpConnections)}

// bodies holds buffers for messages at the server.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// serveHTTP answers a POST with its body.
func serveHTTP(c *carrier) func(context.Context, string, func(string) error) error {
	return c.serving(func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := bodies.Get().(*bytes.Buffer)
			defer bodies.Put(body)
			body.Reset()
			// all of it, before the answer begins: the server drops what comes after that
			if _, err := body.ReadFrom(r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(body.Bytes()) // the client may have gone
		}))
	})
}

// posts is a conn by HTTP.
type posts struct {
	client *http.Client
	end    func() error
	answer bytes.Buffer
}

func dialHTTP(c *carrier) func(context.Context, string) (conn, error) {
	return func(ctx context.Context, at string) (conn, error) {
		dial, end, err := c.open(ctx, at)
		if err != nil {
			return nil, err
		}
		t := &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			MaxIdleConnsPerHost: httpConnections,
			DisableCompression:  true,
		}
		return &posts{client: &http.Client{Transport: t}, end: end}, nil
	}
}

// ask posts a message, and reads its echo into answer.
func (r *posts) ask(message []byte, answer *bytes.Buffer) error {
	resp, err := r.client.Post("http://peer/", "application/octet-stream", bytes.NewReader(message))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer.Reset()
	_, err = answer.ReadFrom(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %s", resp.Status)
	case answer.Len() != len(message):
		return fmt.Errorf("an echo of %d bytes, expected %d", answer.Len(), len(message))
	}
	return nil
}

func (r *posts) echo(message []byte) error { return r.ask(message, &r.answer) }

func (r *posts) pour(message []byte, more func() bool) (int64, error) {
	var mu sync.Mutex // of more
	var arrived atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, httpConnections)
	for i := range errs {
		all.Go(func() {
			var answer bytes.Buffer
			for {
				mu.Lock()
				on := more()
				mu.Unlock()
				if errs[i] = r.ask(message, &answer); errs[i] != nil {
					return
				}
				if arrived.Add(1); !on {
					return
				}
			}
		})
	}
	all.Wait()
	return arrived.Load(), errors.Join(errs...)
}

func (r *posts) close() error {
	r.client.CloseIdleConnections()
	return r.end()
}
