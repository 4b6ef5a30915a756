package poller

import (
	"testing"

	"github.com/weftnet/weft/internal/clock"
)

func TestAWaiterMovesOffACoreThatItSharesAndNotAgainAtOnce(t *testing.T) {
	var a apart
	now := clock.Time(1e9)
	for given := range leastGiven {
		if a.due(now, given) {
			t.Fatalf("moves when it has given up its core %d times", given)
		}
	}
	if !a.due(now, mostGiven) {
		t.Fatalf("stays though it has given up its core %d times", mostGiven)
	}
	if a.due(now.Add(leastStay-1), mostGiven) {
		t.Error("moves again too soon")
	}
	if !a.due(now.Add(leastStay), mostGiven) {
		t.Error("does not move again")
	}
}

func TestAWaiterWhoseCoreIsSharedWhereverItGoesMovesMoreRarely(t *testing.T) {
	var a apart
	now := clock.Time(1e9)
	for want := leastStay; want < 4*mostStay; want *= 2 {
		if !a.due(now, mostGiven) {
			t.Fatal("stays for ever")
		}
		if got := a.until.Sub(now); got != min(want, mostStay) {
			t.Fatalf("stays for %v; expected %v", got, min(want, mostStay))
		}
		now = a.until
	}
	now = now.Add(2*mostStay + 1) // alone
	if !a.due(now, mostGiven) || a.until.Sub(now) != leastStay {
		t.Errorf("stays for %v after it was alone; expected %v", a.until.Sub(now), leastStay)
	}
}

func TestTwoWhoShareACoreDoNotBothMoveEachTime(t *testing.T) {
	alone, now := 0, clock.Time(1e9)
	for range 100 {
		var a, b apart
		a.due(now, mostGiven)
		b.due(now, mostGiven)
		if a.given != b.given { // the one that draws more sees that the other has gone
			alone++
		}
		if min(a.given, b.given) < leastGiven || max(a.given, b.given) >= mostGiven {
			t.Fatalf("draws %d and %d", a.given, b.given)
		}
	}
	if alone < 50 {
		t.Errorf("one of two moved alone in %d of 100", alone)
	}
}
