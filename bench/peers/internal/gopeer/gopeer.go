// Package gopeer holds the contestants that are libraries for Go. Each is two processes, client
// and server, that do nothing else:
//
//	client                                   server
//	  │ ── message, first byte echo ──────────► │
//	  │ ◄──────────────────── the same back ─── │      latency: one at a time, timed one by one
//	  │ ── message, first byte data ──────────► │ counts
//	  │ ── message, first byte last ──────────► │
//	  │ ◄───────────────────────── the count ── │      rate, bandwidth: first message to the count
//
// All send the same messages in the same way, as far as their interfaces permit. They use the
// defaults of each library, except for settings that refuse a message of 4 MiB.
package gopeer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// Operations of a message, in its first byte.
const (
	byteData = iota
	byteLast // data; the server then answers with the count
	byteEcho
)

// maxSize is the longest message, in bytes.
const maxSize = 4 << 20

// Peer is one library.
type Peer struct {
	Name string // of the contestant
	Kind string // on the command line of its processes

	Most     int      // length of the longest message that it carries, in bytes
	Measures []string // measures that it supports
	Notes    map[string]string
	Clean    bool // measured without losses, on one host and between two
	Hosts    bool // as Clean, between two hosts only
	Lossy    bool // measured with losses, too
	Sealed   bool // it encrypts its messages
	// it makes a network device on each host, and so is measured between two hosts only
	Tunnel bool

	needs func() error // returns an error if it cannot run here; nil: it always can
	serve func(ctx context.Context, addr string, ready func(addr string) error) error
	dial  func(ctx context.Context, addr string) (conn, error)
}

// conn is the client's side.
type conn interface {
	// echo sends a message, and returns when the echo has come. It may change the message.
	echo(message []byte) error

	// pour sends messages while more returns true, marks the last one, and returns how many have
	// arrived.
	pour(message []byte, more func() bool) (arrived int64, err error)

	close() error
}

var all []*Peer

// All lists the peers.
func All() []*Peer { return all }

func find(kind string) (*Peer, error) {
	i := slices.IndexFunc(all, func(p *Peer) bool { return p.Kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("no peer is named %q", kind)
	}
	return all[i], nil
}

// Serve runs the server's process: it prints its address, and serves until it is killed.
func Serve(ctx context.Context, kind, addr string, out io.Writer) error {
	p, err := find(kind)
	if err != nil {
		return err
	}
	return p.serve(ctx, addr, func(addr string) error {
		_, err := fmt.Fprintln(out, addr)
		return err
	})
}

// Measure runs the client's process: it does the jobs with the server at addr, and prints a
// sample for each.
func Measure(ctx context.Context, kind, addr string, jobs contest.Jobs, out io.Writer) error {
	p, err := find(kind)
	if err != nil {
		return err
	}
	c, err := p.dial(ctx, addr)
	if err != nil {
		return err
	}
	printed := json.NewEncoder(out)
	for _, j := range jobs {
		s, err := measure(c, j)
		if err != nil {
			return fmt.Errorf("%s of %d bytes: %w", j.Measure, j.Size, err)
		}
		if err := printed.Encode(s); err != nil {
			return err
		}
	}
	return c.close()
}

// measure does one job, after a warm-up of a tenth of its time.
func measure(c conn, j contest.Job) (contest.Sample, error) {
	s := contest.Sample{Measure: j.Measure, Size: j.Size}
	message := make([]byte, j.Size)
	if j.Measure == contest.Latency {
		if err := bounce(c, message, j.Time/10, new(contest.Histogram)); err != nil {
			return s, err
		}
		var h contest.Histogram
		err := bounce(c, message, j.Time, &h)
		s.Steps = h.Steps()
		s.Value = s.Steps.At(50)
		return s, err
	}
	if _, _, err := pour(c, message, j.Time/10); err != nil {
		return s, err
	}
	n, took, err := pour(c, message, j.Time)
	s.Value = float64(n) / took.Seconds()
	if j.Measure == contest.Bandwidth {
		s.Value *= float64(j.Size)
	}
	return s, err
}

// bounce makes round trips for the time d. It reads the clock once for each.
func bounce(c conn, message []byte, d time.Duration, h *contest.Histogram) error {
	begin := time.Now()
	for last := time.Duration(0); last < d; {
		message[0] = byteEcho
		if err := c.echo(message); err != nil {
			return err
		}
		now := time.Since(begin)
		h.Add(int64(now - last))
		last = now
	}
	return nil
}

// pour sends for the time d. It returns how many messages arrived, and the time until the count
// was known. It reads the clock once for 16 short messages, since a reading costs as much as
// some peers' message.
func pour(c conn, message []byte, d time.Duration) (arrived int64, took time.Duration, err error) {
	begin, sent := time.Now(), 0
	every := 1
	if len(message) < 4096 {
		every = 16
	}
	arrived, err = c.pour(message, func() bool {
		sent++
		return sent%every != 0 || time.Since(begin) < d
	})
	return arrived, time.Since(begin), err
}

// Available returns an error if a peer cannot run here.
func (p *Peer) Available() error {
	if p.needs == nil {
		return nil
	}
	return p.needs()
}
