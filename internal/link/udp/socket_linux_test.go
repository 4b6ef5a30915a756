//go:build linux && !portable

package udp

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

func pairOf(tb testing.TB, mtu int) (a, b *Driver) {
	tb.Helper()
	for _, d := range []**Driver{&a, &b} {
		var err error
		if *d, err = Listen(Config{Addr: netip.MustParseAddrPort("127.0.0.1:0"), MTU: mtu}); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { (*d).Close() })
	}
	return a, b
}

type collect struct{ frames [][]byte }

func (c *collect) Receive(_ clock.Time, _ link.Addr, frame []byte) {
	c.frames = append(c.frames, bytes.Clone(frame))
}

func (c *collect) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

// Loopback never returns EAGAIN, so the test supplies it.
func TestFramesThatTheKernelDoesNotTakeWaitAndReserveSaysNil(t *testing.T) {
	a, b := pairOf(t, 1472)
	for i := 0; !a.out.full(); i++ {
		f := a.out.reserve(b.Addr())
		a.Commit(copy(f, fmt.Sprint(i)))
	}
	n := a.out.pending()
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM} {
		if a.account(0, errno) || a.out.pending() != n {
			t.Errorf("after %v sending goes on, or frames are gone: %d of %d wait", errno, a.out.pending(), n)
		}
	}
	if a.out.reserve(b.Addr()) != nil {
		t.Error("a full stage takes one more frame")
	}
	if _, next := a.Poll(1000, &collect{}); next != clock.Time(1000).Add(retry) {
		t.Errorf("with frames waiting for the kernel, next is %d; want %d", next, clock.Time(1000).Add(retry))
	}
	a.Flush(0)
	if _, next := a.Poll(1000, &collect{}); next != clock.Never {
		t.Errorf("with no frame waiting, next is %d; want Never", next)
	}
	in := &collect{}
	for range 10 {
		b.Poll(0, in)
	}
	if len(in.frames) != n || string(in.frames[n-1]) != fmt.Sprint(n-1) {
		t.Errorf("%d of %d frames arrived, or not in order", len(in.frames), n)
	}
	if s := a.Stats(); s.Blocked != 3 || s.Unsendable+s.TooBig != 0 {
		t.Errorf("%+v; want 3 times blocked and nothing dropped", s)
	}
}

func TestErrorsOfSendingAreCountedByCauseAndCostOnlyTheFrameTheyName(t *testing.T) {
	type result struct {
		gone  int
		stats Stats
	}
	for _, test := range []struct {
		errnos []unix.Errno
		want   result
	}{
		{[]unix.Errno{unix.EINTR}, result{0, Stats{}}},
		{[]unix.Errno{unix.EMSGSIZE}, result{1, Stats{TooBig: 1}}},
		{[]unix.Errno{unix.EPERM, unix.ENETUNREACH}, result{2, Stats{Unsendable: 2}}},
		{[]unix.Errno{unix.ECONNREFUSED}, result{0, Stats{Refused: 1}}},
		{[]unix.Errno{unix.ECONNREFUSED, 0, unix.ECONNREFUSED}, result{1, Stats{Refused: 2}}},
		{[]unix.Errno{unix.ECONNREFUSED, unix.ECONNREFUSED}, result{1, Stats{Refused: 2, Unsendable: 1}}},
	} {
		a, b := pairOf(t, 1472)
		for range 5 {
			a.Reserve(b.Addr())
			a.Commit(1)
		}
		for _, errno := range test.errnos {
			if !a.account(1, errno) {
				t.Errorf("%v: sending does not go on", test.errnos)
			}
		}
		if got := (result{5 - a.out.pending(), a.Stats()}); got != test.want {
			t.Errorf("%v: %+v; want %+v", test.errnos, got, test.want)
		}
	}
}

