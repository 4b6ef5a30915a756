package idle

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// polls is a loop that finds nothing, with a poll every 100 ns, and notes when it yields.
type polls struct {
	pace     Pace
	now      clock.Time
	yields   []clock.Time
	asked    int
	switches int64         // so far
	shared   bool          // another thread runs at each yield
	takes    time.Duration // time of a yield
	parks    int
}

func (l *polls) run(n int) {
	l.yields, l.asked, l.parks = nil, 0, 0
	l.goOn(n)
}

// goOn continues with the present counts.
func (l *polls) goOn(n int) {
	for range n {
		l.now = l.now.Add(100)
		if l.pace.rest(l.now, l.yield, func() clock.Time { return l.now }, func() int64 { l.asked++; return l.switches }) {
			l.parks++
		}
	}
}

func (l *polls) yield() {
	l.yields = append(l.yields, l.now)
	l.now = l.now.Add(l.takes)
	if l.shared {
		l.switches++
	}
}

func TestALoopParksBesideSomebodyWhoComputes(t *testing.T) {
	l := polls{shared: true, takes: lateYield}
	l.run(1)
	if l.parks != 0 {
		t.Error("one late yield is no sign of a thread that computes")
	}
	l.run(1)
	first := l.now
	for l.now < first.Add(parkFor-100) {
		l.run(1)
		if l.parks != 1 || len(l.yields) != 0 {
			t.Fatalf("%v after a late yield: yields %d, parks %d", l.now.Sub(first), len(l.yields), l.parks)
		}
	}
	l.run(1)
	if l.parks != 1 || len(l.yields) != 1 {
		t.Fatalf("after that, yields %d, parks %d: expected to find out at the first yield that the thread is still there", len(l.yields), l.parks)
	}
	l.now = l.now.Add(parkFor)
	l.takes = 5 * time.Microsecond // a poller is there instead
	l.run(1000)
	if l.parks != 0 || len(l.yields) != 1000 {
		t.Errorf("%d yields in 1000 polls, and parks %d times, beside a poller", len(l.yields), l.parks)
	}
}

func TestAWholeSliceIsSignEnough(t *testing.T) {
	l := polls{shared: true, takes: wholeSlice}
	l.run(1)
	if l.parks != 1 || len(l.yields) != 1 {
		t.Errorf("yields %d, parks %d; expected to park after a yield that took a whole slice", len(l.yields), l.parks)
	}
}

// besideSomebody returns a loop that has just found out that another thread computes on its
// core.
func besideSomebody() *polls {
	l := &polls{shared: true, takes: wholeSlice}
	l.run(1)
	l.yields, l.parks = nil, 0
	return l
}

func TestBesideSomebodyWhoComputesALoopWithWorkAgainAndAgainDoesNotPark(t *testing.T) {
	l := besideSomebody()
	for end := l.now.Add(parkFor / 2); l.now < end; {
		l.pace.Work(l.now)
		l.goOn(int(mostHope/100) - 1)
	}
	if l.parks != 0 || len(l.yields) != 0 {
		t.Errorf("parks %d, yields %d while work came as often as it takes to be woken", l.parks, len(l.yields))
	}
}

func TestALoopHopesForMoreWorkTheLessTheMoreOftenThatWasInVain(t *testing.T) {
	l := besideSomebody()
	hopes := func() (d time.Duration) { // after work that no other work follows
		l.pace.Work(l.now)
		begin := l.now
		for l.parks = 0; l.parks == 0; {
			l.goOn(1)
		}
		return l.now.Sub(begin)
	}
	for want := mostHope; want >= leastHope; want /= 2 {
		if d := hopes(); d < want || d > want+100 {
			t.Errorf("it parks %v behind work; expected %v", d, want)
		}
	}
	if d := hopes(); d > 100 {
		t.Errorf("it parks %v behind work though no work has ever followed soon", d)
	}
	l.now = l.now.Add(parkFor)
	l.run(1) // a yield: the thread is still there
	if d := hopes(); d < mostHope {
		t.Errorf("it parks %v behind work when it has found out anew that another thread computes; expected to try %v again", d, mostHope)
	}
	l.pace.Work(l.now)
	l.goOn(1) // less than it hopes for
	if d := hopes(); d < mostHope {
		t.Errorf("it parks %v behind work when work has come; expected twice as long as before", d)
	}
}

