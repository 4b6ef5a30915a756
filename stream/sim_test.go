package stream_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// unhurried is the longest time of a simulation with the default keepalive times. longSilence is
// longer than these times.
const (
	unhurried   = 2 * time.Minute
	longSilence = 3 * stream.DefaultKeepAlive
)

// patient is the longest time for which an end of a simulated stream waits: the longest silence
// of the network plus the keepalive times.
const patient = 30 * time.Second

// sleep sleeps for d of virtual time.
func sleep(p *sim.Process, d time.Duration) { p.Runtime().Sleep(context.Background(), d) }

// life is the history of one direction of a stream.
type life struct {
	patient  time.Duration
	between  time.Duration // longest pause of the writer between two Writes
	wrote    []byte        // bytes that Write reported as taken
	ended    bool          // CloseWrite succeeded
	read     []byte
	whole    bool // the reader saw io.EOF
	writeErr error
	readErr  error
}

// fill writes n bytes of stream k in pieces, and ends the direction. The pieces of every third
// stream are short. If a Write misses its deadline, fill never writes the bytes that the Write
// did not take: other bytes take their place.
func (l *life) fill(p *sim.Process, c *stream.Conn, k, n int) {
	most := 200_000
	if k%3 == 2 {
		most = 5_000
	}
	for len(l.wrote) < n {
		b := make([]byte, min(1+p.Rand().IntN(1+p.Rand().IntN(most)), n-len(l.wrote)))
		for i := range b {
			b[i] = byte(p.Rand().Uint32())
		}
		if p.Rand().IntN(4) == 0 && most > 5_000 || p.Rand().IntN(100) == 0 {
			sleep(p, time.Duration(p.Rand().IntN(int(l.between))))
		}
		if p.Rand().IntN(8) == 0 { // a deadline that may pass during the Write
			_ = c.SetWriteDeadline(p.Runtime().Now().Add(time.Duration(p.Rand().IntN(int(time.Millisecond)))))
		}
		m, err := c.Write(b)
		_ = c.SetWriteDeadline(p.Runtime().Now().Add(l.patient))
		if l.wrote = append(l.wrote, b[:m]...); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			l.writeErr = err
			return
		}
	}
	sleep(p, time.Duration(p.Rand().IntN(int(8*l.between))))
	l.writeErr = c.CloseWrite()
	l.ended = l.writeErr == nil
}

// drain reads until the end.
func (l *life) drain(p *sim.Process, c *stream.Conn) {
	b := make([]byte, 1+p.Rand().IntN(100_000))
	for {
		_ = c.SetReadDeadline(p.Runtime().Now().Add(l.patient))
		n, err := c.Read(b)
		if l.read = append(l.read, b[:n]...); err != nil {
			l.readErr, l.whole = err, err == io.EOF
			return
		}
		if p.Rand().IntN(16) == 0 {
			sleep(p, time.Duration(p.Rand().IntN(int(l.between))))
		}
	}
}

// judge returns an error if the direction of an ended stream is wrong.
func (l *life) judge(n int) error {
	switch {
	case !bytes.Equal(both(l.read, l.wrote), both(l.wrote, l.read)):
		return fmt.Errorf("of %d bytes that were read and %d that were written the first that differs is %d", len(l.read), len(l.wrote), differ(l.read, l.wrote))
	case l.whole && (len(l.read) != n || !l.ended && len(l.wrote) < n):
		return fmt.Errorf("the reader was told that all has come, at %d of %d bytes, of which %d were written", len(l.read), n, len(l.wrote))
	case errors.Is(l.readErr, os.ErrDeadlineExceeded) || errors.Is(l.writeErr, os.ErrDeadlineExceeded):
		return fmt.Errorf("an end waits for good: %w", errors.Join(l.readErr, l.writeErr))
	case len(l.read) > n:
		return fmt.Errorf("%d of %d bytes came", len(l.read), n)
	}
	return nil
}

// both returns the first bytes of a, at most as many as b has.
func both(a, b []byte) []byte { return a[:min(len(a), len(b))] }

// differ returns the index of the first byte in which a and b differ.
func differ(a, b []byte) (i int) {
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return i
}

// pace says how fast the streams of a simulation are, and how long they wait. The zero pace is a
// fast one.
type pace struct {
	keepAlive time.Duration
	patient   time.Duration
	between   time.Duration                        // longest pause between Writes
	longer    int                                  // factor by which the Writes are longer
	prepare   func(p *sim.Process, c *stream.Conn) // runs with each end of a stream
}

