package poller

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/vni"
)

// timed returns a timing with a page, and the page as tools see it.
func timed(t *testing.T) (*timing, vni.LoopPage) {
	t.Helper()
	b := vni.AlignedBytes(vni.LoopPageBytes)
	written, err := vni.NewLoopPage(b)
	if err != nil {
		t.Fatal(err)
	}
	read, err := vni.OpenLoopPage(b)
	if err != nil {
		t.Fatal(err)
	}
	return &timing{page: written}, read
}

func TestALagIsTheTimeFromADeadlineToItsPoll(t *testing.T) {
	m, page := timed(t)
	at := Now()
	m.polled(at, 0, at.Add(5*time.Millisecond))
	m.polled(at.Add(time.Millisecond), 0, at.Add(10*time.Millisecond)) // early: a frame came
	m.polled(at.Add(13*time.Millisecond), 0, at)                       // 3 ms late, and due at once
	m.polled(at.Add(20*time.Millisecond), 0, clock.Never)
	m.polled(at.Add(time.Hour), 0, clock.Never) // no deadline, so it is not late
	m.publish()
	var l vni.Loop
	if !page.Load(&l) || l.Lags.Count != 1 || l.Lags.Sum != uint64(3*time.Millisecond) || l.Polls.Count != 0 {
		t.Errorf("%d lags of %d ns in all, %d polls; want one of 3 ms, and no polls", l.Lags.Count, l.Lags.Sum, l.Polls.Count)
	}
	if since := time.Since(time.Unix(0, l.LongestLagAt)); since < 0 || since > time.Hour || l.LongestPollAt != 0 {
		t.Errorf("the longest lag was %v ago, the longest poll at %d", since, l.LongestPollAt)
	}
}

func TestPollsThatFindWorkAreMeasured(t *testing.T) {
	m, page := timed(t)
	m.polled(Now().Add(-2*time.Second), 3, clock.Never) // it has taken two seconds by now
	first := m.loop.LongestPollAt
	m.polled(Now(), 1, clock.Never)
	m.polled(Now(), 0, clock.Never)
	m.publish()
	var l vni.Loop
	if !page.Load(&l) || l.Polls.Count != 2 || l.Polls.Most < uint64(2*time.Second) || l.LongestPollAt != first || first == 0 {
		t.Errorf("%d polls, the longest of %d ns at %d; want 2, the longest of 2 s at %d", l.Polls.Count, l.Polls.Most, l.LongestPollAt, first)
	}
}

// A loop that parks after each message copies its measurements as seldom as one that stays awake.
func TestALoopThatParksOftenPublishesOnceInAWhile(t *testing.T) {
	m, page := timed(t)
	at := Now()
	published := func() uint64 {
		var l vni.Loop
		page.Load(&l)
		return l.Polls.Count
	}
	due := at.Add(publishEvery)
	for range 10 {
		m.polled(at, 1, due)
		m.parks(at, due)
		at = at.Add(publishEvery / 20)
	}
	if n := published(); n != 1 {
		t.Errorf("%d polls were published before the next copy was due; want the first alone", n)
	}
	m.polled(due, 1, clock.Never)
	if n := published(); n != 11 {
		t.Errorf("%d polls were published when the copy was due; want 11", n)
	}
	m.polled(due+1, 1, clock.Never)
	m.parks(due+1, clock.Never)
	if n := published(); n != 12 {
		t.Errorf("%d polls were published before a sleep without end; want 12", n)
	}
	m.polled(due+2, 1, due.Add(time.Hour))
	m.parks(due+2, due.Add(time.Hour))
	if n := published(); n != 13 {
		t.Errorf("%d polls were published before an hour of sleep; want 13", n)
	}
}

func TestMeasuringAllocatesNothing(t *testing.T) {
	m, _ := timed(t)
	at := Now()
	if n := testing.AllocsPerRun(100, func() {
		at = at.Add(2 * publishEvery)
		m.polled(at, 1, at.Add(publishEvery))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// deadlineEngine has work a millisecond after it has had some.
type deadlineEngine struct {
	countingEngine
	due clock.Time
}

func (e *deadlineEngine) Poll(now clock.Time) (work int, next clock.Time) {
	if now >= e.due {
		work, e.due = 1, now.Add(time.Millisecond)
	}
	return work, e.due
}

func TestALoopPublishesItsPollsAndLags(t *testing.T) {
	b := vni.AlignedBytes(vni.LoopPageBytes)
	page, err := vni.NewLoopPage(b)
	if err != nil {
		t.Fatal(err)
	}
	runLoop(t, &deadlineEngine{}, LoopConfig{Page: page})
	var got vni.Loop
	eventually(t, "three polls that followed a deadline", func() bool {
		return page.Load(&got) && got.Lags.Count >= 3 && got.Polls.Count >= 3
	})
}
