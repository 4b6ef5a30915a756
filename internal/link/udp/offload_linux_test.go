//go:build linux && !portable

package udp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// offloading skips the test, with the reason, on a kernel that lacks offload in either
// direction.
func offloading(t *testing.T) {
	t.Helper()
	send, receive, _ := testOffload(netip.MustParseAddr("127.0.0.1"))
	if send != nil || receive != nil {
		t.Skip(explainOffload(send, receive))
	}
}

// drain polls d until in has n frames.
func drain(t *testing.T, d *Driver, in *collect, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(in.frames) < n; {
		d.Poll(0, in)
		if time.Now().After(end) {
			t.Fatalf("%d of %d frames have arrived", len(in.frames), n)
		}
	}
}

func framesBatched(d *Driver) uint64 {
	var c link.Counters
	d.Counters(&c)
	return c.FramesBatched
}

func TestABatchHasFramesOfOneLengthForOneAddressAndTheLastMayBeShorter(t *testing.T) {
	const x, y = 0, 1
	for _, test := range []struct {
		frames []staged
		want   int
	}{
		{[]staged{{to: x, size: 9}}, 1},
		{[]staged{{to: x, size: 9}, {to: x, size: 9}, {to: x, size: 9}}, 3},
		{[]staged{{to: x, size: 9}, {to: x, size: 9}, {to: y, size: 9}}, 2},
		{[]staged{{to: x, size: 9}, {to: x, size: 8}, {to: x, size: 8}}, 2},
		{[]staged{{to: x, size: 8}, {to: x, size: 9}}, 1},
		{[]staged{{to: x, size: 8}, {to: x, size: 0}}, 1},
		{[]staged{{to: x, size: 0}, {to: x, size: 0}}, 1},
		{[]staged{{to: x, size: 30000}, {to: x, size: 30000}, {to: x, size: 30000}}, 2},
		{[]staged{{to: x, size: 30000}, {to: x, size: 30000}, {to: x, size: 5507}}, 3},
		{[]staged{{to: x, size: 30000}, {to: x, size: 30000}, {to: x, size: 5508}}, 2},
	} {
		s := stage{frames: test.frames}
		if got := s.batch(0); got != test.want {
			t.Errorf("of %v, %d leave as one batch; want %d", test.frames, got, test.want)
		}
	}
}

func TestFramesOfAllLengthsArriveAsTheyWereSentByBatchesToo(t *testing.T) {
	offloading(t)
	a, b := pairOf(t, 1472)
	c, _ := pairOf(t, 1472)
	r := rand.New(rand.NewPCG(7, 7))
	var want [2][][]byte
	in := [2]*collect{{}, {}}
	size := 1472
	for round := range 100 {
		for range r.IntN(64) {
			if r.IntN(4) == 0 {
				size = r.IntN(1473)
			}
			to, n := 0, size
			if r.IntN(8) == 0 {
				to = 1
			}
			if r.IntN(4) == 0 {
				n = r.IntN(size + 1)
			}
			f := bytes.Repeat([]byte{byte(len(want[to])), byte(round)}, n/2+1)[:n]
			copy(a.Reserve([]*Driver{b, c}[to].Addr()), f)
			a.Commit(n)
			want[to] = append(want[to], f)
		}
		a.Flush(0)
		drain(t, b, in[0], len(want[0]))
		drain(t, c, in[1], len(want[1]))
	}
	for to := range want {
		if !slices.EqualFunc(in[to].frames, want[to], bytes.Equal) {
			t.Errorf("the frames for destination %d differ from what was sent", to)
		}
	}
	if framesBatched(a) == 0 || b.sock.in.mode != modeBulk {
		t.Errorf("%d frames left in batches, and the receiver is in mode %d; the test has tested nothing", framesBatched(a), b.sock.in.mode)
	}
}

func TestAFullStageIsOneSystemCallEachWay(t *testing.T) {
	offloading(t)
	a, b := pairOf(t, 1472)
	in := &collect{}
	round := func() (out, back uint64) {
		was, had := a.counters.SystemCalls, b.counters.SystemCalls
		n := 0
		for ; n == 0 || !a.out.full(); n++ {
			a.Reserve(b.Addr())
			a.Commit(1472)
		}
		if a.out.tail > Largest || n != Largest/1472 {
			t.Fatalf("the stage is full with %d frames, %d bytes; a batch has room for %d", n, a.out.tail, Largest/1472)
		}
		a.Flush(0)
		drain(t, b, in, len(in.frames)+n)
		return a.counters.SystemCalls - was, b.counters.SystemCalls - had
	}
	round()
	if out, back := round(); out != 1 || back != 1 {
		t.Errorf("a batch costs %d and %d system calls; want 1 and 1", out, back)
	}
}

