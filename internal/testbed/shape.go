package testbed

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"
)

// Bounds of a shaped switch.
const (
	// MostDelay bounds Config.Delay and Config.Jitter.
	MostDelay = 10 * time.Second

	// overtakenWithin is how long a reordered frame waits for a later frame to overtake it.
	overtakenWithin = 10 * time.Millisecond

	// heldBytes bounds the bytes of the frames that a shaped switch holds. It drops a frame that
	// exceeds the bound. 64 MiB are 5 s of 100 Mbit/s, or 50 ms of 10 Gbit/s.
	heldBytes = 64 << 20

	// perFrameBytes is charged for a held frame besides its bytes, so that short frames are
	// bounded too.
	perFrameBytes = 128
)

// shaped reports whether frames are delayed, duplicated or reordered.
func (c *Config) shaped() bool {
	return c.Delay > 0 || c.Jitter > 0 || c.Duplicate > 0 || c.Reorder > 0
}

func (c *Config) validateShape() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Delay", c.Delay}, {"Jitter", c.Jitter}} {
		if d.value < 0 || d.value > MostDelay {
			return fmt.Errorf("testbed: %s is %v, expected 0 to %v", d.name, d.value, MostDelay)
		}
	}
	for _, p := range []struct {
		name  string
		value float64
	}{{"Duplicate", c.Duplicate}, {"Reorder", c.Reorder}} {
		if !(p.value >= 0 && p.value <= 1) { // also a NaN
			return fmt.Errorf("testbed: %s is %v, expected 0 to 1", p.name, p.value)
		}
	}
	return nil
}

// fate is what happens to one frame.
type fate struct {
	delay, copyDelay time.Duration
	duplicate        bool
	reorder          bool
}

// fates draws the fates of the frames of one sender, in the order in which it sends them. The
// same seed and sender give the same fates, whatever other hosts do.
type fates struct {
	rng    *rand.Rand
	config *Config
}

func newFates(c *Config, sender int) *fates {
	return &fates{rand.New(rand.NewPCG(c.Seed, uint64(sender))), c}
}

// next draws all numbers for each frame, so that one probability does not change the draws for
// another.
func (f *fates) next() fate {
	c := f.config
	first, second := f.rng.Float64(), f.rng.Float64()
	duplicate, reorder := f.rng.Float64(), f.rng.Float64()
	return fate{
		delay:     c.Delay + time.Duration(first*float64(c.Jitter)),
		copyDelay: c.Delay + time.Duration(second*float64(c.Jitter)),
		duplicate: duplicate < c.Duplicate,
		reorder:   reorder < c.Reorder,
	}
}

// heldFrame is a frame that waits in a shaped switch.
type heldFrame struct {
	due   time.Time
	order uint64 // among frames that are due at the same time
	index int    // in the heap; -1 once the frame has left
	from  int    // the sender
	bytes []byte
}

// held holds the frames that wait in a shaped switch.
type held struct {
	frames  frameHeap
	bytes   int    // of all frames, with perFrameBytes each
	counter uint64 // numbers frames
	fates   []*fates
	waiting []*heldFrame // by sender: the reordered frame that no later frame has overtaken yet
	counts  ShapeCounters
}

// ShapeCounters counts what a shaped switch has done to frames.
type ShapeCounters struct {
	Carried    uint64 // frames that hosts sent
	Duplicated uint64 // of these: carried twice
	// Reordered counts the frames that a later frame of their sender overtook, or that were held
	// since there was none.
	Reordered  uint64
	Overflowed uint64 // dropped, because the switch or the receiver had no room
}

func newHeld(c *Config) *held {
	h := &held{waiting: make([]*heldFrame, c.Hosts)}
	for i := range c.Hosts {
		h.fates = append(h.fates, newFates(c, i))
	}
	return h
}

// take draws the fate of a frame and holds a copy of it until the frame is due.
func (h *held) take(now time.Time, from int, frame []byte) {
	h.counts.Carried++
	fate := h.fates[from].next()
	late := h.waiting[from]
	due := now.Add(fate.delay)
	switch {
	case late != nil && late.index >= 0: // this frame overtakes the late one
		h.hold(due, from, frame)
		late.due, late.order = due, h.number()
		heap.Fix(&h.frames, late.index)
		h.waiting[from] = nil
	case fate.reorder:
		h.counts.Reordered++
		h.waiting[from] = h.hold(due.Add(overtakenWithin), from, frame)
	default:
		h.waiting[from] = nil
		h.hold(due, from, frame)
	}
	if fate.duplicate {
		h.counts.Duplicated++
		h.hold(now.Add(fate.copyDelay), from, frame)
	}
}

func (h *held) number() uint64 {
	h.counter++
	return h.counter
}

// hold copies a frame into the switch. It returns nil if the switch has no room for it.
func (h *held) hold(due time.Time, from int, frame []byte) *heldFrame {
	if h.bytes+len(frame)+perFrameBytes > heldBytes {
		h.counts.Overflowed++
		return nil
	}
	h.bytes += len(frame) + perFrameBytes
	f := &heldFrame{due: due, order: h.number(), from: from, bytes: append([]byte(nil), frame...)}
	heap.Push(&h.frames, f)
	return f
}

// nextDue returns when the next frame is due, and false if no frame waits.
func (h *held) nextDue() (time.Time, bool) {
	if len(h.frames) == 0 {
		return time.Time{}, false
	}
	return h.frames[0].due, true
}

// leave removes and returns a frame that is due at now, or nil.
func (h *held) leave(now time.Time) *heldFrame {
	if len(h.frames) == 0 || h.frames[0].due.After(now) {
		return nil
	}
	f := heap.Pop(&h.frames).(*heldFrame)
	h.bytes -= len(f.bytes) + perFrameBytes
	return f
}

// frameHeap orders frames by the time at which they are due.
type frameHeap []*heldFrame

func (q frameHeap) Len() int { return len(q) }

func (q frameHeap) Less(i, j int) bool {
	return cmp.Or(q[i].due.Compare(q[j].due), cmp.Compare(q[i].order, q[j].order)) < 0
}

func (q frameHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *frameHeap) Push(f any) {
	f.(*heldFrame).index = len(*q)
	*q = append(*q, f.(*heldFrame))
}

func (q *frameHeap) Pop() any {
	last := len(*q) - 1
	f := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	f.index = -1
	return f
}
