// Package linktest is the test suite for all drivers. It checks the promises in the comments of
// link.Driver.
//
//	func TestDriver(t *testing.T) { linktest.Run(t, linktest.Suite{Make: …}) }
//
// A driver without promises may lose frames. But over loopback, with one frame at a time and
// without injected faults, it has no reason to, and the suite checks that it loses none.
package linktest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// Suite describes the drivers under test and what they claim.
type Suite struct {
	// Make returns two new drivers that reach each other. It closes them by tb.Cleanup.
	Make func(tb testing.TB) (a, b link.Driver)

	// Claims are the promises of the drivers.
	Claims link.Properties

	// Bounded means that Reserve returns nil, sooner or later, while the receiver does not poll.
	// A driver that drops frames for which the receiver has no room is not Bounded.
	Bounded bool

	// Nobody is an address without a driver. The zero value skips that test.
	Nobody link.Addr

	// Late means that frames are handed over later than the driver gets them. So Peek need not
	// show a frame at once.
	Late bool

	// Allocates means that the driver may allocate in its steady state. Only a driver with a
	// documented reason sets it.
	Allocates bool
}

// Run runs the whole suite.
func Run(t *testing.T, s Suite) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Suite)
	}{
		{"a frame arrives as it was sent, from the address of its sender", testDelivery},
		{"frames of every size up to the MTU arrive", testSizes},
		{"many frames in batches arrive, in order if that is claimed", testBatches},
		{"a run of frames is written and committed at once", testRun},
		{"a posted frame leaves at once, behind those that were committed", testPost},
		{"a lone frame leaves at one step, behind those that were committed", testPostLone},
		{"a frame can be looked at before it is taken", testPeek},
		{"a glance sees a frame, and none where there is none", testGlance},
		{"a sleeper is told of frames, or woken by them", testSleep},
		{"doubts about batches lose nothing", testDoubt},
		{"an abandoned reservation sends nothing", testAbort},
		{"a frame never exceeds the MTU", testBounds},
		{"a full receiver makes Reserve say nil, and draining it helps", testFull},
		{"frames from within Receive arrive", testEcho},
		{"the claims are those that were stated", testClaims},
		{"the counters count frames and bytes", testCounters},
		{"a frame for an address without a driver is accepted and harms nothing", testNobody},
		{"nothing arrives after Close, and Close may be repeated", testClose},
		{"a driver that is closed by what it receives hands over nothing more", testCloseWithin},
		{"the steady state allocates nothing", testAllocations},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// patience is the longest time that the suite waits, in real time, for a frame that must arrive.
const patience = time.Minute

var epoch = time.Now()

func now() clock.Time { return clock.Time(time.Since(epoch)) }

// Inbox is a Receiver that keeps copies of the frames.
type Inbox struct {
	Frames [][]byte
	From   []link.Addr
}

// Receive implements link.Receiver.
func (in *Inbox) Receive(_ clock.Time, from link.Addr, frame []byte) {
	in.Frames = append(in.Frames, bytes.Clone(frame))
	in.From = append(in.From, from)
}

func (in *Inbox) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(in, now, from, frames, size)
}

// Send sends one frame, and fails the test if d does not accept it.
func Send(tb testing.TB, d link.Driver, to link.Addr, frame []byte) {
	tb.Helper()
	if !trySend(d, to, frame) {
		tb.Fatalf("Reserve(%v) = nil on an idle link", to)
	}
	d.Flush(now())
}

func trySend(d link.Driver, to link.Addr, frame []byte) bool { return put(d, d.Caps().Copy, to, frame) }

// put writes a frame without a Flush, and reports whether d accepted it. It writes by copies,
// unless that is nil.
func put(d link.Driver, copies func(to, from []byte), to link.Addr, frame []byte) bool {
	b := d.Reserve(to)
	if b == nil {
		return false
	}
	if copies == nil || len(b) < len(frame) {
		d.Commit(copy(b, frame))
		return true
	}
	copies(b, frame)
	d.Commit(len(frame))
	return true
}

