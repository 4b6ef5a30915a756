// Package fault wraps a driver and lets things go wrong, by a seed.
//
//	driver ─► partition ─► loss ─► corrupt, truncate ─┬────────────────────────────────► Receive
//	             │           │                        ├─ duplicate ─┐                      ▲
//	             ▼           ▼                        └─────────────┴─► held until due ────┘
//	           lost        lost                          delay, jitter, reorder, clog
//
// All faults happen on the receive side. Only Poll is told the time and can tell when it wants to be called again, so
// only there can a frame be held back on virtual time; and the sender below keeps the backpressure it has without
// faults. Each direction of a pair has the faults of the wrapper at its end, so a partition may well be one-way.
//
// What the driver below can do besides (link.Caps) the wrapper can, too: frames that leave by Post or in a run are the receiver's to lose,
// and a frame that is looked at or handed over in a run has its faults as one that Poll brings.
//
// Nothing but the seed, the frames and the instants passed to Poll decides what happens: over a deterministic driver a
// run can be replayed. Frames that are neither held nor altered pass uncopied. Held ones are copied into pooled memory,
// bounded by Config.HeldBytes. A wrapper that has no faults to make allocates nothing, and one that has them stops
// allocating once its pool has grown.
//
// The wrapper withdraws the driver's every claim, with or without faults: they may be set at any moment.
package fault

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Config says what goes wrong. Rates are probabilities per frame, 0…1, drawn independently of one another. The zero
// value lets every frame pass.
type Config struct {
	Seed uint64 // of everything drawn; two wrappers of one run want different ones

	Loss      float64 // the frame vanishes
	Duplicate float64 // the frame comes twice; the second one has a delay of its own
	Corrupt   float64 // some bits of the frame are flipped; never none
	Truncate  float64 // the frame loses its end; never nothing, maybe all
	Reorder   float64 // the frame is held for up to ReorderBy, so that later ones overtake it

	ReorderBy time.Duration // 0 = 500 µs
	Delay     time.Duration // every frame comes that much later
	Jitter    time.Duration // and up to that much more, each frame for itself: they overtake one another

	Clog    float64       // from this frame on, all frames of its sender are held for ClogFor, then come together
	ClogFor time.Duration // 0 = 5 ms

	// Cut, if set, says for every frame whether its sender is cut off at the moment. Driver.Cut and Heal are the same
	// for those that would rather name addresses.
	Cut func(from link.Addr) bool

	HeldBytes int // held frames beyond this many bytes of memory are lost; 0 = limits.HeldBytes
}