func TestALoopIsNotImpressedByTheKernelsOwnThreads(t *testing.T) {
	l := polls{shared: true}
	for range 10 {
		l.takes = lateYield
		l.run(1)
		l.takes = 5 * time.Microsecond
		l.run(1)
		if l.parks != 0 {
			t.Fatal("parks because of yields of which every other one is late")
		}
	}
}

func TestALoopWithWorkLetsOthersRunOnlyIfItSharesItsCore(t *testing.T) {
	l := polls{shared: true}
	pass := func() {
		l.now = l.now.Add(100)
		l.pace.pass(l.now, l.yield, func() clock.Time { return l.now }, func() int64 { return l.switches })
	}
	l.run(100)
	l.yields = nil
	for range 100 {
		pass()
	}
	if len(l.yields) != 100 {
		t.Errorf("%d yields after 100 polls that found work, on a shared core", len(l.yields))
	}
	l.shared, l.yields = false, nil
	for range 100 {
		pass()
	}
	if len(l.yields) > 2*lookEvery {
		t.Errorf("%d yields after 100 polls that found work, though no other thread is there", len(l.yields))
	}
}

func TestALoopWithWorkAgainAndAgainYieldsSeldom(t *testing.T) {
	l := polls{}
	l.run(1000)
	l.yields = nil
	for range 2000 { // a poll in ten finds work
		l.pace.Work(l.now)
		l.goOn(10)
	}
	if n := int(2 * time.Millisecond / longWork); len(l.yields) > n+1 || len(l.yields) < n-1 {
		t.Errorf("%d yields in 2 ms of work; expected about %d", len(l.yields), n)
	}
	l.shared = true
	for range 100 { // until it finds out
		l.pace.Work(l.now)
		l.goOn(10)
	}
	l.yields = nil
	for range 100 {
		l.pace.Work(l.now)
		l.goOn(1)
	}
	if len(l.yields) != 100 {
		t.Errorf("%d yields after 100 polls that found work, on a shared core", len(l.yields))
	}
}

func TestBehindWorkALoopWaitsForAnAnswerBeforeItYields(t *testing.T) {
	l := polls{}
	l.run(1000)
	l.goOn(int(longSpin / 100)) // the last yield is recent
	l.yields = nil
	begin := l.now
	l.pace.Work(begin)
	l.goOn(1000)
	if first := l.yields[0].Sub(begin); first < 2*longSpin || first > answerSpins*longSpin {
		t.Errorf("it yields %v behind work; want %v, or a little less if it has not yielded for long", first, answerSpins*longSpin)
	}
}

func TestALoopThatHasItsCoreForItselfSpins(t *testing.T) { // decision 11
	var l polls
	l.run(1000)
	for i, want := range []time.Duration{firstSpin, 2 * firstSpin, 4 * firstSpin, longSpin, longSpin} {
		at := lookEvery - 1 + i
		if got := l.yields[at+1].Sub(l.yields[at]); got != want {
			t.Errorf("%v between yields %d and %d, expected %v", got, at, at+1, want)
		}
	}
}

func TestALoopThatSharesItsCoreYieldsAfterEachPoll(t *testing.T) {
	var l polls
	l.run(1000)
	l.shared = true
	l.run(200) // it notices at its next yield
	l.run(1000)
	if len(l.yields) != 1000 || l.asked != 1000/lookEvery {
		t.Errorf("%d yields in 1000 polls, and asked %d times", len(l.yields), l.asked)
	}
	l.shared = false
	// It asks, and finds first that another thread has run since it last asked, and then that
	// none has.
	l.run(2 * lookEvery)
	l.run(1000)
	if len(l.yields) > 1000/50 {
		t.Errorf("%d yields in 1000 polls, though it has its core for itself again", len(l.yields))
	}
}

