package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/stream"
)

// Streams are measured in comparison with the two alternatives of a program: messages of the
// same processes, and TCP between the same hosts. Each round measures all three, for writes with
// their echoes, and for writes one way:
//
//	round    message ─ stream ─ TCP ─ message ─ stream ─ TCP
//	         └──── echoes ────────┘   └──── one way ────────┘

// KindStream is the measurement of streams.
const KindStream = "stream"

// Carriers of bytes in a plan.
const (
	overStream = "stream"
	overTCP    = "tcp"
)

// Streams holds the figures of streams and of their alternatives. The ratios are medians of
// those of the rounds.
type Streams struct {
	StreamP50  int64   `json:"stream_p50_ns"` // of a write and its echo, as in the next two
	MessageP50 int64   `json:"message_p50_ns"`
	TCPP50     int64   `json:"tcp_p50_ns"`
	ToMessage  float64 `json:"echo_to_message"` // the stream's time by the message's
	ToTCP      float64 `json:"echo_to_tcp"`

	StreamBytes  float64 `json:"stream_bytes_per_s"` // of writes one way, as in the next two
	MessageBytes float64 `json:"message_bytes_per_s"`
	TCPBytes     float64 `json:"tcp_bytes_per_s"`
	ByMessage    float64 `json:"bytes_to_message"` // the stream's bytes per second by the message's
	ByTCP        float64 `json:"bytes_to_tcp"`
}

// streamRounds is how many rounds a measurement has.
const streamRounds = 5

// streams makes a sample of streams.
func (c *Client) streams(ctx context.Context, size int, d time.Duration) (s sample, err error) {
	var all []Streams
	for range streamRounds {
		r, n, err := c.streamRound(ctx, size, d/(6*streamRounds))
		if err != nil {
			return s, fmt.Errorf("streams, writes of %d bytes: %w", size, err)
		}
		s.Iterations += n
		all = append(all, r)
	}
	s.Streams = &Streams{
		StreamP50:    medianOf(all, func(r Streams) int64 { return r.StreamP50 }),
		MessageP50:   medianOf(all, func(r Streams) int64 { return r.MessageP50 }),
		TCPP50:       medianOf(all, func(r Streams) int64 { return r.TCPP50 }),
		ToMessage:    medianOf(all, func(r Streams) float64 { return float64(r.StreamP50) / float64(r.MessageP50) }),
		ToTCP:        medianOf(all, func(r Streams) float64 { return float64(r.StreamP50) / float64(r.TCPP50) }),
		StreamBytes:  medianOf(all, func(r Streams) float64 { return r.StreamBytes }),
		MessageBytes: medianOf(all, func(r Streams) float64 { return r.MessageBytes }),
		TCPBytes:     medianOf(all, func(r Streams) float64 { return r.TCPBytes }),
		ByMessage:    medianOf(all, func(r Streams) float64 { return r.StreamBytes / r.MessageBytes }),
		ByTCP:        medianOf(all, func(r Streams) float64 { return r.StreamBytes / r.TCPBytes }),
	}
	return s, nil
}

// streamRound runs one round, with d for each of its six parts. It also returns how many echoes
// came over streams.
func (c *Client) streamRound(ctx context.Context, size int, d time.Duration) (r Streams, n int64, err error) {
	h, err := c.roundTrips(ctx, size, d)
	if err != nil {
		return r, 0, err
	}
	r.MessageP50 = h.p50()
	if h, _, err = c.echoes(ctx, overStream, size, d); err != nil {
		return r, 0, err
	}
	r.StreamP50, n = h.p50(), h.TotalCount()
	if h, _, err = c.echoes(ctx, overTCP, size, d); err != nil {
		return r, 0, err
	}
	r.TCPP50 = h.p50()
	m, err := c.Stream(ctx, size, d)
	if err != nil {
		return r, 0, err
	}
	r.MessageBytes = m.BytesPerSecond()
	if r.StreamBytes, err = c.writes(ctx, overStream, size, d); err == nil {
		r.TCPBytes, err = c.writes(ctx, overTCP, size, d)
	}
	return r, n, err
}

