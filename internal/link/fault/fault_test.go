package fault_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/link/udp"
)

func TestDriverWithoutFaults(t *testing.T) {
	linktest.Run(t, linktest.Suite{
		Make: func(testing.TB) (a, b link.Driver) {
			s := mem.NewSwitch(mem.Config{MTU: limits.MaxFrame})
			return fault.Wrap(s.Port(), fault.Config{}), fault.Wrap(s.Port(), fault.Config{})
		},
		Bounded: true,
		Nobody:  mem.Address(77),
	})
}

func TestUDPWithoutFaults(t *testing.T) {
	listen := func(tb testing.TB) link.Driver {
		d, err := udp.Listen(udp.Config{Addr: netip.MustParseAddrPort("127.0.0.1:0")})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { d.Close() })
		return fault.Wrap(d, fault.Config{})
	}
	linktest.Run(t, linktest.Suite{Make: func(tb testing.TB) (a, b link.Driver) { return listen(tb), listen(tb) }})
}

func TestDriverWithDelay(t *testing.T) {
	linktest.Run(t, linktest.Suite{
		Make: func(testing.TB) (a, b link.Driver) {
			s := mem.NewSwitch(mem.Config{})
			cfg := fault.Config{Delay: time.Microsecond}
			return fault.Wrap(s.Port(), cfg), fault.Wrap(s.Port(), cfg)
		},
		Bounded: true,
		Late:    true,
		// The suite's clock stands still for a round. Delays have a separate allocation test.
		Allocates: true,
	})
}

// pair is a sender and a receiver with faults, on virtual time.
type pair struct {
	t    *testing.T
	a    *mem.Port
	b    *fault.Driver
	now  clock.Time
	next clock.Time // returned by the last Poll
	in   linktest.Inbox
	at   []clock.Time // arrival times of the frames of in
}

func newPair(t *testing.T, cfg fault.Config) *pair {
	s := mem.NewSwitch(mem.Config{})
	return &pair{t: t, a: s.Port(), b: fault.Wrap(s.Port(), cfg), now: 1000}
}

// send sends frames with the numbers first…first+n-1, of size bytes each.
func (p *pair) send(first, n, size int) {
	for i := range n {
		f := p.a.Reserve(p.b.Addr())
		if f == nil {
			p.t.Fatal("the queue is full")
		}
		for j := range f[:size] {
			f[j] = 0
		}
		binary.LittleEndian.PutUint32(f, uint32(first+i))
		p.a.Commit(size)
		p.poll()
	}
}

func (p *pair) poll() {
	n, next := p.b.Poll(p.now, &p.in)
	p.next = next
	for range n {
		p.at = append(p.at, p.now)
	}
	if len(p.at) != len(p.in.Frames) {
		p.t.Fatalf("Poll returns %d frames in all, but %d were handed over", len(p.at), len(p.in.Frames))
	}
}

// drain advances from deadline to deadline until no frame is left.
func (p *pair) drain() {
	for p.poll(); p.next != clock.Never; p.poll() {
		p.now = max(p.now, p.next)
	}
}