func TestWhoIsReadyIsWokenOnceAndTheListSaysWhenSomebodySleeps(t *testing.T) {
	var sleeping []bool
	l := Waiters{Sleeping: func(s bool) { sleeping = append(sleeping, s) }}
	var ready [3]atomic.Bool
	var w [3]*Waiter
	for i := range w {
		w[i] = l.Add(ready[i].Load)
	}
	if l.WakeReady() || l.Len() != 3 {
		t.Errorf("woken though no waiter is ready; %d sleep", l.Len())
	}
	ready[1].Store(true)
	if !l.WakeReady() || l.Len() != 2 || len(w[1].Woken()) != 1 || len(w[0].Woken())+len(w[2].Woken()) != 0 {
		t.Errorf("the waiter that is ready, and no other, is to be woken")
	}
	if l.WakeReady() {
		t.Error("woken twice")
	}
	l.WakeOne()
	l.WakeAll()
	for i := range w {
		if len(w[i].Woken()) != 1 {
			t.Errorf("waiter %d has %d tokens", i, len(w[i].Woken()))
		}
		l.Remove(w[i])
	}
	if len(sleeping) != 2 || !sleeping[0] || sleeping[1] {
		t.Errorf("told %v, want that a waiter sleeps and then that none does", sleeping)
	}
	if w := l.Add(ready[0].Load); len(w.Woken()) != 0 {
		t.Error("a token of an earlier sleep was left")
	}
}

func TestManySleepersAreAllWoken(t *testing.T) {
	var l Waiters
	var all sync.WaitGroup
	var done [64]atomic.Bool
	for i := range done {
		all.Go(func() {
			w := l.Add(done[i].Load)
			defer l.Remove(w)
			if !done[i].Load() {
				<-w.Woken()
			}
		})
	}
	for i := range done {
		done[i].Store(true)
		l.WakeReady()
	}
	all.Wait()
}

