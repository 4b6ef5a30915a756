// Package pagepeer has the clients of contestants that keep pages of memory for another host: network memory of Weft's, a call of Weft's
// that a page answers, Redis and memcached. Each is a process that does nothing else:
//
//	this process                             the other host
//	  │ ── page 0, page 1, … ─────────────────► │           put, before anything is measured
//	  │ ── which page ────────────────────────► │
//	  │ ◄─────────────────────────── the page ─ │           latency: one at a time, timed one by one; reads: 32 under way
//	  │ ── the next, and the next ────────────► │           bandwidth: in order, by the reader ahead
//
// All read the same pages in the same order, and look whether each is the one that was asked for. Servers are started by package tool.
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
	pages     = 2048 // that there are
)

// Peer is one of them.
type Peer struct {
	Name     string // of the contestant
	Kind     string // on the command line of its process
	Measures []string
	Notes    map[string]string

	// open returns a client on the host with the address here of the server at that address.
	open func(ctx context.Context, here, server string) (store, error)

	pipelines bool // many reads are under way on one connection, in place of one on each of many
}

// store is a client.
type store interface {
	// put has the server keep a page.
	put(ctx context.Context, number uint64, page []byte) error

	// reader returns what reads pages. One goroutine uses it.
	reader(ctx context.Context) (reader, error)

	close() error
}

// reader reads pages, one at a time.
type reader interface {
	get(ctx context.Context, number uint64, page []byte) error
}

// pipeline is a reader that can have several reads under way. The answers come in the order of the questions.
type pipeline interface {
	reader
	ask(number uint64)      // may wait for flush
	flush() error           // sends what was asked
	take(page []byte) error // waits for the next answer
	here() bool             // whether part of an answer has come
}

// manyAtOnce is a store that reads many pages by one call: it asks next for them, and ends each, in any order.
type manyAtOnce interface {
	getMany(ctx context.Context, depth int, next func() (number uint64, page []byte, ok bool), ended func(number uint64, page []byte, err error)) error
}

// inOrder is a store that reads pages one behind the other, ahead of the requests.
type inOrder interface {
	// sequence returns what reads pages so, from 0 on and again from 0 after the last. It may have put them anew.
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

// Measure is the client's process: it puts the pages, does the jobs, and prints a sample for each.
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

// mark makes a page the one of its number.
func mark(page []byte, number uint64) []byte {
	for i := 0; i < len(page); i += 8 {
		binary.LittleEndian.PutUint64(page[i:], number)
	}
	return page
}

// check looks whether a page is the one of its number, by its first word and its last.
func check(page []byte, number uint64) error {
	for _, at := range []int{0, len(page) - 8} {
		if got := binary.LittleEndian.Uint64(page[at:]); got != number {
			return fmt.Errorf("page %d came as the answer for page %d", got, number)
		}
	}
	return nil
}