// streams runs some streams from one host to another, with bytes in both directions. It returns
// how many streams carried all bytes and how many failed.
func streams(seed uint64, cfg sim.Config, at pace, disturb func(f *sim.Fabric)) (whole, failed int, why string, err error) {
	at.keepAlive, at.patient, at.between = cmp.Or(at.keepAlive, time.Second), cmp.Or(at.patient, patient), cmp.Or(at.between, 10*time.Millisecond)
	if at.prepare == nil {
		at.prepare = func(*sim.Process, *stream.Conn) {}
	}
	cfg.Seed, cfg.NICs = seed, 2
	f := sim.New(cfg)
	const many = 6
	var there, back [many]life
	for k := range many {
		there[k].patient, back[k].patient, there[k].between, back[k].between = at.patient, at.patient, at.between, at.between
	}
	length := func(k int) int { return 1 + k*k*20_000*max(at.longer, 1) }
	f.Serve(0, "a/0", func(p *sim.Process) error {
		l, err := (&stream.ListenConfig{Process: p.Weft(), KeepAlive: at.keepAlive}).Listen("echo")
		if err != nil {
			return err
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			p.Start("accepted", func(p *sim.Process) error {
				_ = c.SetReadDeadline(p.Runtime().Now().Add(at.patient))
				var first [1]byte
				if _, err := io.ReadFull(c, first[:]); err != nil {
					return c.Close()
				}
				k := int(first[0])
				at.prepare(p, c.(*stream.Conn))
				p.Start("back", func(p *sim.Process) error { back[k].fill(p, c.(*stream.Conn), k+100, length(k)); return nil })
				there[k].drain(p, c.(*stream.Conn))
				return nil // the stream is closed with its process
			})
		}
	})
	f.Process(1, "b/0", func(p *sim.Process) error {
		left := many
		for k := range many {
			p.Start("dialled", func(p *sim.Process) error {
				defer func() { left--; p.Runtime().Wake() }()
				d := &stream.Dialer{Process: p.Weft(), Timeout: at.patient, KeepAlive: at.keepAlive}
				c, err := d.Dial(context.Background(), "a/0:echo")
				if err != nil {
					there[k].writeErr, back[k].readErr = err, err
					return nil
				}
				if _, err := c.Write([]byte{byte(k)}); err != nil {
					there[k].writeErr, back[k].readErr = err, err
					return nil
				}
				at.prepare(p, c)
				done := false
				p.Start("there", func(p *sim.Process) error {
					there[k].fill(p, c, k, length(k))
					done = true
					p.Runtime().Wake()
					return nil
				})
				back[k].drain(p, c)
				if err := p.Runtime().WaitUntil(context.Background(), func() bool { return done }); err != nil {
					return err
				}
				return nil
			})
		}
		err := p.Runtime().WaitUntil(context.Background(), func() bool { return left == 0 })
		sleep(p, at.patient+10*time.Second) // until the other end has noticed, too
		return err
	})
	if disturb != nil {
		disturb(f)
	}
	err = f.Run(time.Hour)
	for k := range many {
		for _, l := range []*life{&there[k], &back[k]} {
			if l.whole {
				whole++
			} else {
				failed++
				why = fmt.Sprintf("%s\nstream %d: wrote %d (%v), read %d (%v) of %d", why, k, len(l.wrote), l.writeErr, len(l.read), l.readErr, length(k))
			}
			if wrong := l.judge(length(k)); wrong != nil {
				err = errors.Join(err, fmt.Errorf("stream %d: %w", k, wrong))
			}
		}
	}
	return whole, failed, why, err
}

// The network is bad, but never for longer than NICs wait for each other. All bytes of each
// stream arrive.
func TestStreamsComeWholeOverABadNetwork(t *testing.T) {
	for seed := range uint64(seeds(t, 40)) {
		cfg := sim.Config{Link: sim.Link{Reliable: seed%4 == 0}}
		if !cfg.Link.Reliable {
			cfg.Faults = sim.Faults{Loss: 0.03, LossBurst: 3, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.01, Truncate: 0.01, Delay: 0.01, DelayMax: 5 * time.Millisecond}
		}
		cfg = simulated.Hooked(cfg, simulated.Hooks{Pool: seed%2 == 1})
		whole, failed, why, err := streams(sim.Seed(seed), cfg, pace{}, nil)
		if err != nil || failed > 0 {
			t.Fatalf("seed %d: %d directions came whole and %d failed: %v%s", seed, whole, failed, err, why)
		}
	}
}

