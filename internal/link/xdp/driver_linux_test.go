package xdp_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
)

// hosts returns two hosts on one cable, or skips the test.
func hosts(tb testing.TB, cfg testbed.Config) *testbed.Testbed {
	tb.Helper()
	cfg.Hosts = 2
	return build(tb, cfg)
}

// hostsOf returns n hosts on a switch, or skips the test.
func hostsOf(tb testing.TB, n int) *testbed.Testbed {
	tb.Helper()
	return build(tb, testbed.Config{Hosts: n})
}

func build(tb testing.TB, cfg testbed.Config) *testbed.Testbed {
	tb.Helper()
	bed, err := testbed.New(cfg)
	if errors.Is(err, testbed.ErrUnavailable) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { bed.Close() })
	return bed
}

// listen opens a driver on a host, or skips the test if there is no AF_XDP. It does not skip if
// the interface's frames are too long (ERANGE), since no MTU may cause that.
func listen(tb testing.TB, h *testbed.Host, cfg xdp.Config) (d *xdp.Driver) {
	tb.Helper()
	if !cfg.Addr.IsValid() {
		cfg.Addr = netip.AddrPortFrom(h.Addr(), 0)
	}
	err := h.Do(func() (err error) {
		d, err = xdp.Listen(cfg)
		return err
	})
	if errors.Is(err, xdp.ErrUnavailable) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ERANGE) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

func TestDriver(t *testing.T) {
	four, six := (*testbed.Host).Addr, (*testbed.Host).Addr6
	for _, c := range []struct {
		name string
		at   func(*testbed.Host) netip.Addr
		bed  testbed.Config
		cfg  xdp.Config
	}{
		{"native", four, testbed.Config{}, xdp.Config{}},
		{"native, IPv6", six, testbed.Config{}, xdp.Config{}},
		{"native, just beyond one piece", four, testbed.Config{MTU: 3600}, xdp.Config{}},
		{"native, jumbo", four, testbed.Config{MTU: 9000}, xdp.Config{}},
		{"native, four queues", four, testbed.Config{Queues: 4}, xdp.Config{}},
		{"generic", four, testbed.Config{}, xdp.Config{Generic: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			linktest.Run(t, linktest.Suite{
				Make: func(tb testing.TB) (a, b link.Driver) {
					bed := hosts(tb, c.bed)
					on := func(i int) *xdp.Driver {
						cfg := c.cfg
						cfg.Addr = netip.AddrPortFrom(c.at(bed.Host(i)), 0)
						if !cfg.Addr.Addr().IsValid() {
							tb.Skip("this kernel has no IPv6")
						}
						return listen(tb, bed.Host(i), cfg)
					}
					return on(0), on(1)
				},
				Nobody: netip.MustParseAddrPort("203.0.113.1:7"),
			})
		})
	}
}