// "A lone frame takes one plain sendto; short batches make no extra EAGAIN call after a short
// read" (PERFORMANCE.md).
func TestSystemCallsAreFew(t *testing.T) {
	a, b := pairOf(t, 1472)
	calls := func(d *Driver) uint64 {
		var c link.Counters
		d.Counters(&c)
		return c.SystemCalls
	}
	in := &collect{}
	send := func(n int) {
		for range n {
			a.Reserve(b.Addr())
			a.Commit(100)
		}
		a.Flush(0)
	}
	send(1)
	if n := calls(a); n != 1 {
		t.Errorf("a lone frame costs %d system calls; want 1", n)
	}
	if b.Poll(0, in); calls(b) != 1 || len(in.frames) != 1 {
		t.Errorf("a lone frame's receipt costs %d system calls; want 1", calls(b))
	}
	send(20)
	if n := calls(a); n != 2 {
		t.Errorf("20 frames cost %d system calls; want 1", n-1)
	}
	if b.Poll(0, in); calls(b) != 2 || len(in.frames) != 21 {
		t.Errorf("%d frames' receipt costs %d system calls; want 20 and 1", len(in.frames)-1, calls(b)-1)
	}
	before := calls(a)
	if a.Flush(0); calls(a) != before {
		t.Error("a Flush of nothing makes a system call")
	}
}

// Frames of one destination lie next to one another, as segmentation offload needs them.
func TestFramesAreStagedWithoutGaps(t *testing.T) {
	a, b := pairOf(t, 1472)
	for i := range 10 {
		a.Reserve(b.Addr())
		a.Commit(1000 + i)
	}
	end := 0
	for _, f := range a.out.waiting() {
		if int(f.off) != end {
			t.Fatalf("a frame begins at %d; want %d, the end of the one before", f.off, end)
		}
		end = f.end()
	}
	a.Flush(0)
	if a.Reserve(b.Addr()); a.out.tail != 0 {
		t.Errorf("after a Flush the stage goes on at %d; want it to start over", a.out.tail)
	}
}

func TestAddressesSurviveTheKernelsForm(t *testing.T) {
	var s sockaddr
	var z zones
	for _, text := range []string{"10.1.2.3:4660", "[2001:db8::1]:4660", "0.0.0.0:1"} {
		want := netip.MustParseAddrPort(text)
		if _, ok := s.set(want, want.Addr().Is6(), &z); !ok || s.addr(&z) != want {
			t.Errorf("%v comes back from the kernel's form as %v", want, s.addr(&z))
		}
		if _, ok := s.set(want, true, &z); !ok || s.addr(&z) != want {
			t.Errorf("%v comes back from an IPv6 socket as %v", want, s.addr(&z))
		}
	}
	if _, ok := s.set(netip.MustParseAddrPort("[fe80::1%no-such-interface]:1"), true, &z); ok {
		t.Error("a zone that does not exist is accepted")
	}
}

// A zone may be written as the interface's name and as its number. Senders of frames are
// compared, so the form of a zone must not change.
func TestAZoneKeepsItsSpellingWhateverOthersAreWrittenLater(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	number := strconv.Itoa(lo.Index)
	for _, spelt := range [][2]string{{"lo", number}, {number, "lo"}} {
		var z zones
		for _, zone := range spelt {
			if n, ok := z.index(zone); !ok || n != uint32(lo.Index) {
				t.Errorf("zone %q has the number %d, %v; want %d", zone, n, ok, lo.Index)
			}
			if got := z.name(uint32(lo.Index)); got != spelt[0] {
				t.Errorf("after zone %q, frames from zone %d are from %q; want %q", zone, lo.Index, got, spelt[0])
			}
		}
	}
}

func TestAShortSendBufferNamesItsRemedy(t *testing.T) {
	s := socket{receiveBuffer: 4 << 20, sendBuffer: 200 << 10}
	if got, want := s.explain(4<<20), "send buffer only 200 KiB: for more, sysctl -w net.core.wmem_max=4194304"; !strings.Contains(got, want) {
		t.Errorf("explain says %q; want %q", got, want)
	}
	if got := s.explain(200 << 10); strings.Contains(got, "send") {
		t.Errorf("with the buffer for sending as large as wanted, explain says %q", got)
	}
}