// Check says what is wrong with the configuration.
func (c *Config) Check() error {
	for _, rate := range []struct {
		name  string
		value float64
	}{
		{"loss", c.Loss}, {"duplicate", c.Duplicate}, {"corrupt", c.Corrupt}, {"truncate", c.Truncate},
		{"reorder", c.Reorder}, {"clog", c.Clog},
	} {
		if !(rate.value >= 0 && rate.value <= 1) { // in this form NaN is refused, too
			return fmt.Errorf("fault: %s rate of %v: not in 0…1", rate.name, rate.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"delay", c.Delay}, {"jitter", c.Jitter}, {"reorder", c.ReorderBy}, {"clog", c.ClogFor}} {
		if d.value < 0 {
			return fmt.Errorf("fault: %s of %v: less than nothing", d.name, d.value)
		}
	}
	if c.HeldBytes < 0 {
		return fmt.Errorf("fault: %d bytes of held frames: less than nothing", c.HeldBytes)
	}
	return nil
}

// Counts says how often each fault has happened, in frames.
type Counts struct {
	Passed      uint64 // handed to the engine, duplicates and damaged ones included
	Lost        uint64
	Duplicated  uint64
	Corrupted   uint64
	Truncated   uint64
	Reordered   uint64 // held so that others overtake; whether any did depends on the traffic
	Delayed     uint64 // held for Delay and Jitter
	Partitioned uint64 // lost because their sender was cut off
	Clogged     uint64 // held because their sender was clogged
	Overflowed  uint64 // lost because HeldBytes of frames were held already
}

// Add adds d to c.
func (c *Counts) Add(d *Counts) {
	c.Passed += d.Passed
	c.Lost += d.Lost
	c.Duplicated += d.Duplicated
	c.Corrupted += d.Corrupted
	c.Truncated += d.Truncated
	c.Reordered += d.Reordered
	c.Delayed += d.Delayed
	c.Partitioned += d.Partitioned
	c.Clogged += d.Clogged
	c.Overflowed += d.Overflowed
}

// Driver is the wrapped driver. Like every driver it is used by one goroutine at a time, also while faults are set.
type Driver struct {
	link.Driver // the driver below: Addr, MTU, Reserve, Commit and Flush are its own

	below link.Caps // what it can do besides

	cfg    Config
	rng    *rand.Rand
	counts Counts
	held   queue
	pool   pool
	cut    map[link.Addr]struct{}   // senders cut off
	clogs  map[link.Addr]clock.Time // clogged senders, each until its instant
	tap    tap
	shown  shown
	now    clock.Time    // of the last Poll or Pass
	to     link.Receiver // during a Poll: the receiver of frames
	at     netip.Addr    // during a Poll: where the frame that is handed over has arrived
	handed int           // during a Poll: how many it has got
	bytes  uint64        // handed so far, in all
	closed bool
}

var _ link.Driver = (*Driver)(nil)

// Wrap puts faults between d and its engine. It panics if cfg does not pass its Check.
func Wrap(d link.Driver, cfg Config) *Driver {
	f := &Driver{
		Driver: d,
		below:  d.Caps(),
		rng:    rand.New(rand.NewPCG(cfg.Seed, 0x6661756c74)),
		cut:    make(map[link.Addr]struct{}),
		clogs:  make(map[link.Addr]clock.Time),
	}
	f.tap.d = f
	f.Set(cfg)
	return f
}

// Set changes what goes wrong from now on. Frames that are held stay held. The seed has its effect in Wrap only. It
// panics if cfg does not pass its Check.
func (f *Driver) Set(cfg Config) {
	if err := cfg.Check(); err != nil {
		panic(err.Error())
	}
	if cfg.ReorderBy == 0 {
		cfg.ReorderBy = 500 * time.Microsecond
	}
	if cfg.ClogFor == 0 {
		cfg.ClogFor = 5 * time.Millisecond
	}
	if cfg.HeldBytes == 0 {
		cfg.HeldBytes = limits.HeldBytes
	}
	f.cfg = cfg
}

// Cut loses the frames of these senders until Heal.
func (f *Driver) Cut(from ...link.Addr) {
	for _, a := range from {
		f.cut[a] = struct{}{}
	}
}

// Heal ends every Cut and every clog; what clogs held comes when it is due.
func (f *Driver) Heal() {
	clear(f.cut)
	clear(f.clogs)
}

// Clog holds the frames of from until an instant, when they come together, in their order.
func (f *Driver) Clog(from link.Addr, until clock.Time) { f.clogs[from] = until }

// Counts returns how often each fault has happened.
func (f *Driver) Counts() Counts { return f.counts }

// Held is how many frames are held at the moment.
func (f *Driver) Held() int { return len(f.held.heap) }

// Properties implements link.Driver: no promise is left.
func (f *Driver) Properties() link.Properties { return link.Properties{} }

// Counters implements link.Driver. What the wrapper loses counts as dropped on the way in, and FramesIn is what the
// engine has got.
func (f *Driver) Counters(c *link.Counters) {
	var own link.Counters
	f.Driver.Counters(&own)
	own.FramesIn, own.BytesIn = f.counts.Passed, f.bytes
	own.DroppedIn += f.counts.Lost + f.counts.Partitioned + f.counts.Overflowed
	c.Add(&own)
}

// Caps implements link.Driver. The driver below keeps what it can do: frames that are looked at have their faults as those of a Poll
// have.
func (f *Driver) Caps() link.Caps {
	c := f.below
	if c.Glance != nil {
		c.Glance = f.glance
	}
	if c.Peek != nil {
		c.Peek, c.Pass = f.peek, f.pass
	}
	if c.Reached != nil { // a frame that was held arrived elsewhere than the last one
		c.Reached = func() netip.Addr { return f.at }
	}
	return c
}

// Close implements link.Driver. Held frames are lost.
func (f *Driver) Close() error {
	f.closed = true
	f.held.clear()
	f.shown = shown{}
	f.pool = pool{}
	return f.Driver.Close()
}
