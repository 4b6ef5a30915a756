package testbed_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

// numbered sends n datagrams, each with its number. It returns the numbers in the order of
// arrival: each number, and the copies that the switch has counted.
func numbered(t *testing.T, tb *testbed.Testbed, n int) (order []int) {
	t.Helper()
	a, b := listen(t, tb.Host(0), tb.Host(0).Addr()), listen(t, tb.Host(1), tb.Host(1).Addr())
	before := tb.Shaped()
	buf := make([]byte, 2000)
	come := map[int]bool{}
	take := func(until int) {
		for len(come) < until {
			number := read(t, b, buf)
			come[number] = true
			order = append(order, number)
		}
	}
	for i := range n {
		datagram := bytes.Repeat([]byte{byte(i)}, 1000)
		binary.BigEndian.PutUint32(datagram, uint32(i))
		if _, err := a.WriteToUDPAddrPort(datagram, port(b)); err != nil {
			t.Fatal(err)
		}
		take(i - 50) // so that no queue overflows
	}
	take(n)
	// The kernel sometimes sends frames of IPv6 too, so the switch may have copied more frames.
	for copies := int(tb.Shaped().Duplicated - before.Duplicated); len(order) < n+copies; {
		b.SetReadDeadline(time.Now().Add(2 * time.Second))
		if _, err := b.Read(buf); err != nil {
			break
		}
		order = append(order, int(binary.BigEndian.Uint32(buf)))
	}
	return order
}

// read returns the number of the next datagram, whose bytes it checks.
func read(t *testing.T, c *net.UDPConn, buf []byte) int {
	t.Helper()
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	number := int(binary.BigEndian.Uint32(buf))
	if n != 1000 || !bytes.Equal(buf[4:n], bytes.Repeat([]byte{byte(number)}, 996)) {
		t.Fatalf("datagram %d came with %d bytes, or with others than were sent", number, n)
	}
	return number
}

func TestADelayedFrameIsNotEarlyAndARoundTripTakesItTwice(t *testing.T) {
	const delay = 20 * time.Millisecond
	tb := build(t, testbed.Config{Hosts: 3, Delay: delay})
	exchangeAll(t, tb)
	a, b := listen(t, tb.Host(0), tb.Host(0).Addr()), listen(t, tb.Host(2), tb.Host(2).Addr())
	begin := time.Now()
	exchange(t, a, b)
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("a round trip took %v, less than two delays of %v", took, delay)
	}
}

func TestADelayKeepsTheOrderAndLosesNothing(t *testing.T) {
	order := numbered(t, build(t, testbed.Config{Hosts: 2, Delay: time.Millisecond}), 1000)
	if len(order) != 1000 || !slices.IsSorted(order) {
		t.Errorf("%d of 1000 datagrams came, in order: %v", len(order), slices.IsSorted(order))
	}
}

func TestAReaderOfDatagramsSeesDuplicates(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2, Duplicate: 0.2, Seed: 1})
	order := numbered(t, tb, 1000)
	if n := len(order); n < 1100 || n > 1300 {
		t.Errorf("of 1000 datagrams, %d came; expected about 1200", n)
	}
	slices.Sort(order)
	if once := slices.Compact(order); len(once) != 1000 {
		t.Errorf("%d different datagrams came of 1000", len(once))
	}
	if c := tb.Shaped(); c.Duplicated < 100 || c.Carried < 1000 || c.Overflowed != 0 {
		t.Errorf("the switch counts %+v", c)
	}
}

func TestAReaderOfDatagramsSeesThemOvertakeOneAnother(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2, Reorder: 0.1, Delay: time.Millisecond, Seed: 1})
	order := numbered(t, tb, 1000)
	overtaken := 0
	for i := 1; i < len(order); i++ {
		if order[i] < order[i-1] {
			overtaken++
		}
	}
	slices.Sort(order)
	if len(slices.Compact(order)) != 1000 || overtaken < 40 || overtaken > 200 {
		t.Errorf("%d different datagrams of 1000 came, and %d were overtaken; expected all, and about 90", len(slices.Compact(order)), overtaken)
	}
}

// A TCP stream has segments that the kernel would cut after the switch, and checksums that it
// would compute there.
func TestAStreamOfTCPIsWholeBehindAShapedSwitch(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2, Delay: time.Millisecond, Jitter: time.Millisecond, Duplicate: 0.01, Reorder: 0.01, Loss: 0.001, Seed: 1})
	var l net.Listener
	if err := tb.Host(1).Do(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(tb.Host(1).Addr().String(), "0"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * i >> 8)
	}
	failed := make(chan error, 1)
	go func() {
		failed <- tb.Host(0).Do(func() error {
			c, err := net.DialTimeout("tcp", l.Addr().String(), patience)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write(sent)
			return err
		})
	}()
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var came bytes.Buffer
	if _, err := came.ReadFrom(c); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(came.Bytes(), sent) {
		t.Errorf("%d bytes came of %d, or others", came.Len(), len(sent))
	}
}

func TestAShapedSwitchTakesACableOutAndIn(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2, Delay: time.Millisecond})
	a, b := listen(t, tb.Host(0), tb.Host(0).Addr()), listen(t, tb.Host(1), tb.Host(1).Addr())
	exchange(t, a, b)
	if err := tb.Host(1).SetPlugged(false); err != nil {
		t.Fatal(err)
	}
	flood(t, a, b, 3)
	b.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := b.Read(make([]byte, 16)); !os.IsTimeout(err) {
		t.Errorf("a host without a cable hears something: %v", err)
	}
	if err := tb.Host(1).SetPlugged(true); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for buf := make([]byte, 16); ; {
		flood(t, a, b, 1) // a link comes up some time after it is plugged in
		b.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := b.Read(buf); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a host whose cable is back hears nothing")
		}
	}
}
