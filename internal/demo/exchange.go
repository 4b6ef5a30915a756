package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// tagLong is the tag of the long messages. The tag of any other message is its number.
const tagLong weft.Tag = 1 << 32

// quiet is the time for which the receivers wait for surplus messages. A duplicate would have
// arrived long before.
const quiet = 50 * time.Millisecond

// sizes draws the lengths of the messages in one direction: one of each size, and short ones, in
// random order.
func (d *demo) sizes(from, to int) []int {
	rng := rand.New(rand.NewPCG(d.Seed, uint64(from*hosts+to)))
	sizes := append([]int(nil), d.Sizes...)
	for range d.Messages {
		sizes = append(sizes, rng.IntN(1024))
	}
	rng.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	return sizes
}

// messageBytes returns the number of bytes that exchange transfers.
func (d *demo) messageBytes() (sum int64) {
	for i := range pairs {
		for _, n := range d.sizes(i/(hosts-1), (i/(hosts-1)+1+i%(hosts-1))%hosts) {
			sum += int64(n)
		}
	}
	return sum
}

// seed returns the seed of one message.
func (d *demo) seed(from, to int, tag weft.Tag) uint64 {
	return load.Seed(d.Seed, uint64(from), uint64(to), uint64(tag))
}

// exchange sends many messages in all directions concurrently. Senders wait only for their
// buffers.
func (d *demo) exchange(ctx context.Context, done *tally) error {
	return eachPair(ctx, func(ctx context.Context, from, to int) error {
		sizes := d.sizes(from, to)
		return load.Both(ctx,
			func(ctx context.Context) error { return d.send(ctx, from, to, sizes) },
			func(ctx context.Context) error { return d.receive(ctx, from, to, sizes, done) })
	})
}

func (d *demo) send(ctx context.Context, from, to int, sizes []int) error {
	for i, n := range sizes {
		b := make([]byte, n)
		load.Fill(b, d.seed(from, to, weft.Tag(i)))
		peer := d.procs[from].Peer(name(to))
		send := peer.Send
		if i == len(sizes)-1 {
			send = peer.SendDelivered
		}
		if err := send(ctx, weft.Tag(i), b); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// receive receives the messages of one direction in the order in which they were sent, and checks
// that no more arrive.
func (d *demo) receive(ctx context.Context, from, to int, sizes []int, done *tally) error {
	buf := make([]byte, d.Sizes[len(d.Sizes)-1]+1)
	for i, n := range sizes {
		m, err := d.procs[to].Recv(ctx, name(from), weft.AnyTag, buf)
		switch {
		case err != nil:
			return fmt.Errorf("message %d: %w", i, err)
		case m.Tag != weft.Tag(i):
			return fmt.Errorf("message %d came; expected %d: lost, doubled or out of order", m.Tag, i)
		case m.Full != n:
			return fmt.Errorf("message %d has %d bytes; expected %d", i, m.Full, n)
		}
		if err := load.Check(buf[:n], d.seed(from, to, m.Tag)); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		done.add(n, 1)
	}
	ctx, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	m, err := d.procs[to].Recv(ctx, name(from), weft.AnyTag, buf)
	if err == nil {
		return fmt.Errorf("message %d came twice", m.Tag)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// exchangeLong sends one long message in each direction, in rounds, so that four pairs of buffers
// suffice. In round r, every NIC sends to the r-th NIC after it.
func (d *demo) exchangeLong(ctx context.Context, done *tally) error {
	var out, in [hosts][]byte
	for i := range hosts {
		out[i], in[i] = make([]byte, d.Long), make([]byte, d.Long)
	}
	for round := 1; round < hosts; round++ {
		err := load.Together(ctx, hosts, func(ctx context.Context, from int) error {
			to := (from + round) % hosts
			return load.Both(ctx,
				func(ctx context.Context) error {
					load.Fill(out[from], d.seed(from, to, tagLong))
					return d.procs[from].Peer(name(to)).SendDelivered(ctx, tagLong, out[from])
				},
				func(ctx context.Context) error { return d.receiveLong(ctx, from, to, in[to], done) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) receiveLong(ctx context.Context, from, to int, buf []byte, done *tally) error {
	clear(buf)
	m, err := d.procs[to].Recv(ctx, name(from), tagLong, buf)
	if err != nil {
		return err
	}
	if m.Full != len(buf) {
		return fmt.Errorf("from %v to %v: %d bytes came; expected %d", name(from), name(to), m.Full, len(buf))
	}
	if err := load.Check(buf, d.seed(from, to, tagLong)); err != nil {
		return fmt.Errorf("from %v to %v: %w", name(from), name(to), err)
	}
	done.add(len(buf), 1)
	return nil
}
