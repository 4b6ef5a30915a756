package weft

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/wire"
)

var long = flag.Bool("long", false, "run the long forms of the tests")

// tap keeps the frames that a driver sends, as someone on the network would see them.
type tap struct {
	link.Driver
	open   []byte
	mu     sync.Mutex
	frames [][]byte
	next   int
}

func (t *tap) Reserve(to link.Addr) []byte {
	t.open = t.Driver.Reserve(to)
	return t.open
}

func (t *tap) Commit(n int) {
	if n > 0 && n < 2000 {
		f := append([]byte(nil), t.open[:n]...)
		t.mu.Lock()
		if len(t.frames) < 256 {
			t.frames = append(t.frames, f)
		} else {
			t.frames[t.next%256] = f
		}
		t.next++
		t.mu.Unlock()
	}
	t.Driver.Commit(n)
}

func (t *tap) Fd() int { return t.Driver.(link.Pollable).Fd() }

// sample returns a copy of one of the newest frames, nil if there is none yet.
func (t *tap) sample(r *rand.Rand) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.frames) == 0 {
		return nil
	}
	return append([]byte(nil), t.frames[r.IntN(len(t.frames))]...)
}

// openTapped opens a NIC on loopback UDP through a tap.
func openTapped(t *testing.T, seed uint64) (*NIC, *tap) {
	t.Helper()
	addr, err := udp.ParseAddr("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d, err := udp.Listen(udp.Config{Addr: addr, MTU: 1472})
	if err != nil {
		t.Fatal(err)
	}
	tp := &tap{Driver: d}
	n, err := openNIC(Config{Seed: seed}, tp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n, tp
}

// attack is one kind of frame that nobody should send.
type attack struct {
	name string
	make func(r *rand.Rand, live []byte) []byte // live is a frame of the session under attack
}

var attacks = []attack{
	{"garbage", func(r *rand.Rand, _ []byte) []byte { return noise(r, r.IntN(1472)) }},
	{"garbage behind a good magic", func(r *rand.Rand, _ []byte) []byte {
		b := noise(r, wire.OuterLen+r.IntN(1400))
		b[0], b[2], b[3] = wire.Version<<4|byte(r.IntN(16)), 'W', 'F'
		return b
	}},
	{"truncated", func(r *rand.Rand, live []byte) []byte { return live[:r.IntN(len(live))] }},
	{"replayed", func(_ *rand.Rand, live []byte) []byte { return live }},
	{"damaged", func(r *rand.Rand, live []byte) []byte {
		live[r.IntN(len(live))] ^= 1 << r.IntN(8)
		return live
	}},
	{"forged, with the live index and a good CRC", func(r *rand.Rand, live []byte) []byte {
		n := len(live) - wire.TagLen
		binary.LittleEndian.PutUint64(live[8:], binary.LittleEndian.Uint64(live[8:])+uint64(r.IntN(1<<20))) // a counter to come
		copy(live[wire.OuterLen:n], noise(r, n-wire.OuterLen))
		wire.Seal(live, n, r.Uint64())
		return live
	}},
	{"forged Hello of a new life", func(r *rand.Rand, live []byte) []byte {
		b := make([]byte, 0, 256)
		b = append(b, make([]byte, wire.OuterLen+wire.HelloLen+wire.TagLen)...)
		wire.Outer{Kind: wire.KindHello, Flags: wire.FlagTagged, Counter: r.Uint64() | 1}.Put(b)
		h := wire.Hello{MinVersion: 1, MaxVersion: 1, Index: r.Uint32() | 1, NIC: 1 + r.Uint64N(3), Incarnation: 1 << 62,
			Cookie: r.Uint64(), MTUCommand: 1472, MTUData: 1472, WinCommand: 64, WinData: 64, ReceiveCapacity: 1 << 16}
		h.Put(b[wire.OuterLen:])
		wire.Seal(b, wire.OuterLen+wire.HelloLen, 0)
		return b
	}},
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestAFloodOfBadFramesIsCountedAndStopsNobody(t *testing.T) {
	d, least := time.Second, 1000
	if *long {
		d, least = 10*time.Second, 10_000
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	na, _ := openTapped(t, 1)
	nb, tapB := openTapped(t, 2)
	if err := nb.AddNode(Node{ID: na.ID(), Addr: na.Addr()}); err != nil {
		t.Fatal(err)
	}
	a, errA := na.Attach(ctx, Name{App: "a"})
	b, errB := nb.Attach(ctx, Name{App: "b"})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if _, err := b.WaitName(ctx, a.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.WaitName(ctx, b.Name()); err != nil {
		t.Fatal(err)
	}

	var flood sync.WaitGroup
	stop := make(chan struct{})
	var sent [2]atomic.Uint64
	target := netip.MustParseAddrPort(na.Addr())
	flood.Add(1)
	go func() { // from another address
		defer flood.Done()
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		floodWith(t, tapB, &sent[0], stop, func(f []byte) error { _, err := c.Write(f); return err })
	}()
	if spoof, done, err := spoofer(netip.MustParseAddrPort(nb.Addr()), target); err != nil {
		t.Logf("no frames from the peer's own address: %v", err)
	} else {
		flood.Add(1)
		go func() { // from the very address of the peer
			defer flood.Done()
			defer done()
			floodWith(t, tapB, &sent[1], stop, spoof)
		}()
	}
	messages, gap := exchangeFor(t, ctx, a, b, d, least)
	close(stop)
	flood.Wait()
	t.Logf("%d messages, longest gap %v, while %d frames came from elsewhere and %d from the peer's address",
		messages, gap, sent[0].Load(), sent[1].Load())
	if messages < least {
		t.Errorf("%d messages; expected at least %d", messages, least)
	}
	c := na.Counters()
	causes := []string{"drop_kind", "drop_address"}
	if sent[1].Load() > 0 {
		causes = append(causes, "drop_tag", "drop_replay")
	}
	for _, cause := range causes {
		if c[cause] == 0 {
			t.Errorf("no frame was counted as %s: %v", cause, dropped(c))
		}
	}
}

// floodWith sends bad frames as fast as it can until stop.
func floodWith(t *testing.T, tp *tap, sent *atomic.Uint64, stop chan struct{}, send func([]byte) error) {
	r := rand.New(rand.NewPCG(1, uint64(sent.Load())))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		live := tp.sample(r)
		if len(live) < wire.OuterLen+wire.TagLen {
			continue
		}
		if f := attacks[i%len(attacks)].make(r, live); len(f) > 0 {
			if send(f) == nil { // a full socket buffer is no news
				sent.Add(1)
			}
		}
	}
}

// exchangeFor sends messages from a to b until d is over and least have arrived, and returns how many did and the
// longest time without any.
func exchangeFor(t *testing.T, ctx context.Context, a, b *Process, d time.Duration, least int) (messages int, gap time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	var over atomic.Bool
	done := make(chan error, 1)
	go func() {
		msg := make([]byte, 64)
		for i := 0; !over.Load(); i++ {
			binary.LittleEndian.PutUint64(msg, uint64(i))
			if err := a.Send(ctx, b.Name(), 1, msg); err != nil {
				done <- fmt.Errorf("message %d: %w", i, err)
				return
			}
		}
		done <- a.Send(ctx, b.Name(), 2)
	}()
	buf := make([]byte, 64)
	for last := time.Now(); ; {
		m, err := b.Recv(ctx, a.Name(), AnyTag, buf)
		if err != nil {
			t.Fatal(err)
		}
		if m.Tag == 2 {
			break
		}
		if got := binary.LittleEndian.Uint64(buf); got != uint64(messages) {
			t.Fatalf("message %d came instead of %d", got, messages)
		}
		messages++
		now := time.Now()
		gap = max(gap, now.Sub(last))
		last = now
		if messages >= least && now.After(end) {
			over.Store(true)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return messages, gap
}

func dropped(c map[string]uint64) string {
	s := ""
	for k, v := range c {
		if v > 0 && len(k) > 5 && k[:5] == "drop_" {
			s += fmt.Sprintf("%s=%d ", k, v)
		}
	}
	return s
}
