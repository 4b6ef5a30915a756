package testbed_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
)

// transfer sends n bytes over TCP and returns how long it took until all had arrived.
func transfer(t *testing.T, from, to *testbed.Host, n int) time.Duration {
	t.Helper()
	var l net.Listener
	err := to.Do(func() (err error) {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.CopyN(io.Discard, c, int64(n))
			c.Close()
		}
		came <- err
	}()
	var c net.Conn
	err = from.Do(func() (err error) {
		c, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	began := time.Now()
	if _, err := c.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := <-came; err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// A cable with a rate carries no more than that, each way. Other cables have their own rates.
func TestACableCarriesNoMoreThanItsRate(t *testing.T) {
	const slow, fast, n = 8_000_000, 80_000_000, 100_000
	tb := build(t, testbed.Config{Hosts: 3, Rates: []int64{slow, fast, fast}})
	// The time of n bytes, less those that a bucket holds and those that TCP does not count.
	at := func(rate int64) time.Duration {
		return time.Duration(float64(n-4*testbed.DefaultMTU) * 8 / float64(rate) * float64(time.Second))
	}
	for _, way := range []struct{ from, to int }{{0, 1}, {1, 0}} {
		if took := transfer(t, tb.Host(way.from), tb.Host(way.to), n); took < at(slow) {
			t.Errorf("from host %d to host %d, %d bytes took %v; expected %v at least", way.from, way.to, n, took, at(slow))
		}
	}
	took := transfer(t, tb.Host(1), tb.Host(2), n)
	for end := time.Now().Add(patience); took >= at(slow) && time.Now().Before(end); {
		took = transfer(t, tb.Host(1), tb.Host(2), n)
	}
	if took < at(fast) || took >= at(slow) {
		t.Errorf("between the fast hosts, %d bytes took %v; expected %v to %v", n, took, at(fast), at(slow))
	}
}

// bypassing returns a function that sends a UDP datagram from one host to a socket on another.
// The datagram bypasses the queue of the sender's card, as with AF_XDP.
func bypassing(t *testing.T, from, to *testbed.Host, at netip.AddrPort, n int) func() error {
	t.Helper()
	var fd, index int
	err := from.Do(func() error {
		i, err := net.InterfaceByName(testbed.Interface)
		if err != nil {
			return err
		}
		index = i.Index
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	src, dst := from.Addr().As4(), to.Addr().As4()
	frame := make([]byte, 14+20+8+n)
	copy(frame, []byte{0x02, 0x57, 0x45, 0x46, 0, byte(to.Index() + 1), 0x02, 0x57, 0x45, 0x46, 0, byte(from.Index() + 1), 0x08, 0x00})
	ip := frame[14:34]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(frame)-14))
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	udp := frame[34:42] // without a checksum
	binary.BigEndian.PutUint16(udp, 7)
	binary.BigEndian.PutUint16(udp[2:], at.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(8+n))
	return func() error {
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Halen: 6})
	}
}

// AF_XDP bypasses the queue of its host's card. The switch paces its frames.
func TestFramesThatPassByTheirCardsQueueArePacedByTheSwitch(t *testing.T) {
	const rate, bytes, count = 8_000_000, 1000, 80 // no more than fit in the switch's queue
	tb := build(t, testbed.Config{Hosts: 2, Rates: []int64{rate}})
	to := listen(t, tb.Host(1), tb.Host(1).Addr())
	send := bypassing(t, tb.Host(0), tb.Host(1), port(to), bytes)
	began := time.Now()
	for range count {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		if n, err := to.Read(make([]byte, 2*bytes)); err != nil || n != bytes {
			t.Fatalf("datagram %d has %d bytes, %v", i, n, err)
		}
	}
	if took, least := time.Since(began), time.Duration(float64((count-4)*bytes*8)/rate*float64(time.Second)); took < least {
		t.Errorf("%d frames came within %v; expected %v at least", count, took, least)
	}
}
