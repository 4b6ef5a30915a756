// Package hotel holds guests until they check out or their stay ends (USNIC-24, USNIC-46). It is
// a wheel of floors. A guest lives on the floor of the tick in which its stay ends, rounded up,
// so no guest is evicted early:
//
//	floor     … 17   18   19   20   21 …        tick = 1<<shift ns, 4,096 floors
//	            ·    ├─3  ·    ├─7  ·           a floor is a list of rooms
//	                      ▲    └─1
//	                      done: every floor up to here is empty
//
// Check-in and check-out cost O(1). A poll compares one instant, Wake, whatever the number of
// guests (Net*'s low-cost timer). Rooms are numbered from 1, and 0 means "not checked in". As in
// usNIC, free rooms form a LIFO list. A stay that is longer than the wheel ends early; then the
// owner must check the guest's deadline when the guest is evicted.
package hotel

import (
	"math/bits"

	"github.com/weftnet/weft/internal/clock"
)

// Hotel is a timer wheel with rooms.
type Hotel[G any] struct {
	shift  uint       // log2 of a tick in ns
	most   int        // largest number of rooms
	rooms  []room[G]  // rooms[0] is unused
	vacant int32      // first of the free rooms that were used before, 0 if none
	guests int        // guests that are checked in
	done   int64      // every tick up to this one is over and its floor empty
	wake   clock.Time // when the first guest's stay ends, Never if there is none
	house  uint64     // bit w: words[w] is not zero
	words  [floors / 64]uint64
	first  [floors]int32 // first room of each floor
}

const floors = 4096

// Wake returns the end of the first guest's stay, or Never if there is no guest.
func (h *Hotel[G]) Wake() clock.Time { return h.wake }

// Guests returns the number of guests.
func (h *Hotel[G]) Guests() int { return h.guests }

// Guest returns the guest in room r.
func (h *Hotel[G]) Guest(r int32) G { return h.rooms[r].guest }

type room[G any] struct {
	guest      G
	floor      int32
	next, prev int32 // on the floor; next also links free rooms
}

// New returns a hotel with at most the given number of rooms, which are created on demand. A tick
// is 1<<shift ns.
func New[G any](shift uint, rooms int) *Hotel[G] {
	return &Hotel[G]{shift: shift, most: rooms, rooms: make([]room[G], 1, min(rooms+1, 64)), wake: clock.Never}
}

// CheckIn gives g a room until the given instant, and returns its number. It returns 0 if the
// hotel is full.
func (h *Hotel[G]) CheckIn(now, until clock.Time, g G) int32 {
	r := h.let()
	if r == 0 {
		return 0
	}
	if h.guests == 0 {
		h.done = int64(now) >> h.shift
	}
	tick := int64(until.Add(1<<h.shift-1)) >> h.shift
	tick = min(max(tick, h.done+1), h.done+floors-1)
	h.place(r, int32(tick%floors), g)
	h.guests++
	h.wake = clock.Min(h.wake, clock.Time(tick<<h.shift))
	return r
}

// CheckInBeside gives g a room for as long as the guest of room r has its own, and returns its
// number. It returns 0 if the hotel is full.
func (h *Hotel[G]) CheckInBeside(r int32, g G) int32 {
	beside := h.let()
	if beside != 0 {
		h.place(beside, h.rooms[r].floor, g)
		h.guests++
	}
	return beside
}

// let returns a free room, or 0 if there is none.
func (h *Hotel[G]) let() int32 {
	r := h.vacant
	switch {
	case r != 0:
		h.vacant = h.rooms[r].next
	case len(h.rooms) <= h.most:
		r = int32(len(h.rooms))
		h.rooms = append(h.rooms, room[G]{})
	}
	return r
}

// place puts room r at the front of a floor.
func (h *Hotel[G]) place(r, floor int32, g G) {
	next := h.first[floor]
	h.rooms[r] = room[G]{guest: g, floor: floor, next: next}
	if next != 0 {
		h.rooms[next].prev = r
	}
	h.first[floor] = r
	h.words[floor/64] |= 1 << (floor % 64)
	h.house |= 1 << (floor / 64)
}

// CheckOut frees room r.
func (h *Hotel[G]) CheckOut(r int32) {
	o := &h.rooms[r]
	if o.next != 0 {
		h.rooms[o.next].prev = o.prev
	}
	if o.prev != 0 {
		h.rooms[o.prev].next = o.next
	} else {
		h.first[o.floor] = o.next
		if o.next == 0 {
			h.close(o.floor)
		}
	}
	floor := o.floor
	*o = room[G]{next: h.vacant}
	h.vacant = r
	h.guests--
	if h.first[floor] == 0 && h.floorOf(h.wake) == floor {
		h.wake = h.nextWake()
	}
}

// close records that a floor is empty.
func (h *Hotel[G]) close(floor int32) {
	h.words[floor/64] &^= 1 << (floor % 64)
	if h.words[floor/64] == 0 {
		h.house &^= 1 << (floor / 64)
	}
}

func (h *Hotel[G]) floorOf(t clock.Time) int32 { return int32((int64(t) >> h.shift) % floors) }

// Pass records that the time is now and that no stay has ended.
func (h *Hotel[G]) Pass(now clock.Time) { h.done = max(h.done, int64(now)>>h.shift) }

// Evict returns one guest whose stay has ended at now, and frees its room. Callers repeat the
// call until ok is false.
func (h *Hotel[G]) Evict(now clock.Time) (g G, ok bool) {
	if now < h.wake {
		h.Pass(now)
		return g, false
	}
	h.done = int64(h.wake)>>h.shift - 1
	r := h.first[h.floorOf(h.wake)]
	g = h.rooms[r].guest
	h.CheckOut(r)
	return g, true
}

// nextWake finds the first floor with guests after done.
func (h *Hotel[G]) nextWake() clock.Time {
	if h.guests == 0 {
		return clock.Never
	}
	from := (h.done + 1) % floors
	w := from / 64
	if x := h.words[w] &^ (1<<(from%64) - 1); x != 0 {
		return h.tickAt(from, w*64+int64(bits.TrailingZeros64(x)))
	}
	// The floors of word w that are below from come last: the rotation puts w itself at the end.
	turn := bits.RotateLeft64(h.house, -int(w+1))
	w = (w + 1 + int64(bits.TrailingZeros64(turn))) % (floors / 64)
	return h.tickAt(from, w*64+int64(bits.TrailingZeros64(h.words[w])))
}

// tickAt returns the end of the stay of a floor's guests. from is the floor after done.
func (h *Hotel[G]) tickAt(from, floor int64) clock.Time {
	return clock.Time((h.done + 1 + (floor-from+floors)%floors) << h.shift)
}