func TestAPollHandsOverABatchAndComesBackForTheRestAtOnce(t *testing.T) {
	offloading(t)
	a, b := pairOf(t, 1472)
	in := &collect{}
	send := func(frames int) {
		for range frames {
			a.Reserve(b.Addr())
			a.Commit(100)
		}
		a.Flush(0)
	}
	send(60)
	drain(t, b, in, 60)
	in.frames = nil
	for range 3 {
		send(60)
	}
	for _, want := range []int{limits.PollBatch, limits.PollBatch, 180 - 2*limits.PollBatch} {
		n, next := b.Poll(7, in)
		if n != want {
			t.Errorf("a poll hands over %d frames; want %d", n, want)
		}
		if left := len(in.frames) < 180; left != (next == 7) {
			t.Errorf("with %d of 180 frames handed over, next is %d", len(in.frames), next)
		}
	}
}

// An error of the kernel or the card about batches must not lose a frame.
func TestARefusedBatchGoesFrameByFrame(t *testing.T) {
	offloading(t)
	for _, test := range []struct {
		errno unix.Errno
		plain bool // from now on
	}{
		{unix.EIO, true}, {unix.EINVAL, true}, {unix.EOPNOTSUPP, true}, {unix.EMSGSIZE, false},
	} {
		a, b := pairOf(t, 1472)
		_, c := pairOf(t, 1472)
		var said []string
		a.log = func(text string) { said = append(said, text) }
		in := &collect{}
		send := func(to *Driver) {
			for range 5 {
				a.Reserve(to.Addr())
				a.Commit(1000)
			}
		}
		send(b)
		if !a.account(5, test.errno) || a.out.pending() != 5 {
			t.Fatalf("%v: sending does not go on, or frames are gone", test.errno)
		}
		a.Flush(0)
		drain(t, b, in, 5)
		if n := framesBatched(a); n != 0 {
			t.Errorf("%v: %d of the frames left in a batch all the same", test.errno, n)
		}
		send(b)
		a.Flush(0)
		if plain := framesBatched(a) == 0; plain != test.plain {
			t.Errorf("%v: later frames leave one by one: %v; want %v", test.errno, plain, test.plain)
		}
		was := framesBatched(a)
		send(c)
		if a.Flush(0); framesBatched(a) != was+5 {
			t.Errorf("%v: frames for others leave one by one too", test.errno)
		}
		if test.plain && (len(said) != 1 || !strings.Contains(said[0], b.Addr().String()) || !strings.Contains(said[0], test.errno.Error())) {
			t.Errorf("%v: the log says %q; want the address and the error, once", test.errno, said)
		}
		if s := a.Stats(); s != (Stats{}) {
			t.Errorf("%v: %+v; want nothing dropped", test.errno, s)
		}
	}
}

// Nothing can be sent to port 0, and the kernel reports that by the same error as a lack of
// batches.
func TestABatchWhoseFramesCannotBeSentSaysNothingOfBatches(t *testing.T) {
	offloading(t)
	a, b := pairOf(t, 1472)
	refused := 0
	a.log = func(text string) {
		if refused++; refused > 1 || text != "frames for 127.0.0.1:0 do not leave this host, since the system says: invalid argument" {
			t.Errorf("the log says %q", text)
		}
	}
	send := func(to link.Addr, last int) {
		for i := range 5 {
			a.Reserve(to)
			if i == 4 {
				a.Commit(last)
			} else {
				a.Commit(1000)
			}
		}
	}
	for i := range 2 * limits.PlainDestinations {
		send(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), 0), 1000)
		a.Flush(0)
	}
	if s := a.Stats(); s != (Stats{Unsendable: 10 * limits.PlainDestinations}) {
		t.Errorf("%+v; want all frames unsendable", s)
	}
	// Over an interface that has become narrow, on which the last frame still fits.
	send(b.Addr(), 100)
	if !a.account(5, unix.EINVAL) {
		t.Fatal("sending does not go on")
	}
	for range 4 {
		a.account(1, unix.EMSGSIZE)
	}
	a.Flush(0)
	if !a.sock.offload.batches(b.Addr()) {
		t.Error("frames that are too long are taken for a destination that batches do not get through to")
	}
}

