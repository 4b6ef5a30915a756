package xdp_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
)

// on calls f with the interface of a host, in that host's network namespace.
func on(t *testing.T, h *testbed.Host, f func(eth netlink.Link) error) {
	t.Helper()
	if err := h.Do(func() error {
		eth, err := netlink.LinkByName(testbed.Interface)
		if err != nil {
			return err
		}
		return f(eth)
	}); err != nil {
		t.Fatalf("host %d: %v", h.Index(), err)
	}
}

// plain opens a UDP driver on a host.
func plain(t *testing.T, h *testbed.Host, at netip.Addr) (d *udp.Driver) {
	t.Helper()
	if err := h.Do(func() (err error) {
		d, err = udp.Listen(udp.Config{Addr: netip.AddrPortFrom(at, 0), MTU: 1400})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// arrives sends frames until some have arrived: the first may be lost while the kernel learns
// the path.
func arrives(t *testing.T, from, to link.Driver, what string) {
	t.Helper()
	var in linktest.Inbox
	want := bytes.Repeat([]byte{7}, 300)
	for began := time.Now(); len(in.Frames) < 5; {
		now := clock.Time(time.Since(began))
		linktest.Send(t, from, to.Addr(), want)
		from.Poll(now, &linktest.Inbox{})
		to.Poll(now, &in)
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: %d frames have arrived", what, len(in.Frames))
		}
	}
	if !bytes.Equal(in.Frames[4], want) || in.From[4] != from.Addr() {
		t.Errorf("%s: %d bytes from %v; expected %d from %v", what, len(in.Frames[4]), in.From[4], len(want), from.Addr())
	}
}

// direct reports whether a driver sends to another by AF_XDP, and not by the kernel's stack.
func direct(t *testing.T, from *xdp.Driver, to link.Driver) bool {
	t.Helper()
	calls := func() uint64 {
		var c link.Counters
		from.Slow().Counters(&c)
		return c.FramesOut
	}
	var in linktest.Inbox
	before := calls()
	linktest.Send(t, from, to.Addr(), []byte("which way?"))
	linktest.Collect(t, to, &in, 1)
	return calls() == before
}

func TestFramesGoByARouterWhereTheKernelWouldSendThemByOne(t *testing.T) {
	bed := hostsOf(t, 3)
	far := netip.MustParseAddr("10.99.0.1")
	route := func(eth netlink.Link, via netip.Addr) error {
		return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: &net.IPNet{IP: far.AsSlice(), Mask: net.CIDRMask(32, 32)}, Gw: via.AsSlice()})
	}
	on(t, bed.Host(0), func(eth netlink.Link) error { return route(eth, bed.Host(1).Addr()) })
	on(t, bed.Host(1), func(eth netlink.Link) error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			t.Skip("host 1 cannot be made a router:", err)
		}
		return route(eth, bed.Host(2).Addr())
	})
	on(t, bed.Host(2), func(netlink.Link) error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: far.AsSlice(), Mask: net.CIDRMask(32, 32)}})
	})
	x, u := listen(t, bed.Host(0), xdp.Config{}), plain(t, bed.Host(2), far)
	arrives(t, x, u, "through a router")
	if !direct(t, x, u) {
		t.Error("frames for a router go by the kernel's stack")
	}
}

func TestANeighbourThatHasAnotherAddressIsFoundAgain(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	x, u := listen(t, bed.Host(0), xdp.Config{}), plain(t, bed.Host(1), bed.Host(1).Addr())
	arrives(t, x, u, "before")
	if !direct(t, x, u) {
		t.Fatal("frames for a known neighbour go by the kernel's stack")
	}
	hw := net.HardwareAddr{2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee}
	on(t, bed.Host(1), func(eth netlink.Link) error { return netlink.LinkSetHardwareAddr(eth, hw) })
	on(t, bed.Host(0), func(eth netlink.Link) error {
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: eth.Attrs().Index, State: netlink.NUD_PERMANENT, IP: bed.Host(1).Addr().AsSlice(), HardwareAddr: hw})
	})
	arrives(t, x, u, "after the neighbour has got another address")
	if !direct(t, x, u) {
		t.Error("frames for a neighbour with another address go by the kernel's stack")
	}
}