func (p *pair) numbers() []int {
	var out []int
	for _, f := range p.in.Frames {
		out = append(out, int(binary.LittleEndian.Uint32(f)))
	}
	return out
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// near reports whether got of n matches a rate within five standard deviations.
func near(got uint64, rate float64, n int) bool {
	mean := rate * float64(n)
	return math.Abs(float64(got)-mean) <= 5*math.Sqrt(mean*(1-rate))
}

func TestLossLosesItsShareAndCountsIt(t *testing.T) {
	const n = 20000
	p := newPair(t, fault.Config{Seed: 1, Loss: 0.05})
	p.send(0, n, 8)
	p.drain()
	c := p.b.Counts()
	if !near(c.Lost, 0.05, n) {
		t.Errorf("%d of %d frames lost at a rate of 0.05", c.Lost, n)
	}
	if c.Lost+c.Passed != n || int(c.Passed) != len(p.in.Frames) {
		t.Errorf("%d lost, %d passed, %d arrived; want %d in all", c.Lost, c.Passed, len(p.in.Frames), n)
	}
	var counters link.Counters
	p.b.Counters(&counters)
	if counters.DroppedIn != c.Lost || counters.FramesIn != c.Passed || counters.BytesIn != 8*c.Passed {
		t.Errorf("Counters = %+v; want the same as %+v", counters, c)
	}
}

func TestDuplicatesComeTwice(t *testing.T) {
	const n = 20000
	p := newPair(t, fault.Config{Seed: 2, Duplicate: 0.1})
	p.send(0, n, 8)
	p.drain()
	c := p.b.Counts()
	if !near(c.Duplicated, 0.1, n) || len(p.in.Frames) != n+int(c.Duplicated) {
		t.Errorf("%d duplicates counted, %d frames of %d arrived", c.Duplicated, len(p.in.Frames), n)
	}
	if got := slices.Compact(p.numbers()); !slices.Equal(got, upTo(n)) {
		t.Error("without their duplicates the frames are not those that were sent, in order")
	}
}

func TestCorruptFramesDifferInOneOrTwoBytesAndNeverInNone(t *testing.T) {
	const n, size = 5000, 40
	p := newPair(t, fault.Config{Seed: 3, Corrupt: 1})
	p.send(0, n, size)
	p.drain()
	if len(p.in.Frames) != n {
		t.Fatalf("%d of %d frames arrived", len(p.in.Frames), n)
	}
	two := 0
	for i, f := range p.in.Frames {
		want := make([]byte, size)
		binary.LittleEndian.PutUint32(want, uint32(i))
		differing := 0
		for j := range f {
			if bits.OnesCount8(f[j]^want[j]) > 0 {
				differing++
			}
		}
		if len(f) != size || differing < 1 || differing > 2 {
			t.Fatalf("frame %d has %d bytes, %d of them changed", i, len(f), differing)
		}
		two += differing - 1
	}
	if p.b.Counts().Corrupted != n || two == 0 || two == n {
		t.Errorf("%d corrupted, %d of them in two bytes", p.b.Counts().Corrupted, two)
	}
}

func TestADuplicateOfADamagedFrameIsDamagedAlike(t *testing.T) {
	p := newPair(t, fault.Config{Seed: 4, Corrupt: 1, Duplicate: 1})
	p.send(0, 1, 100)
	if len(p.in.Frames) != 2 || !bytes.Equal(p.in.Frames[0], p.in.Frames[1]) {
		t.Errorf("%d frames arrived, or they differ; want two alike", len(p.in.Frames))
	}
}

func TestTruncatedFramesLoseTheirEnd(t *testing.T) {
	const n, size = 2000, 20
	p := newPair(t, fault.Config{Seed: 5, Truncate: 1})
	p.send(0, n, size)
	seen := map[int]bool{}
	for _, f := range p.in.Frames {
		seen[len(f)] = true
	}
	if len(p.in.Frames) != n || p.b.Counts().Truncated != n || seen[size] {
		t.Errorf("%d of %d frames arrived, whole ones: %v", len(p.in.Frames), n, seen[size])
	}
	if len(seen) != size {
		t.Errorf("truncation made %d lengths; want all of 0…%d", len(seen), size-1)
	}
}

func TestAFrameWithoutBytesPassesDamage(t *testing.T) {
	p := newPair(t, fault.Config{Seed: 6, Truncate: 1, Corrupt: 1})
	linktest.Send(t, p.a, p.b.Addr(), nil)
	p.poll()
	if len(p.in.Frames) != 1 || len(p.in.Frames[0]) != 0 {
		t.Errorf("frames that arrived: %v; want one without bytes", p.in.Frames)
	}
}

func TestDelayedFramesComeWhenDueAndPollSaysWhen(t *testing.T) {
	p := newPair(t, fault.Config{Delay: 10 * time.Microsecond})
	p.send(0, 3, 8)
	if p.poll(); len(p.in.Frames) != 0 || p.next != 11000 || p.b.Held() != 3 {
		t.Fatalf("at once %d frames came, %d are held, next is %d; want 0, 3, 11000", len(p.in.Frames), p.b.Held(), p.next)
	}
	p.now = 10999
	if p.poll(); len(p.in.Frames) != 0 {
		t.Fatal("a frame came a nanosecond early")
	}
	p.now = 11000
	if p.poll(); !slices.Equal(p.numbers(), upTo(3)) || p.next != clock.Never {
		t.Fatalf("when due, frames %v came, next is %d; want 0, 1, 2 and Never", p.numbers(), p.next)
	}
	if c := p.b.Counts(); c.Delayed != 3 || p.b.Held() != 0 {
		t.Errorf("%d delayed, %d still held", c.Delayed, p.b.Held())
	}
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	p := newPair(t, fault.Config{Seed: 7, Delay: 10 * time.Microsecond, Jitter: 5 * time.Microsecond})
	p.send(0, 500, 8)
	p.drain()
	first, last := p.at[0], p.at[len(p.at)-1]
	if first < 11000 || last > 16000 || last.Sub(first) < 4*time.Microsecond {
		t.Errorf("frames came at %d…%d; want them spread over 11000…16000", first, last)
	}
	if !slices.IsSorted(p.at) || slices.IsSorted(p.numbers()) {
		t.Error("jitter did not reorder")
	}
}

func TestReorderLetsLaterFramesOvertake(t *testing.T) {
	const n = 5000
	p := newPair(t, fault.Config{Seed: 8, Reorder: 0.1, ReorderBy: 20 * time.Microsecond})
	for i := range n {
		p.send(i, 1, 8)
		p.now += 1000
	}
	p.drain()
	got := p.numbers()
	if !near(p.b.Counts().Reordered, 0.1, n) || slices.IsSorted(got) {
		t.Errorf("%d of %d frames reordered at a rate of 0.1; order kept: %v", p.b.Counts().Reordered, n, slices.IsSorted(got))
	}
	for i, f := range got {
		if i-f > 21 {
			t.Fatalf("frame %d came as number %d: later than ReorderBy allows", f, i)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, upTo(n)) {
		t.Error("reordering lost or repeated frames")
	}
}

func TestCutSendersAreNotHeardUntilHeal(t *testing.T) {
	p := newPair(t, fault.Config{})
	p.b.Cut(p.a.Addr())
	p.send(0, 5, 8)
	if len(p.in.Frames) != 0 || p.b.Counts().Partitioned != 5 {
		t.Fatalf("%d frames arrived, %d partitioned; want 0 and 5", len(p.in.Frames), p.b.Counts().Partitioned)
	}
	p.b.Heal()
	p.send(5, 1, 8)
	if !slices.Equal(p.numbers(), []int{5}) {
		t.Errorf("after Heal %v arrived; want only frame 5", p.numbers())
	}
}

func TestACutFunctionIsAskedForEveryFrame(t *testing.T) {
	cut := true
	p := newPair(t, fault.Config{Cut: func(from link.Addr) bool { return cut && from == mem.Address(1) }})
	p.send(0, 1, 8)
	cut = false
	p.send(1, 1, 8)
	if !slices.Equal(p.numbers(), []int{1}) {
		t.Errorf("%v arrived; want only frame 1", p.numbers())
	}
}

func TestACloggedSendersFramesComeTogetherInOrder(t *testing.T) {
	p := newPair(t, fault.Config{})
	p.b.Clog(p.a.Addr(), 50000)
	for i := range 10 {
		p.send(i, 1, 8)
		p.now += 1000
	}
	if p.poll(); len(p.in.Frames) != 0 || p.next != 50000 || p.b.Counts().Clogged != 10 {
		t.Fatalf("%d frames came, next is %d, %d clogged; want 0, 50000, 10", len(p.in.Frames), p.next, p.b.Counts().Clogged)
	}
	p.now = 50000
	p.send(10, 1, 8)
	if !slices.Equal(p.numbers(), upTo(11)) {
		t.Errorf("at the end of the clog %v came; want 0…10", p.numbers())
	}
}

func TestClogsBeginByChanceAndEndByTime(t *testing.T) {
	const n = 3000
	p := newPair(t, fault.Config{Seed: 9, Clog: 0.005, ClogFor: 30 * time.Microsecond})
	for i := range n {
		p.send(i, 1, 8)
		p.now += 1000
	}
	p.drain()
	c := p.b.Counts()
	if c.Clogged < 100 || c.Clogged > n/2 || !slices.Equal(p.numbers(), upTo(n)) {
		t.Errorf("%d of %d frames clogged, %d arrived; want some, and all in order", c.Clogged, n, len(p.in.Frames))
	}
}

func TestHeldFramesAreBounded(t *testing.T) {
	p := newPair(t, fault.Config{Delay: time.Second, HeldBytes: 10 * 256})
	p.send(0, 30, 8)
	if c := p.b.Counts(); p.b.Held() != 10 || c.Overflowed != 20 {
		t.Errorf("%d frames held, %d overflowed; want 10 and 20", p.b.Held(), c.Overflowed)
	}
	p.drain()
	if !slices.Equal(p.numbers(), upTo(10)) {
		t.Errorf("%v arrived; want the first ten", p.numbers())
	}
}

// Even if all frames are lost, frames were taken from below. So the caller must poll again, or
// further frames below wait for a wake-up that never comes.
func TestPollWantsToComeAgainWhenItTookFramesButHandsOverNone(t *testing.T) {
	p := newPair(t, fault.Config{Loss: 1})
	linktest.Send(t, p.a, p.b.Addr(), nil)
	if n, next := p.b.Poll(p.now, &p.in); n != 0 || next != p.now {
		t.Errorf("Poll = %d, %d; want 0 and now, %d", n, next, p.now)
	}
	if n, next := p.b.Poll(p.now, &p.in); n != 0 || next != clock.Never {
		t.Errorf("Poll of an empty link = %d, %d; want 0, Never", n, next)
	}
}

// history runs a mix of all faults, and returns a text of all arrivals with their times.
func history(t *testing.T, seed uint64) (string, fault.Counts) {
	p := newPair(t, fault.Config{
		Seed: seed, Loss: 0.1, Duplicate: 0.1, Corrupt: 0.1, Truncate: 0.05, Reorder: 0.1,
		Delay: 3 * time.Microsecond, Jitter: 4 * time.Microsecond, Clog: 0.01, ClogFor: 20 * time.Microsecond,
	})
	for i := range 2000 {
		p.send(i, 1, 8+i%50)
		p.now += 700
	}
	p.drain()
	var s strings.Builder
	for i, f := range p.in.Frames {
		fmt.Fprintf(&s, "%d %x\n", p.at[i], f)
	}
	return s.String(), p.b.Counts()
}

func TestOneSeedOneHistory(t *testing.T) {
	first, counts := history(t, 42)
	again, countsAgain := history(t, 42)
	if first != again || counts != countsAgain {
		t.Error("two runs of seed 42 differ")
	}
	if other, _ := history(t, 43); other == first {
		t.Error("seeds 42 and 43 give the same history")
	}
	c := counts
	for name, n := range map[string]uint64{"lost": c.Lost, "duplicated": c.Duplicated, "corrupted": c.Corrupted,
		"truncated": c.Truncated, "reordered": c.Reordered, "delayed": c.Delayed, "clogged": c.Clogged} {
		if n == 0 {
			t.Errorf("no frame was %s", name)
		}
	}
	if got := c.Passed + c.Lost - c.Duplicated; got != 2000 {
		t.Errorf("passed + lost − duplicated = %d; want the 2000 that were sent", got)
	}
}

func TestHoldingFramesAllocatesNothingInTheSteadyState(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	a := s.Port()
	b := fault.Wrap(s.Port(), fault.Config{
		Seed: 1, Delay: time.Microsecond, Jitter: time.Microsecond, Corrupt: 0.2, Duplicate: 0.2, Reorder: 0.2, Clog: 0.1,
	})
	now := clock.Time(0)
	var in discard
	round := func() {
		for i := range 8 {
			if a.Reserve(b.Addr()) != nil {
				a.Commit(i * 100)
			}
		}
		b.Poll(now, in)
		now += 5000
	}
	for range 50000 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("a round of 8 held frames costs %v allocations; want none", n)
	}
}

type discard struct{}

func (discard) Receive(clock.Time, link.Addr, []byte) {}

func (d discard) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(d, now, from, frames, size)
}

