package udp_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/udp"
)

var (
	loopback4 = netip.MustParseAddrPort("127.0.0.1:0")
	loopback6 = netip.MustParseAddrPort("[::1]:0")
)

// listen opens a driver, or skips if the host has no such address family.
func listen(tb testing.TB, cfg udp.Config) *udp.Driver {
	tb.Helper()
	d, err := udp.Listen(cfg)
	if err != nil && cfg.Addr.Addr().Is6() && !hasIPv6() {
		tb.Skip("this host has no IPv6:", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

func hasIPv6() bool {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func TestDriver(t *testing.T) {
	for _, cfg := range []udp.Config{
		{Addr: loopback4},
		{Addr: loopback6},
		{Addr: loopback4, MTU: 1472},
		{Addr: loopback4, MTU: udp.Largest},
		{Addr: loopback6, MTU: 65488},
		{Addr: loopback4, NoOffload: true},
		{Addr: loopback6, MTU: 1452, NoOffload: true},
	} {
		t.Run(fmt.Sprintf("%v MTU %d no offload %v", cfg.Addr.Addr(), cfg.MTU, cfg.NoOffload), func(t *testing.T) {
			linktest.Run(t, linktest.Suite{
				Make: func(tb testing.TB) (a, b link.Driver) {
					return listen(tb, cfg), listen(tb, cfg)
				},
				// tcpmux; nothing listens there over UDP.
				Nobody: netip.AddrPortFrom(cfg.Addr.Addr(), 1),
			})
		})
	}
}

func TestDriverWithFaultsAround(t *testing.T) {
	linktest.Run(t, linktest.Suite{Make: func(tb testing.TB) (a, b link.Driver) {
		return fault.Wrap(listen(tb, udp.Config{Addr: loopback4}), fault.Config{}),
			fault.Wrap(listen(tb, udp.Config{Addr: loopback4}), fault.Config{})
	}})
}

func TestASocketOfBothFamiliesTalksIPv4AndIPv6(t *testing.T) {
	if !hasIPv6() {
		t.Skip("this host has no IPv6")
	}
	both := listen(t, udp.Config{Addr: netip.MustParseAddrPort("[::]:0"), MTU: 1400})
	port := both.Addr().Port()
	for _, peer := range []netip.AddrPort{loopback4, loopback6} {
		d := listen(t, udp.Config{Addr: peer, MTU: 1400})
		var there, back linktest.Inbox
		linktest.Send(t, d, netip.AddrPortFrom(peer.Addr(), port), []byte("there"))
		linktest.Collect(t, both, &there, 1)
		if there.From[0] != d.Addr() {
			t.Errorf("a frame from %v is said to be from %v", d.Addr(), there.From[0])
		}
		linktest.Send(t, both, d.Addr(), []byte("and back"))
		linktest.Collect(t, d, &back, 1)
		if want := netip.AddrPortFrom(peer.Addr(), port); back.From[0] != want {
			t.Errorf("the answer is from %v; want %v", back.From[0], want)
		}
	}
}

func TestALinkLocalAddressKeepsItsZone(t *testing.T) {
	addr, ok := linkLocal()
	if !ok {
		t.Skip("no interface has an IPv6 link-local address")
	}
	a := listen(t, udp.Config{Addr: netip.AddrPortFrom(addr, 0)})
	b := listen(t, udp.Config{Addr: netip.AddrPortFrom(addr, 0)})
	if a.Addr().Addr() != addr {
		t.Fatalf("listening on %v; want %v", a.Addr().Addr(), addr)
	}
	var in linktest.Inbox
	linktest.Send(t, a, b.Addr(), []byte("x"))
	linktest.Collect(t, b, &in, 1)
	if in.From[0] != a.Addr() {
		t.Errorf("a frame from %v is said to be from %v", a.Addr(), in.From[0])
	}
}

func linkLocal() (netip.Addr, bool) {
	interfaces, _ := net.Interfaces()
	for _, in := range interfaces {
		addrs, _ := in.Addrs()
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok && p.IP.IsLinkLocalUnicast() && p.IP.To4() == nil && in.Flags&net.FlagUp != 0 {
				ip, _ := netip.AddrFromSlice(p.IP)
				return ip.WithZone(in.Name), true
			}
		}
	}
	return netip.Addr{}, false
}

func TestAFrameLargerThanTheMTUIsDroppedAndCounted(t *testing.T) {
	big := listen(t, udp.Config{Addr: loopback4, MTU: 4000})
	small := listen(t, udp.Config{Addr: loopback4, MTU: 1000})
	var in linktest.Inbox
	want := 0
	send := func(sizes ...int) {
		for _, n := range sizes {
			linktest.Send(t, big, small.Addr(), make([]byte, n))
			if n <= 1000 {
				want++
			}
		}
		linktest.Collect(t, small, &in, want)
	}
	send(1001, 10) // one by one at first, in batches afterwards
	send(20, 3000, 1000, 4000, 30)
	if s := small.Stats(); s.Oversize != 3 {
		t.Errorf("%d frames counted as oversize; want 3", s.Oversize)
	}
	for i, n := range []int{10, 20, 1000, 30} {
		if len(in.Frames[i]) != n {
			t.Errorf("frame %d has %d bytes; want %d", i, len(in.Frames[i]), n)
		}
	}
	var c link.Counters
	if small.Counters(&c); c.DroppedIn != 3 || c.FramesIn != 4 {
		t.Errorf("Counters = %+v; want 3 dropped and 4 received", c)
	}
}

// Loopback carries 65,488 bytes of IPv6, and no system documents how it takes more.
func TestAFrameLargerThanThePathCarriesComesInIPFragmentsOrIsCounted(t *testing.T) {
	a, b := listen(t, udp.Config{Addr: loopback6, MTU: udp.Largest}), listen(t, udp.Config{Addr: loopback6, MTU: udp.Largest})
	if !strings.Contains(a.Explain(), "more than expected of the path") {
		t.Errorf("Explain() = %q; want a warning of the MTU", a.Explain())
	}
	for _, n := range []int{10, udp.Largest, 20} {
		a.Reserve(b.Addr())
		a.Commit(n)
		a.Flush(0)
	}
	s := a.Stats()
	var in linktest.Inbox
	linktest.Collect(t, b, &in, 3-int(s.TooBig))
	first, last := len(in.Frames[0]), len(in.Frames[len(in.Frames)-1])
	if s.TooBig > 1 || first != 10 || last != 20 || len(in.Frames) == 3 && len(in.Frames[1]) != udp.Largest {
		t.Errorf("%d too big, %d frames have arrived, the first of %d bytes and the last of %d", s.TooBig, len(in.Frames), first, last)
	}
	var c link.Counters
	if a.Counters(&c); c.DroppedOut != s.TooBig {
		t.Errorf("%d frames counted as dropped, and %d as too big", c.DroppedOut, s.TooBig)
	}
}

func TestAFrameForAnotherFamilyIsDroppedAndTheOthersGo(t *testing.T) {
	a, b := listen(t, udp.Config{Addr: loopback4}), listen(t, udp.Config{Addr: loopback4})
	for _, to := range []link.Addr{b.Addr(), netip.MustParseAddrPort("[fd57::1]:1"), b.Addr(), b.Addr()} {
		a.Reserve(to)
		a.Commit(5)
	}
	a.Flush(0)
	var in linktest.Inbox
	linktest.Collect(t, b, &in, 3)
	if s := a.Stats(); s.Unsendable != 1 {
		t.Errorf("%d frames counted as unsendable; want 1", s.Unsendable)
	}
}

// The test commits more than the stage holds without a Flush, many times over: a full stage is
// sent by itself.
func TestAFullStageIsSentOfItsOwnAccord(t *testing.T) {
	a, b := listen(t, udp.Config{Addr: loopback4, MTU: 1472}), listen(t, udp.Config{Addr: loopback4, MTU: 1472})
	var in linktest.Inbox
	for i := range 200 {
		f := a.Reserve(b.Addr())
		if f == nil {
			t.Fatalf("Reserve = nil after %d frames", i)
		}
		f[0] = byte(i)
		a.Commit(100 + i)
		if i%40 == 39 {
			b.Poll(0, &in)
		}
	}
	a.Flush(0)
	linktest.Collect(t, b, &in, 200)
	for i, f := range in.Frames {
		if int(f[0]) != i || len(f) != 100+i {
			t.Fatalf("frame %d has %d bytes and number %d", i, len(f), f[0])
		}
	}
}

// Runs of frames are mixed with single ones, and a full stage takes part of one.
func TestRunsOfFramesArriveAsTheyWereWritten(t *testing.T) {
	a, b := listen(t, udp.Config{Addr: loopback4, MTU: 1472}), listen(t, udp.Config{Addr: loopback4, MTU: 1472})
	var in linktest.Inbox
	sent, short := 0, false
	for _, size := range []int{1472, 100, 1472, 700} {
		for left := 50; left > 0; {
			room := a.ReserveRun(b.Addr(), size, left)
			n := len(room) / size
			if n == 0 || len(room)%size != 0 || n > left {
				t.Fatalf("room of %d bytes for %d frames of %d", len(room), left, size)
			}
			short = short || n < left
			n -= n / 4
			for i := range n {
				room[i*size] = byte(sent)
				sent++
			}
			a.CommitRun(n)
			left -= n
		}
		a.Reserve(b.Addr())[0] = byte(sent)
		a.Commit(10)
		sent++
		a.Flush(0)
		linktest.Collect(t, b, &in, sent)
	}
	if !short {
		t.Error("every run found room at once")
	}
	for i, f := range in.Frames {
		if want := []int{1472, 100, 1472, 700}[i/51]; int(f[0]) != i || len(f) != want && i%51 != 50 || i%51 == 50 && len(f) != 10 {
			t.Fatalf("frame %d has %d bytes and number %d", i, len(f), f[0])
		}
	}
	if room := a.ReserveRun(b.Addr(), 1473, 2); room != nil {
		t.Errorf("room of %d bytes for frames longer than the MTU", len(room))
	}
}

// joining is an Inbox that takes coalesced frames as they are.
type joining struct {
	linktest.Inbox
	runs int
}

func (j *joining) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	j.runs++
	j.Inbox.ReceiveRun(now, from, frames, size)
}

// Coalesced frames are handed over in runs to a receiver that takes them, at most one batch of
// frames by one Poll, and nothing is lost in between.
func TestJoinedFramesAreHandedOverAsRuns(t *testing.T) {
	a, b := listen(t, udp.Config{Addr: loopback4, MTU: 1472}), listen(t, udp.Config{Addr: loopback4, MTU: 1472})
	var in joining
	sent, counted := 0, 0
	for turn := 0; turn < 1000 && (in.runs < 3 || counted < sent); turn++ {
		for left := 40; left > 0 && in.runs < 3; left-- {
			f := a.Reserve(b.Addr())
			f[0] = byte(sent)
			a.Commit(300)
			sent++
		}
		a.Flush(0)
		for range 4 {
			n, _ := b.Poll(0, &in)
			if n > limits.PollBatch {
				t.Fatalf("%d frames by one Poll; a batch has %d", n, limits.PollBatch)
			}
			counted += n
		}
	}
	if in.runs == 0 {
		t.Skip("the kernel joins none here: " + b.Explain())
	}
	for i, f := range in.Frames {
		if int(f[0]) != i%256 || len(f) != 300 {
			t.Fatalf("frame %d has %d bytes and number %d", i, len(f), f[0])
		}
	}
	var c link.Counters
	if b.Counters(&c); len(in.Frames) != sent || counted != sent || c.FramesIn != uint64(sent) || c.BytesIn != uint64(300*sent) {
		t.Errorf("of %d frames %d came; %d by Poll's word, %d of %d bytes counted", sent, len(in.Frames), counted, c.FramesIn, c.BytesIn)
	}
}

func TestAReservationSurvivesAFlush(t *testing.T) {
	a, b := listen(t, udp.Config{Addr: loopback4}), listen(t, udp.Config{Addr: loopback4})
	var in linktest.Inbox
	for i := range 100 {
		a.Reserve(b.Addr())
		a.Commit(1)
		f := a.Reserve(b.Addr())
		copy(f, "survivor")
		a.Flush(0)
		if i%2 == 0 {
			a.Commit(8)
		}
	}
	a.Flush(0)
	linktest.Collect(t, b, &in, 150)
}

// Flooding a receiver that does not poll overruns its buffer. The drops show in its counters if
// the system tells.
func TestNothingIsLostWithoutBeingCounted(t *testing.T) {
	a := listen(t, udp.Config{Addr: loopback4, MTU: 1472})
	b := listen(t, udp.Config{Addr: loopback4, MTU: 1472, SocketBuffer: 16 << 10})
	if b.Caps().Fd == nil {
		t.Skip("this system does not tell what it drops")
	}
	const n = 2000
	for range n {
		if a.Reserve(b.Addr()) == nil {
			t.Fatal("Reserve = nil on loopback")
		}
		a.Commit(1472)
	}
	a.Flush(0)
	var in linktest.Inbox
	var c link.Counters
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && c.FramesIn+c.DroppedIn < n; {
		b.Poll(0, &in)
		c = link.Counters{}
		b.Counters(&c)
	}
	if c.FramesIn+c.DroppedIn != n || c.DroppedIn == 0 {
		t.Errorf("%d of %d frames arrived, %d counted as dropped", c.FramesIn, n, c.DroppedIn)
	}
	b.Close()
	var closed link.Counters
	if b.Counters(&closed); closed.DroppedIn != c.DroppedIn {
		t.Errorf("%d frames are counted as dropped; after Close %d", c.DroppedIn, closed.DroppedIn)
	}
}

func TestListenNamesWhatIsWrong(t *testing.T) {
	taken := listen(t, udp.Config{Addr: loopback4})
	for want, cfg := range map[string]udp.Config{
		"MTU of 70000 bytes":   {Addr: loopback4, MTU: 70000},
		"MTU of 10 bytes":      {Addr: loopback4, MTU: 10},
		"invalid AddrPort":     {},
		taken.Addr().String():  {Addr: taken.Addr()},
		"listen on 192.0.2.1:": {Addr: netip.MustParseAddrPort("192.0.2.1:5")},
	} {
		d, err := udp.Listen(cfg)
		if err == nil {
			d.Close()
			t.Errorf("Listen(%+v) succeeds", cfg)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Listen(%+v) says %q; want it to name %q", cfg, err, want)
		}
	}
}

func TestParseAddr(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1:7000":          "10.0.0.1:7000",
		"[fe80::1%eth0]:7000":    "[fe80::1%eth0]:7000",
		"[::ffff:10.0.0.1]:7000": "10.0.0.1:7000",
		":7000":                  "[::]:7000",
	} {
		if got, err := udp.ParseAddr(in); err != nil || got.String() != want {
			t.Errorf("ParseAddr(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:70000", "::1:7000", "a b:1"} {
		if got, err := udp.ParseAddr(in); !errors.Is(err, udp.ErrAddress) || !strings.Contains(err.Error(), fmt.Sprintf("%q", in)) {
			t.Errorf("ParseAddr(%q) = %v, %v; want ErrAddress that names it", in, got, err)
		}
	}
}

func TestTheDefaultMTUFitsTheInterfaceAndExplainSaysWhy(t *testing.T) {
	lo := listen(t, udp.Config{Addr: loopback4})
	if lo.MTU() != limits.LoopbackFrame || !strings.Contains(lo.Explain(), "loopback") {
		t.Errorf("on loopback the MTU is %d: %s", lo.MTU(), lo.Explain())
	}
	if lo.ReceiveBuffer() < 16<<10 || !strings.Contains(lo.Explain(), "receive buffer") {
		t.Errorf("receive buffer of %d bytes: %s", lo.ReceiveBuffer(), lo.Explain())
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range interfaces {
		addrs, _ := in.Addrs()
		for _, a := range addrs {
			p, ok := a.(*net.IPNet)
			if !ok || in.Flags&net.FlagLoopback != 0 || in.Flags&net.FlagUp == 0 || p.IP.To4() == nil || in.MTU > 9000 || in.MTU < 1000 {
				continue
			}
			ip, _ := netip.AddrFromSlice(p.IP.To4())
			d := listen(t, udp.Config{Addr: netip.AddrPortFrom(ip, 0)})
			if d.MTU() != in.MTU-28 || !strings.Contains(d.Explain(), in.Name) {
				t.Errorf("on %s with an MTU of %d the frames have %d: %s", in.Name, in.MTU, d.MTU(), d.Explain())
			}
		}
	}
}

type sink struct{ frames int }

func (s *sink) Receive(clock.Time, link.Addr, []byte) { s.frames++ }

func (s *sink) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(s, now, from, frames, size)
}

type reflector struct{ d *udp.Driver }

func (r *reflector) Receive(_ clock.Time, from link.Addr, frame []byte) {
	if b := r.d.Reserve(from); b != nil {
		r.d.Commit(copy(b, frame))
	}
}

func (r *reflector) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(r, now, from, frames, size)
}

// One goroutine drives both ends, so this measures the cost of the calls, without any waiting.
func BenchmarkRoundTrip(b *testing.B) {
	p, q := listen(b, udp.Config{Addr: loopback4}), listen(b, udp.Config{Addr: loopback4})
	in, back := &sink{}, &reflector{q}
	for b.Loop() {
		p.Reserve(q.Addr())
		p.Commit(64)
		p.Flush(0)
		for n := 0; n == 0; n, _ = q.Poll(0, back) {
		}
		q.Flush(0)
		for n := 0; n == 0; n, _ = p.Poll(0, in) {
		}
	}
}

func BenchmarkOneWay(b *testing.B) {
	for _, mtu := range []int{64, 1472, 8192, 16384, 32768, 65507} {
		b.Run(fmt.Sprint(mtu), func(b *testing.B) {
			p, q := listen(b, udp.Config{Addr: loopback4, MTU: max(mtu, 1472)}), listen(b, udp.Config{Addr: loopback4, MTU: max(mtu, 1472)})
			in := &sink{}
			b.SetBytes(int64(mtu))
			sent := 0
			for b.Loop() {
				p.Reserve(q.Addr())
				p.Commit(mtu)
				if sent++; sent%16 == 0 {
					p.Flush(0)
					for in.frames < sent {
						q.Poll(0, in)
					}
				}
			}
		})
	}
}

func BenchmarkIdlePoll(b *testing.B) {
	d := listen(b, udp.Config{Addr: loopback4})
	in := &sink{}
	for b.Loop() {
		d.Poll(0, in)
	}
}

// Each round the receiver looks once before the frame arrives, as it does in a ping-pong between
// hosts.
func BenchmarkRoundTripAfterIdle(b *testing.B) {
	p, q := listen(b, udp.Config{Addr: loopback4}), listen(b, udp.Config{Addr: loopback4})
	in, back := &sink{}, &reflector{q}
	for b.Loop() {
		q.Poll(0, in)
		p.Reserve(q.Addr())
		p.Commit(64)
		p.Flush(0)
		for n := 0; n == 0; n, _ = q.Poll(0, back) {
		}
		p.Poll(0, in)
		q.Flush(0)
		for n := 0; n == 0; n, _ = p.Poll(0, in) {
		}
	}
}