// Switches learn from source addresses where an interface is, and network cards with forgery
// protection drop frames with another source.
func TestAnInterfaceThatHasAnotherAddressSendsFromThatOne(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	x, u := listen(t, bed.Host(0), xdp.Config{}), plain(t, bed.Host(1), bed.Host(1).Addr())
	arrives(t, x, u, "before")
	hw, began := net.HardwareAddr{2, 0xaa, 0xbb, 0xcc, 0xdd, 0xef}, time.Now()
	// later returns a time after that of all earlier frames.
	later := func() clock.Time { return clock.Time(time.Hour + time.Since(began)) }
	on(t, bed.Host(0), func(eth netlink.Link) error { return netlink.LinkSetHardwareAddr(eth, hw) })
	var in linktest.Inbox
	for range 300 { // so that the driver reads the news
		x.Poll(later(), &in)
	}
	// The kernel has forgotten its neighbours, and reports when it finds them.
	for alone := 0; alone < 500; alone++ {
		if !direct(t, x, u) {
			alone = 0
		}
		if x.Poll(later(), &in); time.Since(began) > time.Minute {
			t.Fatal("frames go by the kernel's stack though the neighbour is known again")
		}
	}
	tap := -1
	on(t, bed.Host(1), func(eth netlink.Link) (err error) {
		all := int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})) // in network order
		if tap, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all); err != nil {
			return err
		}
		return unix.Bind(tap, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: eth.Attrs().Index})
	})
	defer unix.Close(tap)
	in = linktest.Inbox{}
	last := []byte("from which address?")
	linktest.Send(t, x, u.Addr(), last)
	for len(in.Frames) == 0 || !bytes.Equal(in.Frames[len(in.Frames)-1], last) {
		linktest.Collect(t, u, &in, len(in.Frames)+1)
	}
	b := make([]byte, 2000)
	for {
		n, _, err := unix.Recvfrom(tap, b, 0)
		if err != nil {
			t.Fatal("the frame has not been seen on the cable: ", err)
		}
		if bytes.HasSuffix(b[:n], last) {
			break
		}
	}
	if from := net.HardwareAddr(b[6:12]); !bytes.Equal(from, hw) {
		t.Errorf("a frame of an interface with the address %v is from %v", hw, from)
	}
}

// On a VLAN the hosts do not know their neighbours. The kernel finds them, since the first
// frames use its stack.
func TestFramesOnAVLANHaveItsTagAndTheKernelAsksForNeighbours(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 97, 0, byte(i + 1)}) }
	for i := range 2 {
		on(t, bed.Host(i), func(eth netlink.Link) error {
			v := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "vlan7", ParentIndex: eth.Attrs().Index}, VlanId: 7}
			if err := netlink.LinkAdd(v); err != nil {
				t.Skip("no VLAN here:", err)
			}
			if err := netlink.AddrAdd(v, &netlink.Addr{IPNet: &net.IPNet{IP: at(i).AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
				return err
			}
			return netlink.LinkSetUp(v)
		})
	}
	x := listen(t, bed.Host(0), xdp.Config{Addr: netip.AddrPortFrom(at(0), 0)})
	y := listen(t, bed.Host(1), xdp.Config{Addr: netip.AddrPortFrom(at(1), 0)})
	arrives(t, x, y, "on a VLAN")
	arrives(t, y, x, "on a VLAN, back")
	for end := time.Now().Add(time.Minute); !direct(t, x, y); {
		if time.Now().After(end) {
			t.Fatal("frames on a VLAN go by the kernel's stack though the neighbour is known")
		}
	}
}