// echoes returns how long writes of a size and their echoes take, and what both kernels have
// retransmitted of them.
func (c *Client) echoes(ctx context.Context, over string, size int, d time.Duration) (*times, Again, error) {
	h := newHistogram()
	var again Again
	data, echo := load.Written(size), make([]byte, size)
	_, _, err := c.measure(ctx, plan{Echo: true, Over: over, Size: size, Window: 1},
		c.dialled(over, func(conn net.Conn) error {
			defer func() { again = tcpAgain(conn) }()
			if err := bounceBytes(conn, data, echo, warmUp(d), nil); err != nil {
				return err
			}
			return bounceBytes(conn, data, echo, d, h)
		}))
	if err != nil {
		return nil, again, fmt.Errorf("echoes over %s: %w", over, err)
	}
	return h, again.plus(c.again), nil
}

// bounceBytes writes data and reads the echo for the time d, at least once.
func bounceBytes(conn net.Conn, data, echo []byte, d time.Duration, h *times) error {
	begin := time.Now()
	for last := time.Duration(0); last < d || last == 0; {
		if err := writeThenRead(conn, data, echo); err != nil {
			return err
		}
		now := time.Since(begin)
		h.note(now - last)
		last = now
	}
	return nil
}

// writeThenRead makes one echo. If the write is longer than echoAtOnce, it writes and reads
// concurrently.
func writeThenRead(conn net.Conn, data, echo []byte) error {
	if len(data) <= echoAtOnce {
		if _, err := conn.Write(data); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, echo)
		return err
	}
	wrote := make(chan error, 1)
	go func() { _, err := conn.Write(data); wrote <- err }()
	_, err := io.ReadFull(conn, echo)
	if err != nil {
		conn.Close() // so the write ends
	}
	return errors.Join(err, <-wrote)
}

// echoAtOnce is how many bytes every carrier takes even if the receiver does not read.
const echoAtOnce = 16 << 10

// writes returns how many bytes per second writes of a size carry one way.
func (c *Client) writes(ctx context.Context, over string, size int, d time.Duration) (float64, error) {
	data := load.Written(size)
	var sent int64
	var begin time.Time
	pour := func(conn net.Conn) error {
		begin, sent = time.Now(), 0
		for time.Since(begin) < d {
			for range max(1, echoAtOnce/size) { // between two clock readings
				if _, err := conn.Write(data); err != nil {
					return err
				}
				sent += int64(size)
			}
		}
		return nil
	}
	done, _, err := c.measure(ctx, plan{Over: over, Size: size, Window: 1}, c.dialled(over, pour))
	took := time.Since(begin)
	switch {
	case err != nil:
		return 0, fmt.Errorf("writes over %s: %w", over, err)
	case done.Messages != sent:
		return 0, fmt.Errorf("bench: wrote %d bytes to %v over %s, %d have arrived",
			sent, c.server, over, done.Messages)
	}
	return float64(sent) / took.Seconds(), nil
}

// dialled returns a function that connects to the server, calls run with the connection, and
// closes it.
func (c *Client) dialled(over string, run func(conn net.Conn) error) func(ctx context.Context) error {
	return func(ctx context.Context) (err error) {
		var conn net.Conn
		if over == overTCP {
			_, port, _ := net.SplitHostPort(c.service)
			conn, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(c.host, port))
		} else {
			conn, err = (&stream.Dialer{Process: c.p}).DialContext(ctx, "", c.service)
		}
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		err = run(conn)
		return errors.Join(err, conn.Close())
	}
}

// carry does the server's part: it accepts one connection, and returns its bytes or counts them.
func (s *session) carry(ctx context.Context, asked weft.Message) error {
	var l net.Listener
	var err error
	if s.plan.Over == overTCP {
		l, err = net.Listen("tcp", ":0")
	} else {
		l, err = stream.Listen(s.p, "bench")
	}
	if err != nil {
		return s.answer(ctx, asked, outcome{Error: err.Error()})
	}
	ctx, stop := context.WithCancel(ctx)
	var again Again
	var served sync.WaitGroup
	defer served.Wait()
	defer l.Close()
	defer stop()
	served.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return // the measurement is over
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		to := io.Discard
		if s.plan.Echo {
			to = conn
		}
		// The wrappers hide io.WriterTo and io.ReaderFrom: io.Discard would read 8 KiB at a
		// time, with which TCP is slower.
		// the client finds missing bytes by the count
		s.count, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{conn}, make([]byte, carrierReads))
		again = tcpAgain(conn)
	})
	said, err := s.untilStop(ctx, asked, outcome{Service: l.Addr().String()})
	if err != nil {
		return err
	}
	served.Wait() // the client has closed its end
	return s.answer(ctx, said, outcome{Messages: s.count, Again: again})
}
