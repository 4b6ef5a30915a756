package stream

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// drain and Close may both wait for the first message in flight. Together they end this message
// and not the next one.
func TestAMessageThatTwoWaitForEndsOnce(t *testing.T) {
	for seed := range uint64(20) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed + 1), NICs: 2})
		f.Serve(0, "a/0", func(p *sim.Process) error {
			l, err := Listen(p.Weft(), "x")
			if err != nil {
				return err
			}
			for {
				if _, err := l.Accept(); err != nil {
					return err
				}
			}
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			c, err := Dial(context.Background(), p.Weft(), "a/0:x")
			if err != nil {
				return err
			}
			c.bound = flyingBytes
			p.Runtime().Sleep(context.Background(), time.Second)
			if n, err := c.begin(make([]byte, 3000), nil); n == 0 || err != nil {
				return err
			}
			if n, err := c.begin(make([]byte, dataBytes), nil); n == 0 || err != nil {
				return err
			}
			landed := 0
			for range 2 {
				p.Start("lands", func(*sim.Process) error {
					err := c.land(context.Background())
					landed++
					p.Runtime().Wake()
					return err
				})
			}
			if err := p.Runtime().WaitUntil(context.Background(), func() bool { return landed == 2 }); err != nil {
				return err
			}
			if c.ops.ended == 2 && !c.ops.at(1).op.Ended() {
				return errors.New("the second message was taken for one that has ended")
			}
			return nil
		})
		if err := f.Run(time.Minute); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// A message from the stream's own memory may have left while no Write has checked it. It must not
// stop the NIC from copying the next messages.
func TestTheNICCopiesAgainWhenALongWriteHasLeft(t *testing.T) {
	server, client := linked(t, weft.Config{Link: weft.UDP("127.0.0.1:0")})
	c, s := dialled(t, server, client, "again")
	data := make([]byte, 64<<10)
	write := func(n int) {
		t.Helper()
		if _, err := c.Write(data[:n]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, data[:n]); err != nil {
			t.Fatal(err)
		}
	}
	write(len(data))
	c.mu.Lock()
	first := c.ops
	c.mu.Unlock()
	if first != nil { // otherwise a silent second has passed, and the message has left
		if _, err := first.at(0).op.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var count messageCount
	before := count.of(c)
	const writes = 20
	for range writes {
		time.Sleep(time.Millisecond) // so the Writes are no row
		write(4 << 10)
		count.of(c)
	}
	// Another caller may hold the engine at that moment.
	if n := count.of(c) - before; n > writes/2 {
		t.Errorf("%d of %d Writes were copied by the stream; expected that the NIC copies them", n, writes)
	}
}
