package stream_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// rowWorld runs write in one process and read in another, at the two ends of a stream. It returns
// the number of frames that the writer's NIC sent, and the time.
func rowWorld(t *testing.T, seed uint64, write, read func(p *sim.Process, c *stream.Conn) error) (frames uint64, took time.Duration) {
	t.Helper()
	sum := uint64(0)
	f := sim.New(simulated.Hooked(sim.Config{Seed: sim.Seed(seed), NICs: 2}, simulated.Hooks{Pool: seed%2 == 1, Tap: func(from, _ int, _ []byte) {
		if from == 1 {
			sum++
		}
	}}))
	f.Serve(0, "a/0", func(p *sim.Process) error {
		l, err := stream.Listen(p.Weft(), "rows")
		if err != nil {
			return err
		}
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_ = c.SetDeadline(p.Runtime().Now().Add(patient))
		return read(p, c.(*stream.Conn))
	})
	f.Process(1, "b/0", func(p *sim.Process) error {
		c, err := (&stream.Dialer{Process: p.Weft(), Timeout: patient}).Dial(context.Background(), "a/0:rows")
		if err != nil {
			return err
		}
		_ = c.SetDeadline(p.Runtime().Now().Add(patient))
		sleep(p, time.Millisecond)
		before, begin := sum, p.Runtime().Now()
		err = write(p, c)
		frames, took = sum-before, p.Runtime().Now().Sub(begin)
		return err
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return frames, took
}

const rowWrites, rowBytes = 1000, 64

// A thousand short Writes in succession need few frames, and no byte is missing.
func TestShortWritesInARowShareFrames(t *testing.T) {
	for seed := range uint64(seeds(t, 40)) {
		frames, _ := rowWorld(t, seed, func(p *sim.Process, c *stream.Conn) error {
			var b [rowBytes]byte
			for i := range rowWrites {
				for k := range b {
					b[k] = pattern(1, i*rowBytes+k)
				}
				if _, err := c.Write(b[:]); err != nil {
					return err
				}
			}
			if err := c.CloseWrite(); err != nil {
				return err
			}
			_, err := io.ReadFull(c, b[:1]) // until all bytes have arrived
			return err
		}, func(p *sim.Process, c *stream.Conn) error {
			got, err := io.ReadAll(c)
			if err != nil || len(got) != rowWrites*rowBytes {
				return fmt.Errorf("%d bytes came, %w; expected %d", len(got), err, rowWrites*rowBytes)
			}
			for i, b := range got {
				if b != pattern(1, i) {
					return fmt.Errorf("byte %d is %d in place of %d", i, b, pattern(1, i))
				}
			}
			_, err = c.Write(got[:1])
			sleep(p, time.Second) // the stream ends with its process
			return err
		})
		if frames > rowWrites/4 {
			t.Errorf("seed %d: %d frames; expected far less than the %d writes", seed, frames, rowWrites)
		}
	}
}

// A peer that reads little by little first leaves room for a part of the joined bytes, and then
// no room. Nevertheless all bytes arrive once.
func TestShortWritesToASlowReaderComeWhole(t *testing.T) {
	const all = 5 << 19 // two and a half windows
	for seed := range uint64(seeds(t, 24)) {
		rowWorld(t, seed, func(p *sim.Process, c *stream.Conn) error {
			var b [3000]byte
			for at := 0; at < all; {
				n := min(1+p.Rand().IntN(len(b)), all-at)
				for k := range n {
					b[k] = pattern(2, at+k)
				}
				m, err := c.Write(b[:n])
				if at += m; err != nil {
					return err
				}
			}
			if err := c.CloseWrite(); err != nil {
				return err
			}
			_, err := io.ReadFull(c, b[:1])
			return err
		}, func(p *sim.Process, c *stream.Conn) error {
			b := make([]byte, 100_000)
			for at := 0; ; {
				n, err := c.Read(b[:1+p.Rand().IntN(len(b))])
				for i, got := range b[:n] {
					if got != pattern(2, at+i) {
						return fmt.Errorf("byte %d is %d in place of %d", at+i, got, pattern(2, at+i))
					}
				}
				at += n
				if err == io.EOF && at == all {
					break
				}
				if err != nil {
					return fmt.Errorf("at byte %d of %d: %w", at, all, err)
				}
				sleep(p, time.Duration(p.Rand().IntN(int(2*time.Millisecond))))
			}
			_, err := c.Write(b[:1])
			sleep(p, time.Second)
			return err
		})
	}
}

// A Write that its peer answers is not delayed. If three Writes are answered together, the third
// one is not delayed either: a Read looks for the answer at once.
func TestAnsweredWritesWaitForNothing(t *testing.T) {
	const echoes = 200
	echo := func(writes int) func(p *sim.Process, c *stream.Conn) error {
		return func(_ *sim.Process, c *stream.Conn) error {
			b := make([]byte, rowBytes*writes)
			for range echoes {
				for i := range writes {
					if _, err := c.Write(b[i*rowBytes:][:rowBytes]); err != nil {
						return err
					}
				}
				if _, err := io.ReadFull(c, b[:1]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	answer := func(writes int) func(p *sim.Process, c *stream.Conn) error {
		return func(_ *sim.Process, c *stream.Conn) error {
			b := make([]byte, rowBytes*writes)
			for range echoes {
				if _, err := io.ReadFull(c, b); err != nil {
					return err
				}
				if _, err := c.Write(b[:1]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for seed := range uint64(seeds(t, 16)) {
		_, one := rowWorld(t, seed, echo(1), answer(1))
		_, three := rowWorld(t, seed, echo(3), answer(3))
		t.Logf("seed %d: %v an echo of one, %v of three", seed, one/echoes, three/echoes)
		if three > 2*one {
			t.Errorf("seed %d: an echo of three Writes takes %v, one of one %v; expected less than twice as long", seed, three/echoes, one/echoes)
		}
	}
}

// pattern returns byte i of stream k.
func pattern(k, i int) byte { return byte(i*7 + i>>8 + k*31) }

// While there is room, a Write of a few kilobytes does not wait for an acknowledgement. This
// holds whether or not the NIC can copy the Write at that moment.
func TestWritesOfSomeKilobytesDoNotWaitForTheirPeer(t *testing.T) {
	// Eight of the Writes are in flight, and the others fit into the bytes that may wait.
	const writes, bytes, far = 20, 4 << 10, 10 * time.Millisecond
	for seed := range uint64(seeds(t, 20)) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 2, Link: sim.Link{Latency: far}})
		f.Serve(0, "a/0", func(p *sim.Process) error {
			l, err := stream.Listen(p.Weft(), "far")
			if err != nil {
				return err
			}
			c, err := l.Accept()
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, c)
			if err == nil && n != writes*bytes {
				err = fmt.Errorf("%d bytes came of %d", n, writes*bytes)
			}
			return err
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			c, err := (&stream.Dialer{Process: p.Weft(), Timeout: patient}).Dial(context.Background(), "a/0:far")
			if err != nil {
				return err
			}
			sleep(p, 10*far)
			for i := range writes {
				sleep(p, 200*time.Microsecond) // so the Writes are no row
				begin := p.Runtime().Now()
				if _, err := c.Write(make([]byte, bytes)); err != nil {
					return err
				}
				if took := p.Runtime().Now().Sub(begin); took >= far {
					t.Errorf("seed %d: Write %d took %v", seed, i, took)
				}
			}
			return c.Close()
		})
		if err := f.Run(time.Minute); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
