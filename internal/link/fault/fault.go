// Package fault wraps a driver and injects faults, drawn from a seed.
//
//	driver ─► partition ─► loss ─► corrupt, truncate ─┬────────────────────────────────► Receive
//	             │           │                        ├─ duplicate ─┐                      ▲
//	             ▼           ▼                        └─────────────┴─► held until due ────┘
//	           lost        lost                          delay, jitter, reorder, clog
//
// All faults happen on the receive side. Only Poll gets the time and can ask to be called again,
// so only there can a frame be delayed on virtual time. The sender below keeps its normal
// backpressure. Each direction of a pair has the faults of the wrapper at its end, so a
// partition may affect one direction only.
//
// The wrapper has the capabilities of the driver below (link.Caps). Frames that leave by Post or
// in a run can be lost at the receiver. A frame that Peek returns, or that arrives in a run, has
// the same faults as one from Poll.
//
// Only the seed, the frames and the times passed to Poll decide what happens. So a run over a
// deterministic driver can be replayed. Frames that are neither held nor changed pass without a
// copy. Held frames are copied into pooled memory, up to Config.HeldBytes. A wrapper without
// faults allocates nothing. One with faults stops allocating once its pool has grown.
//
// The wrapper clears all promises of the driver, with or without faults, since faults may be set
// at any time.
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

// Config describes the faults. Rates are probabilities per frame, 0…1, drawn independently. With
// the zero value every frame passes.
type Config struct {
	Seed uint64 // of all draws; two wrappers of one run should have different seeds

	Loss      float64 // the frame is lost
	Duplicate float64 // the frame arrives twice; the second has its own delay
	Corrupt   float64 // some bits of the frame are flipped, at least one
	Truncate  float64 // the frame loses its end: at least one byte, perhaps all
	Reorder   float64 // the frame is held for up to ReorderBy, so later ones overtake it

	ReorderBy time.Duration // 0 means 500 µs
	Delay     time.Duration // every frame arrives this much later
	Jitter    time.Duration // and up to this much more, per frame, so frames overtake one another

	// Clog is the rate at which a frame clogs its sender: it and all later frames of the sender
	// are held for ClogFor, and then arrive together.
	Clog    float64
	ClogFor time.Duration // 0 means 5 ms

	// Cut, if not nil, reports for every frame whether its sender is cut off now. Driver.Cut and
	// Driver.Heal do the same by addresses.
	Cut func(from link.Addr) bool

	// HeldBytes is the most memory for held frames, in bytes. Further frames are lost. 0 means
	// limits.HeldBytes.
	HeldBytes int
}

// Check returns an error if the configuration is invalid.
func (c *Config) Check() error {
	for _, rate := range []struct {
		name  string
		value float64
	}{
		{"loss", c.Loss}, {"duplicate", c.Duplicate}, {"corrupt", c.Corrupt}, {"truncate", c.Truncate},
		{"reorder", c.Reorder}, {"clog", c.Clog},
	} {
		if !(rate.value >= 0 && rate.value <= 1) { // this form also refuses NaN
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

// Counts counts the faults, in frames.
type Counts struct {
	Passed      uint64 // handed to the engine, including duplicates and damaged ones
	Lost        uint64
	Duplicated  uint64
	Corrupted   uint64
	Truncated   uint64
	Reordered   uint64 // held so that others can overtake, whether or not any did
	Delayed     uint64 // held for Delay or Jitter
	Partitioned uint64 // lost because the sender was cut off
	Clogged     uint64 // held because the sender was clogged
	Overflowed  uint64 // lost because HeldBytes were held already
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

// Driver is the wrapped driver. Like every driver it is used by one goroutine at a time, also to
// set faults.
type Driver struct {
	link.Driver // the driver below, which serves Addr, MTU, Reserve, Commit and Flush

	below link.Caps // capabilities of the driver below

	cfg    Config
	rng    *rand.Rand
	counts Counts
	held   queue
	pool   pool
	cut    map[link.Addr]struct{}   // senders cut off
	clogs  map[link.Addr]clock.Time // clogged senders, and when each clog ends
	tap    tap
	shown  shown
	now    clock.Time    // time of the last Poll or Pass
	to     link.Receiver // the receiver, during a Poll
	at     netip.Addr    // where the current frame has arrived, during a Poll
	handed int           // number of frames handed over, during a Poll
	bytes  uint64        // bytes handed over in total
	closed bool
}

var _ link.Driver = (*Driver)(nil)

// Wrap returns a driver with faults between d and its engine. It panics if cfg.Check fails.
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

// Set changes the faults from now on. Held frames stay held. The seed is used only by Wrap. Set
// panics if cfg.Check fails.
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

// Cut makes the frames of these senders get lost until Heal.
func (f *Driver) Cut(from ...link.Addr) {
	for _, a := range from {
		f.cut[a] = struct{}{}
	}
}

// Heal ends every Cut and every clog. Frames that a clog holds still arrive when they are due.
func (f *Driver) Heal() {
	clear(f.cut)
	clear(f.clogs)
}

// Clog holds the frames of from until the given time. Then they arrive together, in order.
func (f *Driver) Clog(from link.Addr, until clock.Time) { f.clogs[from] = until }

// Counts returns how often each fault has happened.
func (f *Driver) Counts() Counts { return f.counts }

// Held returns the number of frames that are held now.
func (f *Driver) Held() int { return len(f.held.heap) }

// Properties implements link.Driver. It returns no promises.
func (f *Driver) Properties() link.Properties { return link.Properties{} }

// Counters implements link.Driver. DroppedIn includes the frames that the wrapper loses, and
// FramesIn counts the frames handed to the engine.
func (f *Driver) Counters(c *link.Counters) {
	var own link.Counters
	f.Driver.Counters(&own)
	own.FramesIn, own.BytesIn = f.counts.Passed, f.bytes
	own.DroppedIn += f.counts.Lost + f.counts.Partitioned + f.counts.Overflowed
	c.Add(&own)
}

// Caps implements link.Driver. It returns the capabilities of the driver below. A frame from
// Peek has the same faults as one from Poll.
func (f *Driver) Caps() link.Caps {
	c := f.below
	if c.Glance != nil {
		c.Glance = f.glance
	}
	if c.Peek != nil {
		c.Peek, c.Pass = f.peek, f.pass
	}
	if c.Reached != nil { // a held frame has perhaps arrived elsewhere than the last one
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
