package poller

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// lingering returns a poller that is entered and settled, and its link.
func lingering(t *testing.T) (*Poller, *glancing, *fakeEngine) {
	g, e := &glancing{}, newFake(time.Microsecond)
	p := open(t, e, Config{Link: link.Caps{Glance: g.Glance}})
	p.Do(func(clock.Time) {})
	if !p.Enter() {
		t.Fatal("a poller that is open cannot be entered")
	}
	t.Cleanup(func() { p.Leave(clock.Never) })
	return p, g, e
}

func TestWhoLingersSeesTheFrame(t *testing.T) {
	p, g, _ := lingering(t)
	g.frame.Store(true)
	eventually(t, "a moment in which the helper has not taken over", func() bool {
		p.duty.Store(nobody)
		g.glances.Store(0)
		_, _, ok := p.Settle()
		return ok
	})
	if _, ok := p.Linger(0); !ok || g.glances.Load() > 2 {
		t.Errorf("it took %d looks", g.glances.Load())
	}
}

func TestWhoLingersInVainLooksHalfAsOftenUntilAFrameHasComeSoonAgain(t *testing.T) {
	p, g, _ := lingering(t)
	for want := int64(lingers); want > leastLingers; want /= 2 {
		g.glances.Store(0)
		if _, ok := p.Linger(0); ok || g.glances.Load() != want {
			t.Fatalf("looked %d times; expected %d", g.glances.Load(), want)
		}
	}
	p.cameSoon(0, clock.Time(soon))
	if n := p.patience.Load(); n != leastLingers {
		t.Errorf("%d looks after a frame that was late", n)
	}
	p.cameSoon(0, clock.Time(soon)-1)
	if n := p.patience.Load(); n != lingers {
		t.Errorf("%d looks after a frame that came soon", n)
	}
}

func TestWhoLingersForALinkThatIsNoMemoryHasMorePatienceAndKnowsTheTime(t *testing.T) {
	p, g, _ := lingering(t)
	if p.lingerAt(true); p.patience.Load() != farLingers || p.soon != farSoon {
		t.Errorf("%d looks, and %v is soon", p.patience.Load(), p.soon)
	}
	if now, _ := p.Linger(0); now == 0 || g.glances.Load() != farLingers {
		t.Errorf("after %d looks it was still %v", g.glances.Load(), now)
	}
	p.cameSoon(0, clock.Time(farSoon)-1)
	if n := p.patience.Load(); n != farLingers {
		t.Errorf("%d looks after a frame that came soon", n)
	}
}

func TestNobodyLingersWhereOthersWantTheEngineOrPoll(t *testing.T) {
	p, g, _ := lingering(t)
	entered := make(chan bool)
	go func() {
		entered <- p.Enter()
		p.Leave(clock.Never)
	}()
	eventually(t, "a goroutine that wants to enter", func() bool { return p.wanted.Load() > 0 })
	g.glances.Store(0)
	if _, ok := p.Linger(0); ok || g.glances.Load() != 1 || p.patience.Load() != lingers {
		t.Errorf("looked %d times though a goroutine waits to enter, and will look %d times", g.glances.Load(), p.patience.Load())
	}
	p.Leave(clock.Never)
	if !<-entered {
		t.Error("the goroutine that waited cannot enter")
	}
	p.Enter()
	p.duty.Store(waiter)
	if _, _, ok := p.Settle(); ok {
		t.Error("settled though a waiter polls")
	}
	p.duty.Store(nobody)
}

func TestWhoSettlesPollsIfNobodyHasForAWhile(t *testing.T) {
	p, g, e := lingering(t)
	for _, c := range []struct {
		since time.Duration
		frame bool
		polls int64
	}{{0, false, 0}, {0, true, 0}, {pollEvery, false, 1}, {pollEvery, true, 0}, {time.Minute, true, 0}} {
		g.frame.Store(c.frame)
		// Time passes in between, and the helper may take over.
		for tries := 0; ; tries++ {
			before := e.polls.Load()
			p.duty.Store(nobody)
			p.polled.Store(int64(Now().Add(-c.since)))
			p.Settle()
			if n := e.polls.Load() - before; n == c.polls {
				break
			} else if tries == 1000 {
				t.Fatalf("%+v: %d polls", c, n)
			}
		}
	}
	for p.unpolled = 0; p.unpolled < mostUnpolled; { // frames and frames
		p.duty.Store(nobody)
		p.polled.Store(0)
		before := e.polls.Load()
		if p.Settle(); e.polls.Load() != before {
			t.Fatalf("polled after %d frames", p.unpolled)
		}
	}
	eventually(t, "a poll in spite of frames", func() bool {
		before := e.polls.Load()
		p.duty.Store(nobody)
		p.polled.Store(0)
		p.Settle()
		return e.polls.Load() > before
	})
	eventually(t, "a poll by Settle when something is due", func() bool {
		before := e.polls.Load()
		p.duty.Store(nobody)
		p.polled.Store(int64(Now()))
		p.next.Store(0)
		p.Settle()
		return e.polls.Load() > before
	})
}