// closer closes the driver at the first frame that it receives.
type closer struct {
	d      link.Driver
	frames int
}

func (c *closer) Receive(clock.Time, link.Addr, []byte) {
	c.frames++
	c.d.Close()
}

func (c *closer) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

func TestNoDuplicateComesOfAFrameThatClosesTheDriver(t *testing.T) {
	for _, cfg := range []fault.Config{{Duplicate: 1}, {Duplicate: 1, Reorder: 0.5}} {
		p := newPair(t, cfg)
		for range 50 {
			p.a.Reserve(p.b.Addr())
			p.a.Commit(8)
		}
		c := &closer{d: p.b}
		for range 10 {
			p.b.Poll(p.now, c)
			p.now = p.now.Add(time.Second)
		}
		if c.frames != 1 || p.b.Held() != 0 {
			t.Errorf("%+v: %d frames have come, and %d are held, after one that closed the driver", cfg, c.frames, p.b.Held())
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	for want, cfg := range map[string]fault.Config{
		"loss rate of 1.5": {Loss: 1.5},
		"corrupt rate":     {Corrupt: math.NaN()},
		"truncate rate":    {Truncate: -0.1},
		"delay of -1":      {Delay: -1},
		"-5 bytes":         {HeldBytes: -5},
	} {
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check of %+v = %v; want it to name %q", cfg, err, want)
		}
	}
	if err := (&fault.Config{Loss: 1, Jitter: 5}).Check(); err != nil {
		t.Errorf("Check of a good configuration: %v", err)
	}
}

func TestTheWrapperKeepsWhatTheDriverBelowCanDoAndAddsNothing(t *testing.T) {
	linktest.Keeps(t, func(d link.Driver) link.Driver { return fault.Wrap(d, fault.Config{}) })
}