func TestALinkLocalAddressMayHaveItsZoneAsANumber(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	for i := range 2 {
		var at netip.Addr
		on(t, bed.Host(i), func(eth netlink.Link) error {
			all, err := netlink.AddrList(eth, netlink.FAMILY_V6)
			for _, a := range all {
				if ip, _ := netip.AddrFromSlice(a.IP); ip.IsLinkLocalUnicast() {
					at = ip.WithZone([]string{testbed.Interface, strconv.Itoa(eth.Attrs().Index)}[i])
				}
			}
			return err
		})
		if !at.IsValid() {
			t.Skip("no link-local address here")
		}
		listenAt := func() error {
			d, err := xdp.Listen(xdp.Config{Addr: netip.AddrPortFrom(at, 0)})
			if err != nil {
				return err
			}
			if d.Addr().Addr() != at {
				t.Errorf("a driver at %v is at %v", at, d.Addr())
			}
			return d.Close()
		}
		err := bed.Host(i).Do(listenAt)
		// Until the kernel has found that the address is its own.
		for end := time.Now().Add(time.Minute); errors.Is(err, unix.EADDRNOTAVAIL) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
			err = bed.Host(i).Do(listenAt)
		}
		if errors.Is(err, xdp.ErrUnavailable) && i == 0 {
			t.Skip(err)
		}
		if err != nil {
			t.Errorf("at %v: %v", at, err)
		}
	}
}

func TestMarksOfCongestionAreCounted(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	for _, at := range []func(*testbed.Host) netip.Addr{(*testbed.Host).Addr, (*testbed.Host).Addr6} {
		if !at(bed.Host(0)).IsValid() {
			continue // no IPv6
		}
		x := listenSoonAt(t, bed.Host(0), at(bed.Host(0)))
		var c *net.UDPConn
		if err := bed.Host(1).Do(func() (err error) {
			c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(x.Addr()))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, 3)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 3)
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("marked")); err != nil {
			t.Fatal(err)
		}
		var in linktest.Inbox
		linktest.Collect(t, x, &in, 1)
		var n link.Counters
		if x.Counters(&n); n.ECNMarked != 1 {
			t.Errorf("from %v: %d frames are counted as marked; expected 1", c.LocalAddr(), n.ECNMarked)
		}
		x.Close()
	}
}

func TestFramesComeByAllQueuesOfTheInterface(t *testing.T) {
	bed := hosts(t, testbed.Config{Queues: 4})
	x := listen(t, bed.Host(0), xdp.Config{})
	// Each sender is a separate flow, which the kernel assigns to some queue.
	const senders = 64
	var in linktest.Inbox
	for i := range senders {
		linktest.Send(t, plain(t, bed.Host(1), bed.Host(1).Addr()), x.Addr(), []byte{byte(i)})
		linktest.Collect(t, x, &in, i+1)
	}
	if n := x.QueuesUsed(); n < 2 {
		t.Errorf("the frames of %d senders have come by %d of 4 queues", senders, n)
	}
}

// Frames that this host sends to itself arrive at the ordinary socket, many in one call if the
// kernel coalesces them. No descriptor announces the frames for which a poll has no room.
func TestAUserThatParksHasAllThatTheOrdinarySocketHasBrought(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	x, u := listen(t, bed.Host(0), xdp.Config{}), plain(t, bed.Host(0), bed.Host(0).Addr())
	parks := func(frames int, next clock.Time) bool {
		fds := []unix.PollFd{{Fd: int32(x.Fd()), Events: unix.POLLIN}}
		if frames > 0 || next != clock.Never || x.Sleep() {
			return false
		}
		n, err := unix.Poll(fds, 0)
		x.Awake()
		return err == nil && n == 0
	}
	var in linktest.Inbox
	sent := 0
	for range 10 {
		for range 400 {
			// Each frame by itself, until the kernel coalesces them.
			linktest.Send(t, u, x.Addr(), make([]byte, 1000))
			sent++
		}
		for range 20 {
			for range 40 {
				u.Reserve(x.Addr())
				u.Commit(1000)
				sent++
			}
			u.Flush(0)
		}
		for end := time.Now().Add(time.Minute); len(in.Frames) < sent; {
			if n, next := x.Poll(clock.Time(time.Hour), &in); parks(n, next) && len(in.Frames) < sent {
				t.Fatalf("%d frames of %d have come when the user parks", len(in.Frames), sent)
			}
			if time.Now().After(end) {
				t.Fatalf("%d frames of %d have come", len(in.Frames), sent)
			}
		}
	}
}