func TestTheUDPLinkIsUnderstoodAndUnderstands(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	x := listen(t, bed.Host(0), xdp.Config{})
	var u *udp.Driver
	if err := bed.Host(1).Do(func() (err error) {
		u, err = udp.Listen(udp.Config{Addr: netip.AddrPortFrom(bed.Host(1).Addr(), 0)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for i, way := range []struct{ from, to link.Driver }{{x, u}, {u, x}} {
		var in linktest.Inbox
		want := bytes.Repeat([]byte{byte(i + 1)}, 700)
		linktest.Send(t, way.from, way.to.Addr(), want)
		linktest.Collect(t, way.to, &in, 1)
		if !bytes.Equal(in.Frames[0], want) || in.From[0] != way.from.Addr() {
			t.Errorf("way %d: %d bytes from %v; expected %d from %v", i, len(in.Frames[0]), in.From[0], len(want), way.from.Addr())
		}
	}
}

// The length of a frame has two limits, and the log names both: that of the interface, and that
// of a chunk, which is a page.
func TestTheLengthOfAFrameIsExplained(t *testing.T) {
	for mtu, want := range map[int]string{
		1500: "frames of 1472 bytes: eth0 carries 1500; ",
		// The driver's memory of a frame ends before our chunk.
		3600: "frames of 3572 bytes: eth0 carries 3600; ",
		9000: "frames of 3794 bytes: eth0 carries 9000, and the memory of a frame holds 5178 less; ",
	} {
		bed := hosts(t, testbed.Config{MTU: mtu})
		why := listen(t, bed.Host(0), xdp.Config{}).Explain()
		if !strings.Contains(why, ", 1 queue; "+want+"beside it UDP: ") || strings.Contains(why, "as configured") {
			t.Errorf("MTU %d: %q does not say %q, or that it was configured", mtu, why, want)
		}
		err := bed.Host(1).Do(func() error {
			_, err := xdp.Listen(xdp.Config{Addr: netip.AddrPortFrom(bed.Host(1).Addr(), 0), MTU: 5000})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "interface eth0: MTU of 5000 bytes: not in ") {
			t.Errorf("MTU %d: a frame of 5000 bytes: %v", mtu, err)
		}
	}
}

func TestWhyTheProgramIsNotOnTheInterfaceIsSaid(t *testing.T) {
	for cause, want := range map[error]string{
		unix.EEXIST:     "the interface has another XDP program: ",
		unix.EOPNOTSUPP: "its driver has no native XDP ",
		unix.ERANGE:     "its MTU of 9000, or that of one below it or at the other end of a veth, is more than the driver allows with XDP; expected at most about 3506, or Linux 5.18: ",
		unix.EPERM:      "attaching the program: operation not permitted (needs CAP_NET_ADMIN, ",
	} {
		err := xdp.NotAttached(cause, 9000)
		if !errors.Is(err, cause) || !errors.Is(err, xdp.ErrUnavailable) || !strings.HasPrefix(err.Error(), "AF_XDP unavailable: "+want) {
			t.Errorf("%v: %v; expected %q", cause, err, want)
		}
	}
}

// Frames that are not for the NIC go on to the kernel.
func TestOtherTrafficPassesTheProgram(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	listen(t, bed.Host(0), xdp.Config{})
	var server, client *net.UDPConn
	if err := bed.Host(0).Do(func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(bed.Host(0).Addr(), 0)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := bed.Host(1).Do(func() (err error) {
		client, err = net.DialUDP("udp", nil, server.LocalAddr().(*net.UDPAddr))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("for the kernel")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	_ = server.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := server.Read(b)
	if err != nil || string(b[:n]) != "for the kernel" {
		t.Errorf("the kernel's socket got %q, %v", b[:n], err)
	}
}

func TestASecondDriverOnAnInterfaceIsRefusedWithTheReason(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	listen(t, bed.Host(0), xdp.Config{})
	err := bed.Host(0).Do(func() error {
		d, err := xdp.Listen(xdp.Config{Addr: netip.AddrPortFrom(bed.Host(0).Addr(), 0)})
		if err == nil {
			d.Close()
		}
		return err
	})
	if !errors.Is(err, xdp.ErrUnavailable) {
		t.Errorf("a second driver: %v; expected ErrUnavailable", err)
	}
}

// Whether frames are copied depends on the interface, and not on the previous driver. If the
// kernel is still releasing the queue of that driver, the new driver waits.
func TestACloseMakesRoomForTheNext(t *testing.T) {
	bed := hosts(t, testbed.Config{})
	for range 5 {
		begin := time.Now()
		d := listenSoon(t, bed.Host(0))
		if why := d.Explain(); strings.Contains(why, unix.EBUSY.Error()) && time.Since(begin) < xdp.BindPatience {
			t.Errorf("without having waited for the one before: %s", why)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// listenSoon opens a driver on a host whose queue the kernel is still releasing, which it does
// when it has time.
func listenSoon(t *testing.T, h *testbed.Host) *xdp.Driver {
	t.Helper()
	return listenSoonAt(t, h, h.Addr())
}

func listenSoonAt(t *testing.T, h *testbed.Host, at netip.Addr) (d *xdp.Driver) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		err := h.Do(func() (err error) {
			d, err = xdp.Listen(xdp.Config{Addr: netip.AddrPortFrom(at, 0)})
			return err
		})
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			if errors.Is(err, xdp.ErrUnavailable) && !errors.Is(err, unix.EBUSY) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
}

func TestAddressesThatNoInterfaceHasAreRefused(t *testing.T) {
	for _, a := range []string{"127.0.0.1:0", "0.0.0.0:7", "203.0.113.9:0", "[::1]:0"} {
		d, err := xdp.Listen(xdp.Config{Addr: netip.MustParseAddrPort(a)})
		if !errors.Is(err, xdp.ErrUnavailable) {
			t.Errorf("Listen(%s) = %v, %v; expected ErrUnavailable", a, d, err)
		}
	}
}
