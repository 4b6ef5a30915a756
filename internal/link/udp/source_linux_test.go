//go:build linux && !portable

package udp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// called records where frames have arrived, and from where.
type called struct {
	d        *Driver
	at       []netip.Addr
	from     []link.Addr
	lastByte []byte
}

func (c *called) Receive(_ clock.Time, from link.Addr, frame []byte) {
	c.at, c.from = append(c.at, c.d.Reached()), append(c.from, from)
	c.lastByte = append(c.lastByte, frame[len(frame)-1])
}

func (c *called) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

// await polls until n frames have arrived.
func (c *called) await(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(c.at) < n; {
		if k, _ := c.d.Poll(0, c); k == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d frames have come", len(c.at), n)
		}
	}
}

// wildcards returns the addresses that stand for every address of a host, each with some of
// those.
func wildcards(t *testing.T) map[netip.AddrPort][]netip.Addr {
	four := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	all := map[netip.AddrPort][]netip.Addr{netip.MustParseAddrPort("0.0.0.0:0"): four}
	if c, err := net.ListenPacket("udp6", "[::1]:0"); err == nil {
		c.Close()
		all[netip.MustParseAddrPort("[::]:0")] = append(four, netip.IPv6Loopback())
	} else {
		t.Log("this host has no IPv6:", err)
	}
	return all
}

func eachWildcard(t *testing.T, try func(t *testing.T, d *Driver, ips []netip.Addr)) {
	for addr, ips := range wildcards(t) {
		for _, plain := range []bool{false, true} {
			ok := t.Run(fmt.Sprintf("%v, no offload %v", addr.Addr(), plain), func(t *testing.T) {
				d, err := Listen(Config{Addr: addr, MTU: 1400, NoOffload: plain})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				try(t, d, ips)
			})
			if !ok {
				return // each of the others would wait as long
			}
		}
	}
}

