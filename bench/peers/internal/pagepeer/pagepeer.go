// Package pagepeer holds the clients of contestants that keep pages of memory for another host:
// Weft's network memory, a Weft call that a page answers, Redis and memcached. Each client is a
// process that does nothing else:
//
//	this process                             the other host
//	  │ ── page 0, page 1, … ─────────────────► │   put, before anything is measured
//	  │ ── which page ────────────────────────► │
//	  │ ◄─────────────────────────── the page ─ │   latency: timed one by one; reads: 32 in flight
//	  │ ── the next, and the next ────────────► │   bandwidth: in order, by the reader ahead
//
// All clients read the same pages in the same order, and check that each is the requested one.
// Package tool starts the servers.
package pagepeer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

const (
	pageBytes = contest.PageSize
	pages     = 2048 // number of pages
)

// Peer is one of these clients.
type Peer struct {
	Name     string // of the contestant
	Kind     string // on the command line of its process
	Measures []string
	Notes    map[string]string

	// open returns a client of the server at the address server. The client is on the host with
	// the address here.
	open func(ctx context.Context, here, server string) (store, error)

	pipelines bool // many reads are in flight on one connection, instead of one on each of many
}

// store is a client.
type store interface {
	// put stores a page at the server.
	put(ctx context.Context, number uint64, page []byte) error

	// reader returns a reader of pages, for one goroutine.
	reader(ctx context.Context) (reader, error)

	close() error
}

// reader reads pages, one at a time.
type reader interface {
	get(ctx context.Context, number uint64, page []byte) error
}

// pipeline is a reader that can have several reads in flight. The answers come in the order of
// the requests.
type pipeline interface {
	reader
	ask(number uint64)      // may wait for flush
	flush() error           // sends the requests
	take(page []byte) error // waits for the next answer
	here() bool             // reports whether part of an answer has come
}

// manyAtOnce is a store that reads many pages by one call. It calls next for each request, and
// ended for each answer, in any order.
type manyAtOnce interface {
	getMany(ctx context.Context, depth int, next func() (number uint64, page []byte, ok bool),
		ended func(number uint64, page []byte, err error)) error
}

// inOrder is a store that reads pages in order, ahead of the requests.
type inOrder interface {
	// sequence returns a reader of the pages from 0 on, and again from 0 after the last. It may
	// put the pages again first.
	sequence(ctx context.Context) (reader, error)
}

var all = slices.Concat(onWeft(), textual("Redis", "redis", resp{}), textual("memcached", "memcached", memcache{}))

// All lists the peers.
func All() []*Peer { return all }

func find(kind string) (*Peer, error) {
	i := slices.IndexFunc(all, func(p *Peer) bool { return p.Kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("nothing of that kind keeps pages: %q", kind)
	}
	return all[i], nil
}

// Measure runs the client's process: it puts the pages, does the jobs, and prints a sample for
// each.
func Measure(ctx context.Context, kind, here, server string, jobs contest.Jobs, out io.Writer) error {
	p, err := find(kind)
	if err != nil {
		return err
	}
	s, err := p.open(ctx, here, server)
	if err != nil {
		return err
	}
	page := make([]byte, pageBytes)
	for n := range uint64(pages) {
		if err := s.put(ctx, n, mark(page, n)); err != nil {
			return fmt.Errorf("putting page %d: %w", n, err)
		}
	}
	printed := json.NewEncoder(out)
	for _, j := range jobs {
		if j.Size != pageBytes {
			return fmt.Errorf("%s of %d bytes: expected pages of %d", j.Measure, j.Size, pageBytes)
		}
		sample, err := p.measure(ctx, s, j)
		if err != nil {
			return fmt.Errorf("%s of pages: %w", j.Measure, err)
		}
		if err := printed.Encode(sample); err != nil {
			return err
		}
	}
	return s.close()
}

// mark fills a page with its number.
func mark(page []byte, number uint64) []byte {
	for i := 0; i < len(page); i += 8 {
		binary.LittleEndian.PutUint64(page[i:], number)
	}
	return page
}

// check returns an error unless the first and the last word of a page are its number.
func check(page []byte, number uint64) error {
	for _, at := range []int{0, len(page) - 8} {
		if got := binary.LittleEndian.Uint64(page[at:]); got != number {
			return fmt.Errorf("page %d came as the answer for page %d", got, number)
		}
	}
	return nil
}
