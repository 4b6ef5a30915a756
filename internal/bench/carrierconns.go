package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/load"
)

// A connection begins with the client's request:
//
//	┌──────┬───────────┐
//	│ 1    │ 4         │  bytes, the most significant first
//	├──────┼───────────┤
//	│ what │ size      │
//	└──────┴───────────┘
//
// The server returns each message of that size, or reads to the end and returns the number of
// bytes.
const (
	carrierEcho  = 'e'
	carrierCount = 'c'
)

// carrierReads is the size of the server's reads when it counts, in bytes. Shorter reads make
// TCP slower.
const carrierReads = 256 << 10

// serveConns serves each connection until the listener is closed.
func serveConns(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = serveConn(conn) // the client sees that its connection ends
		}()
	}
}

func serveConn(conn net.Conn) error {
	var head [5]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > MaxSize {
		return fmt.Errorf("messages of %d bytes, expected at most %d", size, MaxSize)
	}
	if head[0] == carrierEcho {
		return echoConn(conn, make([]byte, size))
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, carrierReads))
	if err != nil {
		return err
	}
	_, err = conn.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return err
}

func echoConn(conn net.Conn, message []byte) error {
	for {
		if _, err := io.ReadFull(conn, message); err != nil {
			return err
		}
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
}

// byConns answers a question with the number of connections that it gives.
func (c *carrier) byConns(ctx context.Context, q carrierQuestion) (a carrierAnswer, err error) {
	conns := make([]net.Conn, 0, q.Streams)
	defer func() {
		for _, conn := range conns {
			_ = conn.Close() // err has the cause
		}
	}()
	for range q.Streams {
		conn, err := c.dial(ctx)
		if err != nil {
			return a, err
		}
		conns = append(conns, conn)
		what := byte(carrierCount)
		if q.Echo {
			what = carrierEcho
		}
		if _, err := conn.Write(binary.BigEndian.AppendUint32([]byte{what}, uint32(q.Size))); err != nil {
			return a, err
		}
	}
	defer context.AfterFunc(ctx, func() {
		for _, conn := range conns {
			_ = conn.SetDeadline(time.Unix(1, 0)) // fails if it is closed
		}
	})()
	if q.Echo {
		return eachEcho(ctx, q, func(_ context.Context, i int) func() error {
			data, echo := load.Written(q.Size), make([]byte, q.Size)
			return func() error {
				if _, err := conns[i].Write(data); err != nil {
					return err
				}
				_, err := io.ReadFull(conns[i], echo)
				return err
			}
		})
	}
	return eachFlow(ctx, q, func(_ context.Context, i int, over func() bool) (int64, error) {
		return pourInto(conns[i], load.Written(q.Size), over)
	})
}

// pourInto writes until over returns true, and returns how many bytes have arrived.
func pourInto(conn net.Conn, data []byte, over func() bool) (sent int64, err error) {
	// on a busy machine the time may be over at the start
	for sent == 0 || !over() {
		for range max(1, echoAtOnce/len(data)) { // between two looks at the clock
			if _, err := conn.Write(data); err != nil {
				return sent, err
			}
			sent += int64(len(data))
		}
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return sent, err
	}
	var count [8]byte
	if _, err := io.ReadFull(conn, count[:]); err != nil {
		return sent, err
	}
	if n := int64(binary.BigEndian.Uint64(count[:])); n != sent {
		return sent, fmt.Errorf("bench: wrote %d bytes, %d have arrived", sent, n)
	}
	return sent, nil
}

// eachEcho makes round trips on all connections concurrently, and times each. begin returns a
// function that makes one round trip of connection i.
func eachEcho(
	ctx context.Context, q carrierQuestion, begin func(ctx context.Context, i int) func() error,
) (carrierAnswer, error) {
	all := make([]*times, q.Streams)
	warm := warmUp(q.Time)
	start := time.Now()
	err := load.Together(ctx, q.Streams, func(ctx context.Context, i int) error {
		trip := begin(ctx, i)
		all[i] = newHistogram()
		for last := time.Since(start); ; {
			if err := trip(); err != nil {
				return err
			}
			now := time.Since(start)
			// a round trip that takes longer than the whole time counts, too
			if now > warm || now > q.Time {
				all[i].note(now - last)
			}
			if last = now; now >= q.Time+warm {
				return nil
			}
		}
	})
	if err != nil {
		return carrierAnswer{}, err
	}
	for _, h := range all[1:] {
		all[0].Merge(h.Histogram)
	}
	return carrierAnswer{Times: all[0]}, nil
}

// eachFlow sends one way over all connections concurrently. The time ends when all bytes have
// arrived.
func eachFlow(
	ctx context.Context, q carrierQuestion, pour func(ctx context.Context, i int, over func() bool) (int64, error),
) (carrierAnswer, error) {
	var sent atomic.Int64
	start := time.Now()
	err := load.Together(ctx, q.Streams, func(ctx context.Context, i int) error {
		n, err := pour(ctx, i, func() bool { return time.Since(start) >= q.Time })
		sent.Add(n)
		return err
	})
	took := time.Since(start)
	return carrierAnswer{Times: newHistogram(), BytesPerSecond: float64(sent.Load()) / took.Seconds()}, err
}
