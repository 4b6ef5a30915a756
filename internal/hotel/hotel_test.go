package hotel

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/clock"
)

// dumbHotel is a second implementation: a map of guests and their deadlines, rounded up to ticks.
type dumbHotel struct {
	tick   clock.Time
	guests map[int]clock.Time
}

func (h *dumbHotel) wake() clock.Time {
	at := clock.Never
	for _, d := range h.guests {
		at = clock.Min(at, d)
	}
	return at
}

func TestHotelAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const shift, most = 10, 200
		h := New[int](shift, most)
		dumb := dumbHotel{tick: 1 << shift, guests: map[int]clock.Time{}}
		rooms := map[int]int32{}
		now := clock.Time(rapid.Int64Range(0, 1<<40).Draw(t, "start"))
		for id := range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"in", "in", "out", "wait", "leap"}).Draw(t, "step") {
			case "in":
				stay := clock.Time(rapid.Int64Range(0, floors<<shift).Draw(t, "stay"))
				r := h.CheckIn(now, now+stay, id)
				if (r == 0) != (len(rooms) == most) {
					t.Fatalf("room %d with %d guests of %d", r, len(rooms), most)
				}
				if r != 0 {
					rooms[id] = r
					until := min((now+stay+dumb.tick-1)/dumb.tick, now/dumb.tick+floors-1)
					dumb.guests[id] = max(until, now/dumb.tick+1) * dumb.tick
				}
			case "out":
				if len(rooms) > 0 {
					ids := slices.Sorted(maps.Keys(rooms))
					id := ids[rapid.IntRange(0, len(ids)-1).Draw(t, "who")]
					h.CheckOut(rooms[id])
					delete(rooms, id)
					delete(dumb.guests, id)
				}
			case "wait":
				now += clock.Time(rapid.Int64Range(0, 20<<shift).Draw(t, "wait"))
				evictAll(t, h, &dumb, rooms, now)
			case "leap":
				now += clock.Time(rapid.Int64Range(0, 3*floors<<shift).Draw(t, "leap"))
				evictAll(t, h, &dumb, rooms, now)
			}
			if h.guests != len(dumb.guests) {
				t.Fatalf("%d guests, want %d", h.guests, len(dumb.guests))
			}
			if h.wake != dumb.wake() {
				t.Fatalf("wakes at %d, want %d", h.wake, dumb.wake())
			}
		}
	})
}

// evictAll evicts the guests of both hotels whose stay has ended, and compares them.
func evictAll(t *rapid.T, h *Hotel[int], dumb *dumbHotel, rooms map[int]int32, now clock.Time) {
	last := clock.Time(0)
	for id, ok := h.Evict(now); ok; id, ok = h.Evict(now) {
		until, here := dumb.guests[id]
		if !here || until > now {
			t.Fatalf("guest %d left at %d; is a guest: %v, until %d", id, now, here, until)
		}
		if until < last {
			t.Fatalf("guest %d of tick %d left after one of tick %d", id, until, last)
		}
		last = until
		delete(dumb.guests, id)
		delete(rooms, id)
	}
	for id, until := range dumb.guests {
		if until <= now {
			t.Fatalf("guest %d stayed after %d", id, until)
		}
	}
}

func TestHotelLetsTheRoomFreedLastFirst(t *testing.T) {
	h := New[string](10, 10)
	a := h.CheckIn(0, 5000, "a")
	b := h.CheckIn(0, 6000, "b")
	h.CheckOut(a)
	h.CheckOut(b)
	if r := h.CheckIn(0, 7000, "c"); r != b {
		t.Errorf("c got room %d, want %d, the one freed last", r, b)
	}
}

func TestFullHotelRefuses(t *testing.T) {
	h := New[int](10, 3)
	for i := range 3 {
		if h.CheckIn(0, 5000, i) == 0 {
			t.Fatalf("guest %d of 3 got no room", i)
		}
	}
	if h.CheckIn(0, 5000, 3) != 0 {
		t.Error("a guest got a room in a full hotel")
	}
}

func TestEmptyHotelNeverWakes(t *testing.T) {
	h := New[int](10, 3)
	r := h.CheckIn(clock.Time(time.Hour), clock.Time(time.Hour).Add(time.Millisecond), 1)
	h.CheckOut(r)
	if h.wake != clock.Never {
		t.Errorf("an empty hotel wakes at %d", h.wake)
	}
}

func TestHotelAllocatesNothing(t *testing.T) {
	h := New[int](10, 100)
	now := clock.Time(0)
	if n := testing.AllocsPerRun(1000, func() {
		a := h.CheckIn(now, now+3000, 1)
		h.CheckIn(now, now+2000, 2)
		h.CheckOut(a)
		now += 5000
		h.Evict(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