func TestManyDoubtfulDestinationsEndBatchesForAll(t *testing.T) {
	offloading(t)
	a, b := pairOf(t, 1472)
	said := 0
	a.log = func(string) { said++ }
	for i := range limits.PlainDestinations + 5 {
		to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(i+1))
		a.DoubtBatches(to)
		a.DoubtBatches(to)
	}
	if a.sock.offload.batches(b.Addr()) || said != limits.PlainDestinations+1 {
		t.Errorf("batches still leave, or it was said %d times; want once for each, and once for all", said)
	}
}

func TestWhatTheKernelTellsOfABuffer(t *testing.T) {
	message := func(level, kind int32, data ...byte) []byte {
		b := binary.NativeEndian.AppendUint64(nil, uint64(unix.CmsgLen(len(data))))
		b = binary.NativeEndian.AppendUint32(b, uint32(level))
		b = binary.NativeEndian.AppendUint32(b, uint32(kind))
		b = append(b, data...)
		return append(b, make([]byte, unix.CmsgSpace(len(data))-len(b))...)
	}
	word := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	gro := message(unix.IPPROTO_UDP, unix.UDP_GRO, word(1472)...)
	tos := func(b byte) []byte { return message(unix.IPPROTO_IP, unix.IP_TOS, b) }
	class := func(n uint32) []byte { return message(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, word(n)...) }
	var s socket
	for _, test := range []struct {
		name string
		in   []byte
		want told
	}{
		{"nothing", nil, told{}},
		{"a length", gro, told{1472, false}},
		{"no mark", tos(2), told{}},
		{"a mark, with a class of service", tos(0xb8 | 3), told{0, true}},
		{"both", append(tos(3), gro...), told{1472, true}},
		{"both, of IPv6", append(bytes.Clone(gro), class(3)...), told{1472, true}},
		{"something unknown first", append(message(1, 29, make([]byte, 12)...), gro...), told{1472, false}},
	} {
		if got := s.told(test.in); got != test.want {
			t.Errorf("%s: %+v; want %+v", test.name, got, test.want)
		}
		for n := range test.in {
			s.told(test.in[:n]) // must not panic
		}
	}
}

func TestMarksOfCongestionAreCountedWhereMuchComes(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		t.Run(ip, func(t *testing.T) {
			b, err := Listen(Config{Addr: netip.AddrPortFrom(netip.MustParseAddr(ip), 0)})
			if err != nil {
				t.Skip("this host has no such address:", err)
			}
			t.Cleanup(func() { b.Close() })
			a, err := Listen(Config{Addr: netip.AddrPortFrom(b.Addr().Addr(), 0)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { a.Close() })
			if b.Addr().Addr().Is4() {
				err = unix.SetsockoptInt(a.sock.fd, unix.IPPROTO_IP, unix.IP_TOS, ecnMarked)
			} else {
				err = unix.SetsockoptInt(a.sock.fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, ecnMarked)
			}
			if err != nil {
				t.Skip("this system does not let the mark be set:", err)
			}
			in := &collect{}
			for range 2 {
				for range 40 {
					a.Reserve(b.Addr())
					a.Commit(100)
				}
				a.Flush(0)
				drain(t, b, in, len(in.frames)+40)
			}
			var c link.Counters
			if b.Counters(&c); c.ECNMarked != 40 {
				t.Errorf("%d frames counted as marked; want those of the second burst, 40", c.ECNMarked)
			}
		})
	}
}