// A full ring holds FillRing frames, and the kernel drops further ones.
func TestFramesThatTheRingHasNoRoomForAreCounted(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	x, u := listen(t, bed.Host(0), xdp.Config{}), plain(t, bed.Host(1), bed.Host(1).Addr())
	arrives(t, u, x, "the first frames")
	x.Poll(0, &linktest.Inbox{})
	count := func() (c link.Counters) {
		x.Counters(&c)
		return c
	}
	before := count()
	const more = 3 * xdp.FillRing
	for i := range more {
		linktest.Send(t, u, x.Addr(), []byte{byte(i)})
		if i%16 == 0 {
			// So that the cable, which has a short ring, loses none.
			time.Sleep(time.Millisecond)
		}
	}
	var c link.Counters
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		x.Poll(0, &linktest.Inbox{})
		if c = count(); c.FramesIn+c.DroppedIn == before.FramesIn+more {
			break
		}
	}
	if c.DroppedIn != more-(c.FramesIn-before.FramesIn) || c.DroppedIn < more-xdp.FillRing-16 {
		t.Errorf("%d frames of %d have come, and %d are counted as dropped", c.FramesIn-before.FramesIn, more, c.DroppedIn)
	}
	x.Close()
	if closed := count(); closed.DroppedIn != c.DroppedIn {
		t.Errorf("%d frames are counted as dropped; after Close %d", c.DroppedIn, closed.DroppedIn)
	}
}

// listenVariable makes the test binary listen at an address until it is killed.
const listenVariable = "WEFT_XDP_TEST_LISTEN"

func TestNothingIsLeftOnTheInterfaceOfAProcessThatIsKilled(t *testing.T) {
	if at := os.Getenv(listenVariable); at != "" {
		d, err := xdp.Listen(xdp.Config{Addr: netip.MustParseAddrPort(at)})
		if err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			return
		}
		defer d.Close()
		os.Stdout.WriteString("attached\n")
		// If there were nothing to wait for, the runtime would end the process by itself.
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	bed := hosts(t, testbed.Config{})
	attached := func() (yes bool) {
		on(t, bed.Host(0), func(eth netlink.Link) error {
			yes = eth.Attrs().Xdp != nil && eth.Attrs().Xdp.Attached
			return nil
		})
		return yes
	}
	c := bed.Host(0).Command(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), listenVariable+"="+netip.AddrPortFrom(bed.Host(0).Addr(), 0).String())
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(out).ReadString('\n')
	if said != "attached\n" {
		t.Skip("no driver there:", said)
	}
	if !attached() {
		t.Error("the program is not on the interface")
	}
	c.Process.Kill()
	_ = c.Wait()
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("it was not the kill that ended the process: %v", c.ProcessState)
	}
	for end := time.Now().Add(time.Minute); attached(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the program is still on the interface of a process that was killed")
		}
	}
	listenSoon(t, bed.Host(0))
}

// A veth has no zero-copy, but the self-test works on any queue.
func TestTheSelfTestSendsAFrameAndNoticesWhenNoneLeaves(t *testing.T) {
	bed := hosts(t, testbed.Config{Queues: 2})
	x, y := listen(t, bed.Host(0), xdp.Config{}), listen(t, bed.Host(1), xdp.Config{})
	if err := x.Test(); err != nil {
		t.Error(err)
	}
	if !x.Stick() {
		t.Error("a ring that the kernel does not see passes the test")
	}
	arrives(t, x, y, "after the test")
	arrives(t, y, x, "to the driver that has tested")
}
