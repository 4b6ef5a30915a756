package pmi

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// fabric is the key-value space of a job on several hosts, in memory. As on real hosts, values
// reach the other hosts only by a barrier.
type fabric struct {
	mu     sync.Mutex
	hosts  []*host
	in     int
	done   chan struct{}
	aborts []string
}

// host is the part of a fabric that one server uses.
type host struct {
	f    *fabric
	seen map[string]string
	news map[string]string
}

func newFabric(hosts int) *fabric {
	f := &fabric{done: make(chan struct{})}
	for range hosts {
		f.hosts = append(f.hosts, &host{f, make(map[string]string), make(map[string]string)})
	}
	return f
}

func (h *host) Put(key, value string) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if _, twice := h.seen[key]; twice {
		return errors.New("the key has a value")
	}
	h.seen[key], h.news[key] = value, value
	return nil
}

func (h *host) Get(key string) (string, bool) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	v, ok := h.seen[key]
	return v, ok
}

func (h *host) Barrier(ctx context.Context) error {
	h.f.mu.Lock()
	done := h.f.done
	if h.f.in++; h.f.in == len(h.f.hosts) {
		h.f.in, h.f.done = 0, make(chan struct{})
		for _, from := range h.f.hosts {
			for key, value := range from.news {
				for _, to := range h.f.hosts {
					to.seen[key] = value
				}
			}
			clear(from.news)
		}
		close(done)
	}
	h.f.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *host) Abort(rank, status int, message string) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.f.aborts = append(h.f.aborts, fmt.Sprintf("rank %d, status %d, message %q", rank, status, message))
}