func listenAt(t *testing.T, ip netip.Addr) *Driver {
	t.Helper()
	d, err := Listen(Config{Addr: netip.AddrPortFrom(ip, 0), MTU: 1400})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestAnAnswerLeavesFromTheAddressThatWasCalled(t *testing.T) {
	eachWildcard(t, func(t *testing.T, d *Driver, ips []netip.Addr) {
		in := &called{d: d}
		for round := range 3 { // a lone frame, several of them, many of them
			for _, ip := range ips {
				peer := listenAt(t, ips[0])
				if ip.Is6() {
					peer = listenAt(t, ip)
				}
				n := []int{1, 5, 200}[round]
				back, before := &called{d: peer}, len(in.at)
				for i := range n {
					peer.Reserve(netip.AddrPortFrom(ip, d.Addr().Port()))[0] = byte(i)
					peer.Commit(1)
					peer.Flush(0)
				}
				in.await(t, before+n)
				for i := before; i < len(in.at); i++ {
					if in.at[i] != ip || in.from[i] != peer.Addr() {
						t.Fatalf("a frame for %v from %v is said to have come to %v from %v", ip, peer.Addr(), in.at[i], in.from[i])
					}
				}
				for range n {
					d.From(ip)
					d.Reserve(peer.Addr())[0] = 9
					d.Commit(1)
				}
				d.Flush(0)
				back.await(t, n)
				want := netip.AddrPortFrom(ip, d.Addr().Port())
				if i := slices.IndexFunc(back.from, func(a link.Addr) bool { return a != want }); i >= 0 {
					t.Fatalf("answer %d of %d to %v came from %v", i, n, want, back.from[i])
				}
			}
		}
	})
}

func TestABatchLeavesFromTheAddressThatIsNamed(t *testing.T) {
	eachWildcard(t, func(t *testing.T, d *Driver, ips []netip.Addr) {
		peer := listenAt(t, ips[0])
		back := &called{d: peer}
		for i := range 40 {
			d.From(ips[1])
			b := d.ReserveRun(peer.Addr(), 500, 8)
			for k := range 8 {
				b[500*k+499] = byte(8*i + k)
			}
			d.CommitRun(8)
			d.Flush(0)
			back.await(t, 8*(i+1))
		}
		want := netip.AddrPortFrom(ips[1], d.Addr().Port())
		for i, from := range back.from {
			if from != want || back.lastByte[i] != byte(i) {
				t.Fatalf("frame %d came from %v and ends with %d; expected %v and %d", i, from, back.lastByte[i], want, byte(i))
			}
		}
	})
}

func TestTheSourceIsThatOfOneReservationAlone(t *testing.T) {
	eachWildcard(t, func(t *testing.T, d *Driver, ips []netip.Addr) {
		peer := listenAt(t, ips[0])
		back := &called{d: peer}
		for i := range 6 {
			if i%2 == 0 {
				d.From(ips[1])
			}
			d.Reserve(peer.Addr())[0] = byte(i)
			d.Commit(1)
		}
		d.Flush(0)
		back.await(t, 6)
		for i, from := range back.from {
			if want := ips[1-i%2]; from.Addr() != want || back.lastByte[i] != byte(i) {
				t.Errorf("frame %d came from %v; expected %v", back.lastByte[i], from, want)
			}
		}
	})
}

func TestAnAddressThatTheHostHasLostDelaysNoFrame(t *testing.T) {
	eachWildcard(t, func(t *testing.T, d *Driver, ips []netip.Addr) {
		peer := listenAt(t, ips[0])
		back := &called{d: peer}
		for i := range 30 {
			d.From(netip.MustParseAddr("192.0.2.1")) // an address for documentation
			b := d.ReserveRun(peer.Addr(), 100, 3)
			for k := range 3 {
				b[100*k+99] = byte(3*i + k)
			}
			d.CommitRun(3)
			d.From(ips[1])
			d.Reserve(peer.Addr())[0] = 200
			d.Commit(1)
			d.Flush(0)
			back.await(t, 4*(i+1))
		}
		if got := d.Stats(); got.Resourced != 90 || got.Unsendable != 0 {
			t.Errorf("of 90 frames from an address of another host, %d left from another one, %d did not leave", got.Resourced, got.Unsendable)
		}
		if got := back.from[3].Addr(); got != ips[1] {
			t.Errorf("the frame behind them came from %v; expected %v", got, ips[1])
		}
		if !d.sock.offload.batches(peer.Addr()) && d.Offload() == "both" {
			t.Error("the peer gets no batches any more")
		}
	})
}

func TestASocketOfOneAddressNamesNoSource(t *testing.T) {
	c := listenAt(t, netip.MustParseAddr("127.0.0.1")).Caps()
	if c.Reached != nil || c.From != nil {
		t.Error("a driver at one address tells where frames arrive")
	}
}

func TestWhereAFrameHasArrivedIsReadOutOfWhatTheKernelTells(t *testing.T) {
	message := func(level, kind int32, data ...byte) []byte {
		b := binary.NativeEndian.AppendUint64(nil, uint64(16+len(data)))
		b = binary.NativeEndian.AppendUint32(b, uint32(level))
		b = binary.NativeEndian.AppendUint32(b, uint32(kind))
		b = append(b, data...)
		return append(b, make([]byte, -len(data)&7)...)
	}
	gro := message(17, 104, 1, 2, 3, 4)
	four := message(0, 8, 0, 0, 0, 0, 10, 0, 0, 7, 10, 0, 0, 9)
	six := message(41, 50, append(make([]byte, 15), 1, 0, 0, 0, 0)...)
	group := message(41, 50, append([]byte{0xff, 2}, make([]byte, 18)...)...)
	for _, test := range []struct {
		name string
		in   []byte
		want netip.Addr
	}{
		{"nothing", nil, netip.Addr{}},
		{"something else", gro, netip.Addr{}},
		{"IPv4", four, netip.MustParseAddr("10.0.0.7")},
		{"IPv6 behind something else", append(slices.Clone(gro), six...), netip.IPv6Loopback()},
		{"a group, from which nothing leaves", group, netip.Addr{}},
	} {
		var l local
		if l.note(reached(test.in)); l.ip != test.want {
			t.Errorf("%s: %v; expected %v", test.name, l.ip, test.want)
		}
		for n := range test.in {
			reached(test.in[:n]) // must not panic
		}
	}
}

func TestASourceAddressAllocatesNothing(t *testing.T) {
	eachWildcard(t, func(t *testing.T, d *Driver, ips []netip.Addr) {
		peer := listenAt(t, ips[0])
		there, back := &reflects{d: d}, &counted{}
		sent := 0
		round := func() {
			for range 10 {
				peer.Reserve(netip.AddrPortFrom(ips[1], d.Addr().Port()))
				peer.Commit(100)
				sent++
			}
			peer.Flush(0)
			for end := time.Now().Add(time.Minute); back.frames < sent && time.Now().Before(end); {
				n, _ := d.Poll(0, there)
				d.Flush(0)
				if k, _ := peer.Poll(0, back); n+k == 0 {
					time.Sleep(10 * time.Microsecond)
				}
			}
		}
		round()
		if n := testing.AllocsPerRun(100, round); n > 0 || back.frames != sent {
			t.Errorf("10 frames and their answers cost %v allocations, and %d of %d have come back", n, back.frames, sent)
		}
	})
}

// reflects answers each frame from the address to which it was sent.
type reflects struct{ d *Driver }

func (r *reflects) Receive(_ clock.Time, from link.Addr, frame []byte) {
	r.d.From(r.d.Reached())
	r.d.Reserve(from)
	r.d.Commit(len(frame))
}

func (r *reflects) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(r, now, from, frames, size)
}