// A process without streams refuses dials over a bad network, too: already the first dial, and as
// fast as the others.
func TestAProcessWithoutStreamsRefusesOverABadNetwork(t *testing.T) {
	for seed := range uint64(seeds(t, 40)) {
		cfg := sim.Config{Seed: sim.Seed(seed), NICs: 2, Faults: sim.Faults{Loss: 0.03, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.01, Delay: 0.01, DelayMax: 5 * time.Millisecond}}
		f := sim.New(cfg)
		f.Serve(0, "a/0", func(p *sim.Process) error {
			return p.Runtime().WaitUntil(context.Background(), func() bool { return false })
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			for range 20 {
				d := &stream.Dialer{Process: p.Weft(), Timeout: patient}
				if _, err := d.Dial(context.Background(), "a/0:nothing"); !errors.Is(err, syscall.ECONNREFUSED) {
					return fmt.Errorf("a dial: %w", err)
				}
			}
			return nil
		})
		if err := f.Run(time.Minute); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The NICs lose each other for longer than they wait. A stream must not skip lost bytes: either
// all bytes arrive, or the stream fails at both ends.
func TestStreamsThatLoseBytesFailAtBothEnds(t *testing.T) {
	sum, lost := 0, 0
	for seed := range uint64(seeds(t, 40)) {
		cfg := sim.Config{Faults: sim.Faults{Loss: 0.01}}
		whole, failed, why, err := streams(sim.Seed(seed), cfg, pace{}, func(f *sim.Fabric) {
			at := time.Duration(seed%20) * 3 * time.Millisecond
			f.After(at, func() {
				heal := f.Partition(0)
				f.After(3*time.Second, heal)
			})
		})
		if err != nil {
			t.Fatalf("seed %d: %d directions came whole and %d failed: %v%s", seed, whole, failed, err, why)
		}
		sum += whole
		lost += failed
	}
	if sum == 0 || lost == 0 {
		t.Errorf("%d directions came whole and %d failed; expected some of each", sum, lost)
	}
}

// With the default times, sessions of the NICs end while streams are silent. No stream may wait
// for ever for room, or for an end, that was lost with a session.
func TestStreamsOutliveSessionsOrFailWithThem(t *testing.T) {
	sum, lost := 0, 0
	for seed := range uint64(seeds(t, 48)) {
		long := silence
		if seed%4 == 3 {
			long = longSilence
		}
		whole, failed, why, err := streams(sim.Seed(seed), sim.Config{}, pace{keepAlive: stream.DefaultKeepAlive, patient: unhurried, between: 2 * time.Second, longer: 6}, func(f *sim.Fabric) {
			for k := range 3 {
				f.After(time.Duration(seed)*150*time.Millisecond+time.Duration(k)*(longSilence+7*time.Second), func() {
					heal := f.Partition(0)
					f.After(long, heal)
				})
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %d directions came whole and %d failed: %v%s", seed, whole, failed, err, why)
		}
		sum += whole
		lost += failed
	}
	if sum == 0 || lost == 0 {
		t.Errorf("%d directions came whole and %d failed; expected some of each", sum, lost)
	}
}

func seeds(t *testing.T, n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

var _ net.Conn = (*stream.Conn)(nil)

// acceptAll accepts all streams to its service x.
func acceptAll(p *sim.Process) error {
	l, err := stream.Listen(p.Weft(), "x")
	if err != nil {
		return err
	}
	for {
		if _, err := l.Accept(); err != nil {
			return err
		}
	}
}

// The numbers of a process's streams start at a random value that the seed determines.
func TestTheNumbersOfStreamsBeginAtAPlaceThatTheSeedTells(t *testing.T) {
	first := func(seed uint64) (end string) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 2})
		f.Serve(0, "a/0", acceptAll)
		f.Process(1, "b/0", func(p *sim.Process) error {
			c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
			if err == nil {
				end = c.LocalAddr().String()
			}
			return err
		})
		if err := f.Run(time.Minute); err != nil {
			t.Fatal(err)
		}
		return end
	}
	if a, b := first(1), first(1); a != b {
		t.Errorf("one seed gave the ends %s and %s", a, b)
	}
	if a, b := first(1), first(2); a == b {
		t.Errorf("two seeds gave the end %s", a)
	}
}
