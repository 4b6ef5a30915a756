package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/load"
)

// Tags of a carrier's messages. The answer to a call of tagCarrierCall is the bytes of its
// request. The answer to one of tagCarrierCount is the number of bytes since the last count.
const (
	tagCarrierCall weft.Tag = 400 + iota
	tagCarrierCount
	tagCarrierData
)

// carrierServers is the number of receiving goroutines of the server, and so the number of calls
// that it answers concurrently.
const carrierServers = 16

// serveMessages receives until ctx ends.
func serveMessages(ctx context.Context, p *weft.Process) {
	count := new(atomic.Int64)
	for range carrierServers {
		go func() {
			buf := make([]byte, MaxSize)
			for serveMessage(ctx, p, count, buf) == nil {
			}
		}()
	}
}

func serveMessage(ctx context.Context, p *weft.Process, count *atomic.Int64, buf []byte) error {
	m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
	if err != nil {
		return err
	}
	answer := buf[:m.Len]
	switch m.Tag {
	case tagCarrierData:
		count.Add(int64(m.Len))
		return nil
	case tagCarrierCount:
		answer = binary.BigEndian.AppendUint64(nil, uint64(count.Swap(0)))
	}
	return p.Reply(ctx, m, answer)
}

// byMessages answers a question with q.Streams concurrent messages. Their memory is a region, as
// in a program that wants bandwidth.
func (c *carrier) byMessages(ctx context.Context, q carrierQuestion) (a carrierAnswer, err error) {
	server := c.p.Peer(ServerName)
	region, buffers, err := memory(c.p, 2*q.Streams, q.Size)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, region.Close()) }()
	if q.Echo {
		return eachEcho(ctx, q, func(ctx context.Context, i int) func() error {
			data, echo := buffers[2*i], buffers[2*i+1]
			return func() error {
				_, err := server.Call(ctx, tagCarrierCall, data, echo)
				return err
			}
		})
	}
	a, err = eachFlow(ctx, q, func(ctx context.Context, i int, over func() bool) (int64, error) {
		return pourMessages(ctx, server, buffers[2*i], carrierWindow(q), over)
	})
	if err != nil {
		return a, err
	}
	var count [8]byte
	_, err = server.Call(ctx, tagCarrierCount, nil, count[:])
	if n := binary.BigEndian.Uint64(count[:]); err == nil && n == 0 {
		err = fmt.Errorf("bench: sent messages of %d bytes, none has arrived", q.Size)
	}
	return a, err
}

// carrierWindow returns how many messages of one sender are in flight. For long messages there
// are two: one crosses the link while the other is acknowledged. For short ones there are enough
// to keep the link busy. A process has limits.Contexts of them in all.
func carrierWindow(q carrierQuestion) int {
	window := 2
	if manyFor(q.Size) {
		window = windowFor(q.Size)
	}
	return max(1, min(window, limits.Contexts/q.Streams))
}

// pourMessages sends until over returns true, and returns the number of bytes that were
// delivered.
func pourMessages(
	ctx context.Context, server weft.Peer, data []byte, window int, over func() bool,
) (sent int64, err error) {
	ring := load.NewRing(window)
	defer ring.Cancel(nil)
	for sent == 0 || !over() {
		for range window {
			if ring.Full() {
				if _, err := ring.Oldest(ctx); err != nil {
					return sent, err
				}
			}
			op := ring.Next()
			if err := ring.Add(op, server.StartSendDelivered(op, tagCarrierData, data)); err != nil {
				return sent, err
			}
			sent += int64(len(data))
		}
	}
	return sent, ring.Finish(ctx)
}
