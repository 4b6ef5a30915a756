package testbed

import (
	"slices"
	"testing"
	"time"
)

// arrivals takes one frame of each sender after the other, a millisecond apart, and returns the
// frames in the order in which they leave. A frame is one byte: its number.
func arrivals(t *testing.T, c Config, frames int) (order []byte, h *held) {
	t.Helper()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	h = newHeld(&c)
	now := time.Unix(1000, 0)
	for i := range frames {
		for f := h.leave(now); f != nil; f = h.leave(now) {
			order = append(order, f.bytes[0])
		}
		h.take(now, i%c.Hosts, []byte{byte(i)})
		now = now.Add(time.Millisecond)
	}
	for f := h.leave(now.Add(time.Hour)); f != nil; f = h.leave(now.Add(time.Hour)) {
		order = append(order, f.bytes[0])
	}
	if h.bytes != 0 {
		t.Errorf("%d bytes are held after the last frame has left", h.bytes)
	}
	return order, h
}

func counting(n int) (all []byte) {
	for i := range n {
		all = append(all, byte(i))
	}
	return all
}

func TestAFrameLeavesWhenItsDelayIsOverAndNotBefore(t *testing.T) {
	h := newHeld(&Config{Hosts: 1, Delay: 5 * time.Millisecond})
	begin := time.Unix(1000, 0)
	h.take(begin, 0, []byte{7})
	if due, some := h.nextDue(); !some || due != begin.Add(5*time.Millisecond) {
		t.Errorf("the next frame is due at %v, %v", due, some)
	}
	if h.leave(begin.Add(5*time.Millisecond-1)) != nil {
		t.Error("a frame left before its delay was over")
	}
	if f := h.leave(begin.Add(5 * time.Millisecond)); f == nil || f.bytes[0] != 7 {
		t.Errorf("%v left when its delay was over", f)
	}
}

func TestADelayAloneKeepsTheOrder(t *testing.T) {
	if order, _ := arrivals(t, Config{Hosts: 2, Delay: 7 * time.Millisecond}, 200); !slices.Equal(order, counting(200)) {
		t.Errorf("the frames left in the order %d", order)
	}
}

func TestJitterAddsToTheDelayAndNeverTakesFromIt(t *testing.T) {
	c := Config{Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, Seed: 3}
	f := newFates(&c, 0)
	var least, most time.Duration = time.Hour, 0
	for range 1000 {
		d := f.next().delay
		least, most = min(least, d), max(most, d)
	}
	if least < c.Delay || most > c.Delay+c.Jitter || most-least < c.Jitter*9/10 {
		t.Errorf("delays are from %v to %v; expected nearly all of 5 ms to 7 ms", least, most)
	}
	if order, _ := arrivals(t, Config{Hosts: 1, Jitter: 20 * time.Millisecond}, 200); slices.IsSorted(order) || len(order) != 200 {
		t.Errorf("with a jitter, 200 frames left in the order %d", order)
	}
}

func TestDuplicatesAreCopiesAndEachFrameIsThere(t *testing.T) {
	order, h := arrivals(t, Config{Hosts: 1, Duplicate: 0.2, Seed: 1}, 250)
	if n := uint64(len(order)); n != 250+h.counts.Duplicated || h.counts.Duplicated < 25 || h.counts.Duplicated > 75 {
		t.Errorf("250 frames left as %d, %d of them duplicated; expected about 50", n, h.counts.Duplicated)
	}
	slices.Sort(order)
	if !slices.Equal(slices.Compact(order), counting(250)) {
		t.Errorf("not each frame left: %d", order)
	}
}

func TestAReorderedFrameLeavesRightBehindTheNextOfItsSender(t *testing.T) {
	order, h := arrivals(t, Config{Hosts: 1, Reorder: 0.1, Delay: 3 * time.Millisecond, Seed: 1}, 250)
	swapped := 0
	for i := 0; i < len(order); i++ {
		if order[i] == byte(i) {
			continue
		}
		if i+1 == len(order) || order[i] != byte(i+1) || order[i+1] != byte(i) {
			t.Fatalf("frame %d left in place %d", order[i], i)
		}
		swapped++
		i++
	}
	if swapped < 10 || swapped > 50 {
		t.Errorf("%d of 250 frames were overtaken, expected about 25; %+v", swapped, h.counts)
	}
}

func TestAReorderedFrameThatNoOtherFollowsLeavesAllTheSame(t *testing.T) {
	h := newHeld(&Config{Hosts: 2, Reorder: 1})
	now := time.Unix(1000, 0)
	h.take(now, 0, []byte{1})
	h.take(now, 1, []byte{2}) // from another sender: it overtakes no frame
	if f := h.leave(now.Add(overtakenWithin - 1)); f != nil {
		t.Errorf("frame %d left early", f.bytes)
	}
	for _, want := range []byte{1, 2} {
		if f := h.leave(now.Add(overtakenWithin)); f == nil || f.bytes[0] != want {
			t.Errorf("%v left, expected frame %d", f, want)
		}
	}
}

func TestASeedDecidesTheFatesOfEachSendersFrames(t *testing.T) {
	draw := func(seed uint64, sender int) (all []fate) {
		c := Config{Delay: time.Millisecond, Jitter: time.Millisecond, Duplicate: 0.5, Reorder: 0.5, Seed: seed}
		for f := newFates(&c, sender); len(all) < 100; {
			all = append(all, f.next())
		}
		return all
	}
	if !slices.Equal(draw(7, 1), draw(7, 1)) {
		t.Error("one seed draws two runs of fates")
	}
	if slices.Equal(draw(7, 1), draw(8, 1)) || slices.Equal(draw(7, 1), draw(7, 2)) {
		t.Error("another seed, or another sender, draws the same fates")
	}
}

func TestASwitchThatIsFullDropsFramesAndCountsThem(t *testing.T) {
	h := newHeld(&Config{Hosts: 1, Delay: time.Second, Reorder: 0.5, Duplicate: 0.5})
	frame := make([]byte, 1<<20)
	for range 100 {
		h.take(time.Unix(1000, 0), 0, frame)
	}
	if h.bytes > heldBytes || h.counts.Overflowed == 0 || len(h.frames) != 63 {
		t.Errorf("%d bytes in %d frames are held, of at most %d; %d frames dropped", h.bytes, len(h.frames), heldBytes, h.counts.Overflowed)
	}
	if want := h.counts.Carried + h.counts.Duplicated - h.counts.Overflowed; want != uint64(len(h.frames)) {
		t.Errorf("the counters %+v say that %d frames are held, and %d are", h.counts, want, len(h.frames))
	}
}