// Collect polls d until in has n frames. It fails the test if they do not arrive in time.
func Collect(tb testing.TB, d link.Driver, in *Inbox, n int) {
	tb.Helper()
	for end := time.Now().Add(patience); len(in.Frames) < n; {
		d.Poll(now(), in)
		if time.Now().After(end) {
			tb.Fatalf("%d frames have arrived after %v; expected %d", len(in.Frames), patience, n)
		}
	}
}

// settle polls d for 20 ms and fails the test if anything arrives.
func settle(tb testing.TB, d link.Driver, why string) {
	tb.Helper()
	var in Inbox
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		d.Poll(now(), &in)
	}
	if len(in.Frames) > 0 {
		tb.Fatalf("%s: a frame of %d bytes has arrived", why, len(in.Frames[0]))
	}
}

// content returns n bytes that are different for every seed.
func content(seed uint64, n int) []byte {
	b := make([]byte, n+8)
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b[:n]
}

func testDelivery(t *testing.T, s Suite) {
	a, b := s.Make(t)
	if a.Addr() == b.Addr() || !a.Addr().IsValid() || !b.Addr().IsValid() {
		t.Fatalf("addresses %v and %v: expected two different ones", a.Addr(), b.Addr())
	}
	for _, dir := range []struct{ from, to link.Driver }{{a, b}, {b, a}} {
		var in Inbox
		want := content(1, 100)
		Send(t, dir.from, dir.to.Addr(), want)
		Collect(t, dir.to, &in, 1)
		if !bytes.Equal(in.Frames[0], want) {
			t.Errorf("frame from %v differs from what was sent", dir.from.Addr())
		}
		if in.From[0] != dir.from.Addr() {
			t.Errorf("frame is from %v; expected %v", in.From[0], dir.from.Addr())
		}
	}
}

func testSizes(t *testing.T, s Suite) {
	a, b := s.Make(t)
	sizes := []int{0, 1, 15, 16, 17, 64, 96, 255, 256, 257, 500, 1472,
		1500, 4096, 9000, 16384, 65000, 65507, 65535, 65536}
	sizes = append(sizes, a.MTU()-1, a.MTU())
	for _, n := range sizes {
		if n > a.MTU() {
			continue
		}
		var in Inbox
		want := content(2, n)
		Send(t, a, b.Addr(), want)
		Collect(t, b, &in, 1)
		if !bytes.Equal(in.Frames[0], want) {
			t.Errorf("%d bytes were sent, %d have arrived, and they differ", n, len(in.Frames[0]))
		}
	}
	settle(t, b, "after all sizes")
}

func testBatches(t *testing.T, s Suite) {
	a, b := s.Make(t)
	const rounds, burst = 50, 16
	r := rand.New(rand.NewPCG(3, 3))
	var in Inbox
	var want [][]byte
	for range rounds {
		for range burst {
			f := content(uint64(len(want)), 8+r.IntN(min(a.MTU(), 2000)-8))
			binary.LittleEndian.PutUint64(f, uint64(len(want)))
			if !trySend(a, b.Addr(), f) {
				t.Fatalf("Reserve = nil after %d frames of a burst of %d", len(want)%burst, burst)
			}
			want = append(want, f)
		}
		a.Flush(now())
		Collect(t, b, &in, len(want))
	}
	for i, f := range in.Frames {
		n := i
		if !s.Claims.Ordered {
			n = int(binary.LittleEndian.Uint64(f))
		}
		if !bytes.Equal(f, want[n]) {
			t.Fatalf("frame %d differs from what was sent", n)
		}
	}
	settle(t, b, "after all frames")
}

func testAbort(t *testing.T, s Suite) {
	a, b := s.Make(t)
	for range 3 {
		if f := a.Reserve(b.Addr()); len(f) != a.MTU() {
			t.Fatalf("Reserve offers %d bytes; expected the MTU, %d", len(f), a.MTU())
		}
	}
	a.Flush(now())
	settle(t, b, "after reservations without Commit")

	a.Reserve(a.Addr())
	var in Inbox
	Send(t, a, b.Addr(), []byte("the second reservation"))
	Collect(t, b, &in, 1)
	settle(t, a, "after a reservation that was replaced")
}