func TestSleepingAllocatesNothingInTheLongRun(t *testing.T) {
	var l Waiters
	ready := func() bool { return false }
	l.Remove(l.Add(ready))
	if n := testing.AllocsPerRun(100, func() { l.Remove(l.Add(ready)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestALoopThatSharesItsCoreSaysSo(t *testing.T) {
	l := polls{}
	l.run(100)
	if l.pace.Shares() {
		t.Error("it is alone, and shares its core")
	}
	l.switches++ // a thread of the kernel
	l.run(1000)
	if l.pace.Shares() {
		t.Error("another thread ran once, and it calls that sharing")
	}
	l.shared = true
	l.run(1000)
	if !l.pace.Shares() {
		t.Error("another thread runs at each yield, and it does not share its core")
	}
	l.shared = false
	l.run(1000)
	if l.pace.Shares() {
		t.Error("shares its core still when no other thread runs there any more")
	}
}

func TestALoopCountsTheYieldsThatSomebodyTookUp(t *testing.T) {
	l := polls{shared: true, takes: 3 * oneTurn}
	for n := range 10 {
		if got := l.pace.Given(); got != n {
			t.Fatalf("%d in a row; expected %d", got, n)
		}
		l.run(1)
	}
	l.takes = oneTurn - 1
	l.run(1)
	if got := l.pace.Given(); got != 0 {
		t.Errorf("%d in a row, of which no thread took up the last", got)
	}
	l.takes = oneTurn
	l.run(3)
	if l.pace.Moved(); l.pace.Given() != 0 {
		t.Errorf("%d in a row, on a core where it has not yielded yet", l.pace.Given())
	}
}

func TestALoopThatIsAloneDoesNotTakeColdCachesForCompany(t *testing.T) {
	l := polls{takes: 3 * oneTurn}
	for range 1000 {
		if l.run(1); l.pace.Given() >= lookEvery {
			t.Fatalf("%d yields in a row pass for taken up, though no other thread ran", l.pace.Given())
		}
	}
}

func TestOneThatHadTheDutyInVainIsNotWokenForIt(t *testing.T) {
	var l Waiters
	never := func() bool { return false }
	first, second, third := l.AddInVain(never), l.Add(never), l.AddInVain(never)
	for range 2 {
		l.WakeOne()
	}
	if len(first.Woken())+len(third.Woken()) != 0 || len(second.Woken()) != 1 {
		t.Errorf("woken: %d and %d that had it in vain, and %d that had not; expected that one alone", len(first.Woken()), len(third.Woken()), len(second.Woken()))
	}
	for _, w := range []*Waiter{first, second, third} {
		l.Remove(w)
	}
	for range 3 { // one of them is used again
		l.Add(never)
	}
	if l.WakeOne(); l.Len() != 2 {
		t.Error("none of three new ones is woken")
	}
	l.WakeAll()
}

// turn takes a turn, and reports whether Turn returned true.
func (l *polls) turn() bool {
	l.now = l.now.Add(100)
	return l.pace.Turn(l.yield, func() clock.Time { return l.now })
}

// turning returns a loop that has found out that it shares its core with a poller.
func turning(t *testing.T) *polls {
	l := &polls{takes: 3 * time.Microsecond}
	for range 3 * lookEvery {
		l.shared = true
		if l.run(1); l.turn() {
			l.yields = nil
			return l
		}
	}
	t.Fatal("a loop that shares its core takes no turns")
	return nil
}

func TestATurnIsForALoopThatIsKnownToShareItsCore(t *testing.T) {
	for _, l := range []*polls{{}, {shared: true}} {
		if l.turn() || len(l.yields) != 0 {
			t.Error("a turn of a loop that has not asked yet whether other threads run")
		}
	}
	l := &polls{}
	l.run(1000)
	if l.yields = nil; l.turn() || len(l.yields) != 0 {
		t.Error("a turn of a loop that has its core for itself")
	}
	if l = turning(t); !l.turn() || len(l.yields) != 1 {
		t.Errorf("%d yields in a turn", len(l.yields))
	}
}

func TestBetweenTurnsRestAsksWhetherTheCoreIsShared(t *testing.T) {
	l := turning(t)
	asked, rests := 0, 0
	for range 10 * turnsPerRest {
		if !l.turn() {
			l.run(1)
			asked += l.asked
			rests++
		}
	}
	if rests < 9 || rests > 10 || asked != rests {
		t.Errorf("of %d turns %d were left to Rest, which asked %d times", 10*turnsPerRest, rests, asked)
	}
	l.shared = false
	// It asks, and finds first that another thread has run since it last asked, and then that
	// none has.
	for range 2 * turnsPerRest {
		if !l.turn() {
			l.run(1)
		}
	}
	if l.turn() {
		t.Error("it takes turns though no other thread is there any more")
	}
}

func TestALoopThatTakesTurnsParksBesideSomebodyWhoComputes(t *testing.T) {
	l := turning(t)
	l.takes = wholeSlice
	if !l.turn() {
		t.Fatal("it cannot know before the turn")
	}
	if l.turn() {
		t.Error("another turn, though the last may have gone to a thread that computes")
	}
	if l.run(1); l.parks != 1 {
		t.Error("Rest does not find out that another thread computes")
	}
	if l.turn() {
		t.Error("a turn of a loop that had better park")
	}
	l.now = l.now.Add(parkFor)
	if l.turn() {
		t.Error("a turn, though it is not measured whether the thread is still there")
	}
	l.takes = 3 * time.Microsecond
	if l.run(1); l.parks != 0 || !l.turn() {
		t.Errorf("the thread has gone; it parks %d times and takes no turns", l.parks)
	}
}

func TestALoopThatComputesItselfBetweenItsTurnsDoesNotPark(t *testing.T) {
	l := turning(t)
	turns := 0
	for range 100 {
		l.now = l.now.Add(5 * time.Millisecond)
		if l.turn() {
			turns++
			continue
		}
		if l.run(1); l.parks != 0 {
			t.Fatal("it takes its own work for another thread's")
		}
	}
	if turns < 40 {
		t.Errorf("%d turns of 100; expected every other one to be left to Rest, which finds no other thread", turns)
	}
}
