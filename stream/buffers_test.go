package stream_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// bufferSizes are the sizes that the tests try. 0 means that the buffer is not set.
var bufferSizes = []int{0, 1, 4 << 10, 64 << 10, 256 << 10, 512 << 10, 16 << 20}

// setBuffers sets the buffers whose size is not 0.
func setBuffers(c *stream.Conn, write, read int) {
	if write > 0 {
		_ = c.SetWriteBuffer(write)
	}
	if read > 0 {
		_ = c.SetReadBuffer(read)
	}
}

// For all buffer sizes of the ends, all written bytes arrive.
func TestStreamsComeWholeWithBuffersOfAnySize(t *testing.T) {
	const all = 3<<20 + 5
	for _, write := range bufferSizes {
		for _, read := range bufferSizes {
			f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
			f.Serve(0, "a/0", func(p *sim.Process) error {
				l, err := stream.Listen(p.Weft(), "sink")
				if err != nil {
					return err
				}
				c, err := l.Accept()
				if err != nil {
					return err
				}
				setBuffers(c.(*stream.Conn), 0, read)
				_ = c.SetDeadline(p.Runtime().Now().Add(patient))
				n, err := io.Copy(io.Discard, struct{ io.Reader }{c})
				if err != nil || n != all {
					return fmt.Errorf("a buffer of %d at the writer and of %d at the reader: %d bytes of %d came, %w", write, read, n, all, err)
				}
				return c.Close()
			})
			f.Process(1, "b/0", func(p *sim.Process) error {
				c, err := stream.Dial(context.Background(), p.Weft(), "a/0:sink")
				if err != nil {
					return err
				}
				setBuffers(c, write, 0)
				_ = c.SetDeadline(p.Runtime().Now().Add(patient))
				for left := all; left > 0; {
					n, err := c.Write(make([]byte, min(left, 1+p.Rand().IntN(1+p.Rand().IntN(1<<20)))))
					if left -= n; err != nil {
						return err
					}
				}
				if err := c.CloseWrite(); err != nil {
					return err
				}
				_, _ = c.Read(make([]byte, 1)) // until the peer has all bytes
				sleep(p, time.Second)
				return nil
			})
			if err := f.Run(10 * time.Minute); err != nil {
				t.Error(err)
			}
		}
	}
}

// All bytes arrive over a bad network even if the buffers change.
func TestStreamsWhoseBuffersChangeComeWholeOverABadNetwork(t *testing.T) {
	for seed := range uint64(seeds(t, 16)) {
		cfg := sim.Config{Faults: sim.Faults{Loss: 0.02, Reorder: 0.05}}
		at := pace{longer: 4, prepare: func(p *sim.Process, c *stream.Conn) {
			p.Start("buffers", func(p *sim.Process) error {
				for range 1 + p.Rand().IntN(3) {
					setBuffers(c, bufferSizes[2+p.Rand().IntN(len(bufferSizes)-2)], bufferSizes[2+p.Rand().IntN(len(bufferSizes)-2)])
					sleep(p, time.Duration(p.Rand().IntN(int(20*time.Millisecond))))
				}
				return nil
			})
		}}
		whole, failed, why, err := streams(sim.Seed(seed), cfg, at, nil)
		if err != nil || failed > 0 {
			t.Fatalf("seed %d: %d directions came whole and %d failed: %v%s", seed, whole, failed, err, why)
		}
	}
}