func testBounds(t *testing.T, s Suite) {
	a, b := s.Make(t)
	if a.MTU() < 548 || a.MTU() > 64<<10 {
		t.Fatalf("MTU of %d bytes: not in 548…65536", a.MTU())
	}
	for _, n := range []int{-1, a.MTU() + 1} {
		a.Reserve(b.Addr())
		if !panics(func() { a.Commit(n) }) {
			t.Errorf("Commit(%d) with an MTU of %d does not panic", n, a.MTU())
		}
	}
	Send(t, a, b.Addr(), nil)
	if !panics(func() { a.Commit(0) }) {
		t.Error("a second Commit of one reservation does not panic")
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func testFull(t *testing.T, s Suite) {
	if !s.Bounded {
		t.Skip("the driver loses what its receiver has no room for")
	}
	a, b := s.Make(t)
	var in Inbox
	sent := 0
	for trySend(a, b.Addr(), content(uint64(sent), 8)) {
		if sent++; sent > 1<<20 {
			t.Fatal("a million frames are waiting, and Reserve still takes more")
		}
	}
	a.Flush(now())
	Collect(t, b, &in, 1)
	for trySend(a, b.Addr(), content(uint64(sent), 8)) {
		sent++
	}
	a.Flush(now())
	Collect(t, b, &in, sent)
	for i, f := range in.Frames {
		if !bytes.Equal(f, content(uint64(i), 8)) {
			t.Fatalf("frame %d of %d is not the one that was sent", i, sent)
		}
	}
	Send(t, a, b.Addr(), nil)
}

// echo returns every frame at once.
type echo struct {
	d      link.Driver
	frames int
}

func (e *echo) Receive(_ clock.Time, from link.Addr, frame []byte) {
	if trySend(e.d, from, frame) {
		e.frames++
	}
}

func (e *echo) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(e, now, from, frames, size)
}

func testEcho(t *testing.T, s Suite) {
	a, b := s.Make(t)
	e := &echo{d: b}
	var in Inbox
	const burst = 8
	for i := range burst {
		trySend(a, b.Addr(), content(uint64(i), 300))
	}
	a.Flush(now())
	for end := time.Now().Add(patience); e.frames < burst && time.Now().Before(end); {
		b.Poll(now(), e)
	}
	b.Flush(now())
	Collect(t, a, &in, burst)
	for i, f := range in.Frames {
		if s.Claims.Ordered && !bytes.Equal(f, content(uint64(i), 300)) {
			t.Errorf("echo %d differs from what was sent", i)
		}
	}
}

func testClaims(t *testing.T, s Suite) {
	a, b := s.Make(t)
	for _, d := range []link.Driver{a, b} {
		if got := d.Properties(); got != s.Claims {
			t.Errorf("Properties() = %+v; expected %+v", got, s.Claims)
		}
	}
}

func testCounters(t *testing.T, s Suite) {
	a, b := s.Make(t)
	var in Inbox
	for i := range 10 {
		Send(t, a, b.Addr(), content(5, 100+i))
		Collect(t, b, &in, i+1)
	}
	var out, into link.Counters
	a.Counters(&out)
	b.Counters(&into)
	if out.FramesOut != 10 || out.BytesOut != 1045 || out.DroppedOut != 0 || out.FramesIn != 0 {
		t.Errorf("the sender counts %+v; expected 10 frames and 1045 bytes out", out)
	}
	if into.FramesIn != 10 || into.BytesIn != 1045 || into.DroppedIn != 0 || into.FramesOut != 0 {
		t.Errorf("the receiver counts %+v; expected 10 frames and 1045 bytes in", into)
	}
	a.Counters(&out)
	if out.FramesOut != 20 {
		t.Errorf("Counters into used counters gives %d frames; expected the sum, 20", out.FramesOut)
	}
}

func testNobody(t *testing.T, s Suite) {
	if !s.Nobody.IsValid() {
		t.Skip("the suite was given no such address")
	}
	a, b := s.Make(t)
	var in Inbox
	for i := range 20 {
		Send(t, a, s.Nobody, content(6, 50))
		a.Poll(now(), &in)
		Send(t, a, b.Addr(), content(7, 50))
		Collect(t, b, &in, i+1)
	}
}

func testClose(t *testing.T, s Suite) {
	a, b := s.Make(t)
	Send(t, a, b.Addr(), content(8, 50))
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	settle(t, b, "after Close")
	if f := b.Reserve(a.Addr()); f != nil {
		t.Error("Reserve of a closed driver offers a buffer")
	}
	b.Flush(now())
	Send(t, a, b.Addr(), content(8, 50))
	settle(t, a, "after the peer's Close")
}

// closer closes the driver at the first frame that it receives.
type closer struct {
	d link.Driver
	// calls counts Receive and ReceiveRun. after counts the frames that arrived after Close.
	calls, after int
}

func (c *closer) Receive(clock.Time, link.Addr, []byte) { c.got(1) }

func (c *closer) ReceiveRun(_ clock.Time, _ link.Addr, frames []byte, size int) {
	c.got((len(frames) + size - 1) / size)
}

func (c *closer) got(frames int) {
	if c.calls++; c.calls > 1 {
		c.after += frames
		return
	}
	c.d.Close()
}

func testCloseWithin(t *testing.T, s Suite) {
	a, b := s.Make(t)
	var in Inbox
	Send(t, a, b.Addr(), content(10, 50)) // the path is open when the first frame has arrived
	Collect(t, b, &in, 1)
	for i := range 8 {
		trySend(a, b.Addr(), content(uint64(i), 50+i))
	}
	trySend(b, b.Addr(), content(11, 50)) // it may take another path than the others
	a.Flush(now())
	b.Flush(now())
	time.Sleep(time.Millisecond) // so that the first poll finds several frames
	c := &closer{d: b}
	for end := time.Now().Add(patience); c.calls == 0 && time.Now().Before(end); {
		b.Poll(now(), c)
	}
	settle(t, b, "after Close")
	if c.calls == 0 || c.after > 0 {
		t.Errorf("%d frames were handed over after Close, in %d calls", c.after, c.calls)
	}
}

// counter is a Receiver that only counts.
type counter struct{ frames int }

func (c *counter) Receive(clock.Time, link.Addr, []byte) { c.frames++ }

func (c *counter) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

func testAllocations(t *testing.T, s Suite) {
	if s.Allocates {
		t.Skip("the driver says that it allocates")
	}
	a, b := s.Make(t)
	frame, copies := content(9, 200), a.Caps().Copy
	c := &counter{}
	sent := 0
	round := func() {
		for range 8 {
			if put(a, copies, b.Addr(), frame) {
				sent++
			}
		}
		at := now()
		a.Flush(at)
		for end := time.Now().Add(patience); c.frames < sent && time.Now().Before(end); {
			if n, _ := b.Poll(at, c); n == 0 {
				// AllocsPerRun leaves one core, and a driver may have a goroutine.
				time.Sleep(10 * time.Microsecond)
			}
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(500, round); n > 0 {
		t.Errorf("8 frames cost %v allocations; expected none", n)
	}
	if c.frames != sent {
		t.Errorf("%d of %d frames have arrived", c.frames, sent)
	}
	if n := idleAllocations(b); n > 0 {
		t.Errorf("%d polls that bring nothing cost %v allocations; expected none", idlePolls, n)
	}
}

// idlePolls is more than the number of polls between two rare tasks of a driver.
const idlePolls = 10_000

// idleAllocations returns the allocations of idlePolls polls of an idle driver. It repeats the
// count, to leave out what a driver does only once, and what other goroutines do meanwhile.
func idleAllocations(d link.Driver) (n float64) {
	c := &counter{}
	for range 3 {
		n = testing.AllocsPerRun(1, func() {
			for range idlePolls {
				d.Poll(now(), c)
			}
		})
		if n == 0 {
			break
		}
	}
	return n
}