func TestBulkEndsWhenLittleComes(t *testing.T) {
	offloading(t)
	a, b := pairOf(t, 1472)
	in := &collect{}
	for range 40 {
		a.Reserve(b.Addr())
		a.Commit(100)
	}
	a.Flush(0)
	drain(t, b, in, 40)
	option := func() int {
		n, err := unix.GetsockoptInt(b.sock.fd, unix.IPPROTO_UDP, unix.UDP_GRO)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if b.sock.in.mode != modeBulk || option() != 1 {
		t.Fatalf("after 40 frames at once the mode is %d, UDP_GRO is %d", b.sock.in.mode, option())
	}
	for i := range 2 * bulkPolls {
		if i%8 == 0 { // a ping-pong is no bulk
			a.Reserve(b.Addr())
			a.Commit(64)
			a.Flush(0)
		}
		b.Poll(0, in)
	}
	if b.sock.in.mode == modeBulk || option() != 0 {
		t.Errorf("after %d polls that brought little the mode is %d, UDP_GRO is %d", 2*bulkPolls, b.sock.in.mode, option())
	}
}

func TestBulkAllocatesNothing(t *testing.T) {
	a, b := pairOf(t, 1472)
	c := &counted{}
	sent := 0
	round := func() {
		for range 100 {
			a.Reserve(b.Addr())
			a.Commit(1472)
			sent++
		}
		a.Flush(0)
		for end := time.Now().Add(time.Minute); c.frames < sent && time.Now().Before(end); {
			if n, _ := b.Poll(0, c); n == 0 {
				time.Sleep(10 * time.Microsecond)
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(200, round); n > 0 || c.frames != sent {
		t.Errorf("100 frames cost %v allocations, and %d of %d have arrived; want none, and all", n, c.frames, sent)
	}
}

type counted struct{ frames int }

func (c *counted) Receive(clock.Time, link.Addr, []byte) { c.frames++ }

func (c *counted) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

func TestExplainSaysWhatIsOffloadedAndWhyNot(t *testing.T) {
	d, err := Listen(Config{Addr: netip.MustParseAddrPort("127.0.0.1:0"), NoOffload: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if !strings.Contains(d.Explain(), "as configured") || d.sock.offload.batches(d.Addr()) || d.sock.offload.receive || d.Offload() != "none" {
		t.Errorf("with the kill switch set, %+v: %s", d.sock.offload, d.Explain())
	}
	for want, o := range map[string]offload{"both": {send: true, receive: true}, "send": {send: true}, "receive": {receive: true}} {
		if d.sock.offload = o; d.Offload() != want {
			t.Errorf("Offload() = %q; expected %q", d.Offload(), want)
		}
	}
	d.sock.offload = offload{}
	none := errors.New("this kernel has none")
	for _, test := range []struct {
		send, receive error
		want          string
	}{
		{nil, nil, "both ways"},
		{nil, none, "sending only (GSO): this kernel has none"},
		{none, nil, "receiving only (GRO): this kernel has none"},
		{none, fmt.Errorf("nor that"), "no segmentation offload: this kernel has none; nor that"},
	} {
		if got := explainOffload(test.send, test.receive); !strings.Contains(got, test.want) {
			t.Errorf("explainOffload(%v, %v) = %q; want %q", test.send, test.receive, got, test.want)
		}
	}
}

// The bytes that rel allows in flight to a receiver, with limits.FrameCost for each frame, must
// fit the socket buffer in whatever form they arrive: in batches that stay whole, or one by one.
func TestABurstOfTheAnnouncedCapacityDoesNotOverrunTheReceiver(t *testing.T) {
	for _, coalesce := range []bool{false, true} {
		for _, size := range []int{64, 700, 1472, limits.LoopbackFrame} {
			cfg := Config{Addr: netip.MustParseAddrPort("127.0.0.1:0"), MTU: limits.LoopbackFrame, SocketBuffer: limits.ReceiveCapacityBytes}
			a, errA := Listen(cfg)
			b, errB := Listen(cfg)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if coalesce {
				b.sock.in.mode, b.sock.in.told = modeBulk, true
				b.sock.tell(1)
			}
			n := b.ReceiveBuffer() / (size + limits.FrameCost)
			for range n {
				a.Reserve(b.Addr())
				a.Commit(size)
			}
			a.Flush(0)
			in := &counted{}
			for end := time.Now().Add(time.Minute); in.frames < n && time.Now().Before(end); {
				b.Poll(0, in)
			}
			if s := b.Stats(); in.frames != n || s.Overrun != 0 {
				t.Errorf("coalesced %v: of %d frames of %d bytes, which the buffer of %d is to hold, %d have arrived and %d found no room",
					coalesce, n, size, b.ReceiveBuffer(), in.frames, s.Overrun)
			}
			a.Close()
			b.Close()
		}
	}
}
