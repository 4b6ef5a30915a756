package weft

import (
	"context"
	"encoding/binary"
	"errors"
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
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/wire"
)

var long = flag.Bool("long", false, "run the long forms of the tests")

// tap keeps the frames that a driver sends, as an observer on the network would see them.
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

// Caps returns only the capabilities for waiting, so every frame leaves by Commit, one by one.
func (t *tap) Caps() link.Caps {
	c := t.Driver.Caps()
	return link.Caps{Fd: c.Fd, Sleep: c.Sleep, Awake: c.Awake}
}

// sample returns a copy of one of the newest frames, or nil if there is none yet.
func (t *tap) sample(r *rand.Rand) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.frames) == 0 {
		return nil
	}
	return append([]byte(nil), t.frames[r.IntN(len(t.frames))]...)
}

// battlefield is the place of an attack on a NIC. The attack comes over loopback, or reaches host
// 0 from the peer's host 1 and from host 2.
type battlefield struct {
	listen string // address of a NIC; on a host, the prefix of its address
	bed    *testbed.Testbed
}

// do runs f on a host.
func (w *battlefield) do(t *testing.T, host int, f func() error) {
	t.Helper()
	var err error
	if w.bed == nil {
		err = f()
	} else {
		err = w.bed.Host(host).Do(f)
	}
	if errors.Is(err, xdp.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a NIC on the link that wrap makes of the NIC's link.
func (w *battlefield) open(t *testing.T, host int, wrap func(link.Driver) link.Driver) (n *NIC) {
	t.Helper()
	c := Config{Link: Link{text: w.listen}}
	if w.bed != nil {
		c.Link = Link{text: fmt.Sprintf("%s%v:7700", w.listen, w.bed.Host(host).Addr())}
	}
	w.do(t, host, func() error {
		d, err := c.driver()
		if err == nil {
			n, err = openNIC(c, wrap(d))
		}
		return err
	})
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// attack is one kind of frame that no NIC should send.
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
		// A later counter.
		binary.LittleEndian.PutUint64(live[8:], binary.LittleEndian.Uint64(live[8:])+uint64(r.IntN(1<<20)))
		copy(live[wire.OuterLen:n], noise(r, n-wire.OuterLen))
		wire.Seal(live, n, r.Uint64())
		return live
	}},
	{"forged, the peer's next segment but for the cookie", func(r *rand.Rand, live []byte) []byte {
		n, ahead := len(live)-wire.TagLen, 1+r.Uint32N(64)
		binary.LittleEndian.PutUint64(live[8:], binary.LittleEndian.Uint64(live[8:])+uint64(ahead))
		if body := live[wire.OuterLen:n]; len(body) >= wire.InnerLen {
			binary.LittleEndian.PutUint32(body[4:], binary.LittleEndian.Uint32(body[4:])+ahead)
		}
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

// Over shared memory and over a switch, only NICs can send.
func TestAFloodOfBadFramesIsCountedAndStopsNobody(t *testing.T) {
	for _, l := range []struct {
		name, listen string
		hosts        int
	}{{"udp", "", 0}, {"udp between hosts", "", 3}, {"xdp", "xdp:", 3}} {
		t.Run(l.name, func(t *testing.T) {
			w := &battlefield{listen: l.listen}
			if l.hosts > 0 {
				bed, err := testbed.New(testbed.Config{Hosts: l.hosts})
				if errors.Is(err, testbed.ErrUnavailable) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { bed.Close() })
				w.bed = bed
			}
			w.hold(t)
		})
	}
}

// hold makes two processes exchange messages while the NIC of one of them is under attack.
func (w *battlefield) hold(t *testing.T) {
	d, least := time.Second/2, 1000 // in each direction
	if *long {
		d, least = 5*time.Second, 10_000
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var tapB *tap
	// With all capabilities of its link.
	na := w.open(t, 0, func(d link.Driver) link.Driver { return d })
	nb := w.open(t, 1, func(d link.Driver) link.Driver { tapB = &tap{Driver: d}; return tapB })
	if err := nb.AddNode(Node{ID: na.ID(), Addr: na.Addr()}); err != nil {
		t.Fatal(err)
	}
	a, errA := na.Attach(ctx, Name{App: "a"})
	b, errB := nb.Attach(ctx, Name{App: "b"})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	for _, p := range [][2]*Process{{a, b}, {b, a}} {
		if _, err := p[0].WaitName(ctx, p[1].Name()); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere, spoofed, end := w.attack(t, na, nb, tapB)
	for _, way := range [][2]*Process{{a, b}, {b, a}} {
		messages, gap := exchangeFor(t, ctx, way[0], way[1], d, least)
		t.Logf("%d messages from %v, longest gap %v", messages, way[0].Name(), gap)
	}
	end()
	t.Logf("%d frames came from elsewhere and %d from the peer's address", elsewhere.Load(), spoofed.Load())
	c := na.Counters()
	// Frames from another address may come from a peer that has moved. So the links examine them
	// in the same way as frames from the peer's address.
	for _, cause := range []string{"drop_kind", "drop_tag", "drop_replay"} {
		if c[cause] == 0 {
			t.Errorf("no frame was counted as %s: %v", cause, dropped(c))
		}
	}
}

// attack floods na until the caller calls end. The frames come from another address. If raw
// sockets are permitted, frames also come from the address of na's peer nb.
func (w *battlefield) attack(t *testing.T, na, nb *NIC, tapB *tap) (elsewhere, spoofed *atomic.Uint64, end func()) {
	t.Helper()
	elsewhere, spoofed = new(atomic.Uint64), new(atomic.Uint64)
	target := netip.MustParseAddrPort(na.Addr())
	var c *net.UDPConn
	w.do(t, 2, func() (err error) {
		c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
		return err
	})
	var flood sync.WaitGroup
	stop := make(chan struct{})
	end = sync.OnceFunc(func() { close(stop); flood.Wait() })
	t.Cleanup(end)
	flood.Go(func() {
		defer c.Close()
		floodWith(tapB, elsewhere, stop, func(f []byte) error { _, err := c.Write(f); return err })
	})
	w.do(t, 1, func() error {
		spoof, done, err := spoofer(netip.MustParseAddrPort(nb.Addr()), target)
		if err != nil {
			t.Logf("no frames from the peer's own address: %v", err)
			return nil
		}
		flood.Go(func() {
			defer done()
			floodWith(tapB, spoofed, stop, spoof)
		})
		return nil
	})
	return elsewhere, spoofed, end
}

// floodWith sends bad frames as fast as it can until stop is closed.
func floodWith(tp *tap, sent *atomic.Uint64, stop chan struct{}, send func([]byte) error) {
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
			if send(f) == nil { // a full socket buffer is expected
				sent.Add(1)
			}
		}
	}
}

// exchangeFor sends messages from a to b until d has passed and at least least messages have
// arrived. It returns the number of messages that arrived and the longest gap between two
// arrivals.
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
