package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// stopped is a server a/0 and a client b/0 with a stream between them. The test disturbs the
// server.
type stopped struct {
	keepAlive, patience time.Duration
	bytes               int // in each direction; 0 means an idle stream
	happens             func(f *sim.Fabric, server *sim.Process)
	at                  time.Duration
}

// run runs the client. It returns when the stream ended, and the error. If the stream carries all
// its bytes, the error is nil.
func (s *stopped) run(seed uint64) (ended time.Duration, err error) {
	f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 2})
	sent := load.Written(s.bytes)
	server := f.Serve(0, "a/0", func(p *sim.Process) error {
		l, err := (&stream.ListenConfig{Process: p.Weft(), KeepAlive: s.keepAlive, Patience: s.patience}).Listen("x")
		if err != nil {
			return err
		}
		c, err := l.Accept()
		if err != nil {
			return err
		}
		p.Start("back", func(p *sim.Process) error { trickle(p, c, sent); return nil })
		_, _ = io.Copy(io.Discard, c)
		sleep(p, 3*time.Hour)
		return nil
	})
	f.After(s.at, func() { s.happens(f, server) })
	f.Process(1, "b/0", func(p *sim.Process) error {
		d := &stream.Dialer{Process: p.Weft(), KeepAlive: s.keepAlive, Patience: s.patience}
		c, dialled := d.Dial(context.Background(), "a/0:x")
		if dialled != nil {
			return dialled
		}
		p.Start("there", func(p *sim.Process) error { trickle(p, c, sent); return nil })
		var got []byte
		got, err = io.ReadAll(c)
		if err == nil && !bytes.Equal(got, sent) {
			err = fmt.Errorf("%d bytes arrived of %d, or others", len(got), len(sent))
		}
		ended = f.Elapsed()
		return nil
	})
	if failed := f.Run(3 * time.Hour); failed != nil {
		return 0, failed
	}
	return ended, err
}

// trickle writes b within two minutes, and ends the direction. Its Writes fill the buffers of a
// stopped peer.
func trickle(p *sim.Process, c io.Writer, b []byte) {
	const steps = 120
	for i := range steps {
		if _, err := c.Write(b[i*len(b)/steps : (i+1)*len(b)/steps]); err != nil {
			return
		}
		sleep(p, time.Second)
	}
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
}

// pause stops the server for the time d.
func pause(d time.Duration) func(*sim.Fabric, *sim.Process) {
	return func(f *sim.Fabric, p *sim.Process) { f.Pause(p, d) }
}

// As with TCP, a process that is stopped and then continues loses no stream: its NIC vouches for
// it.
func TestAStreamOutlivesAPauseOfItsPeer(t *testing.T) {
	for name, bytes := range map[string]int{"idle": 0, "quiet": 12_000, "busy": 24 << 20} {
		for _, d := range []time.Duration{45 * time.Second, 10 * time.Minute} {
			for seed := range uint64(seeds(t, 16)) {
				s := stopped{bytes: bytes, happens: pause(d), at: time.Second + time.Duration(seed)*2500*time.Millisecond}
				if ended, err := s.run(seed); err != nil {
					t.Errorf("%s, paused for %v, seed %d: it ended after %v with %v", name, d, seed, ended, err)
				}
			}
		}
	}
}

// A NIC does not vouch for a process that has ended. A process without a NIC has no voucher. A
// NIC that lies and always vouches costs the stream its patience, and no more.
func TestASilentPeerEndsAStreamUnlessItsNICVouchesForIt(t *testing.T) {
	const at, forever = 20 * time.Second, 2 * time.Hour
	never := func(f *sim.Fabric, p *sim.Process) { f.Pause(p, forever) }
	for name, c := range map[string]struct {
		stopped
		wants         error
		least, latest time.Duration // after at
	}{
		"killed": {stopped{happens: func(f *sim.Fabric, p *sim.Process) { f.Kill(p) }}, syscall.ECONNRESET, 0, 4 * time.Second},
		"killed while it is stopped": {stopped{happens: func(f *sim.Fabric, p *sim.Process) {
			never(f, p)
			f.After(time.Minute, func() { f.Kill(p) })
		}}, syscall.ECONNRESET, time.Minute, time.Minute + 4*time.Second},
		"its NIC vanishes": {stopped{happens: func(f *sim.Fabric, _ *sim.Process) { f.StopNIC(0) }},
			syscall.ETIMEDOUT, 0, 3*stream.DefaultKeepAlive + 3*time.Second}, // with bytes in flight: ECONNRESET as soon as their send fails
		"its NIC vanishes while it is stopped": {stopped{happens: func(f *sim.Fabric, p *sim.Process) {
			never(f, p)
			f.After(time.Minute, func() { f.Partition(0) })
		}}, syscall.ETIMEDOUT, time.Minute, time.Minute + 3*stream.DefaultKeepAlive},
		"its NIC vouches forever": {stopped{patience: 5 * time.Minute, happens: never},
			syscall.ETIMEDOUT, 4 * time.Minute, 5*time.Minute + 2*stream.DefaultKeepAlive},
		"the stream has no patience": {stopped{patience: -1, happens: never}, syscall.ETIMEDOUT, 0, 2*stream.DefaultKeepAlive + 2*time.Second},
	} {
		for _, bytes := range []int{0, 24 << 20} {
			c.stopped.at, c.stopped.bytes = at, bytes
			ended, err := c.run(1)
			if took := ended - at; !errors.Is(err, c.wants) && (bytes == 0 || !errors.Is(err, syscall.ECONNRESET)) || took < c.least || took > c.latest {
				t.Errorf("%s, %d bytes: %v after %v; expected %v within %v to %v", name, bytes, err, took, c.wants, c.least, c.latest)
			}
		}
	}
}

// A process that was stopped received nothing meanwhile. It must not take this for silence of its
// peers, because their answers are waiting.
func TestAProcessThatWasStoppedTakesItsOwnSilenceForNoOtherOnes(t *testing.T) {
	for seed := range uint64(seeds(t, 40)) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 2})
		a := f.Serve(0, "a/0", acceptAll)
		b := f.Process(1, "b/0", func(p *sim.Process) error {
			c, err := (&stream.Dialer{Process: p.Weft(), Patience: -1}).Dial(context.Background(), "a/0:x")
			if err != nil {
				return err
			}
			sleep(p, 2*time.Minute)
			_, err = c.Write([]byte("x"))
			return err
		})
		f.After(14*time.Second, func() { f.Pause(a, 6*time.Second) })  // b's question at 15 s waits
		f.After(18*time.Second, func() { f.Pause(b, 45*time.Second) }) // its answer arrives meanwhile
		if err := f.Run(time.Hour); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// While the peer is stopped, Write takes no more from its caller than the buffers hold.
func TestAWriteToAStoppedPeerWaitsWithBoundedMemory(t *testing.T) {
	const room = 1<<20 + 1<<20 + 64<<10 // the peer's buffer, the bytes in flight and the joined ones
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
	a := f.Serve(0, "a/0", acceptAll)
	f.Process(1, "b/0", func(p *sim.Process) error {
		c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
		if err != nil {
			return err
		}
		f.Pause(a, time.Hour)
		_ = c.SetWriteDeadline(p.Runtime().Now().Add(10 * time.Minute))
		n, err := c.Write(make([]byte, 16<<20))
		if n > room || !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("a Write took %d bytes and ended with %w; expected at most %d and its deadline", n, err, room)
		}
		return nil
	})
	if err := f.Run(2 * time.Hour); err != nil {
		t.Error(err)
	}
}
