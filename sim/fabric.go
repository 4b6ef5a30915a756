package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/simulated"
)

// Config is what a fabric is made from. Only Seed decides what happens in it.
type Config struct {
	Seed             uint64
	NICs             int           // hosts, each with one NIC; 0 is 2
	TorusWidth       int           // columns of the torus on which the NICs are, row by row; 0: they have no positions
	Link             Link          // between all of them
	Faults           Faults        // by chance
	UnreachableAfter time.Duration // silence after which a NIC gives another up; 0 is 2 s
	Replay           string        // command that runs this seed again, for failures to print

	hooks simulated.Hooks
}

// Fabric is a simulated fabric. It and all that belongs to it are for one goroutine.
type Fabric struct {
	cfg    Config
	s      *sched
	net    *network
	nodes  []*node
	seeds  *rand.Rand // for engines and processes
	chance *rand.Rand // for episodes
	counts Counts
	procs  []*Process // all that ever were
	open   int        // main functions that Run waits for
	err    error
}

// New makes a fabric of NICs that know of each other. Nothing happens before Run. It panics with the name of a field of which no fabric can be made, such
// as a rate above 1.
func New(cfg Config) *Fabric {
	setDefault(&cfg.NICs, 2)
	cfg.check()
	f := &Fabric{cfg: cfg, s: newSched(cfg.Seed), seeds: stream(cfg.Seed, 2), chance: stream(cfg.Seed, 3)}
	f.net = newNetwork(f.s, cfg.Seed, cfg.NICs, cfg.Link, cfg.Faults, &f.counts)
	f.net.tap = cfg.hooks.Tap
	for i := range cfg.NICs {
		f.nodes = append(f.nodes, newNode(f, i))
	}
	for _, n := range f.nodes {
		if err := n.start(); err != nil {
			f.fail(err)
		}
	}
	f.beginEpisodes()
	return f
}

// NICID is the id of the NIC of host number index.
func NICID(index int) uint64 { return 0x5745_4654_0000_0001 + uint64(index) }

// Seed is the seed that the fabric was made from.
func (f *Fabric) Seed() uint64 { return f.cfg.Seed }

// Elapsed is the virtual time since the start.
func (f *Fabric) Elapsed() time.Duration { return time.Duration(f.s.now) }

// Now is the virtual time of day.
func (f *Fabric) Now() time.Time { return wall(f.s.now) }

// Counts says which faults have happened so far.
func (f *Fabric) Counts() Counts { return f.counts }

// Trace is a hash of everything that has happened. Runs of one seed have the same.
func (f *Fabric) Trace() uint64 { return f.s.trace }

// After calls fn when d of virtual time has passed, outside of any process. fn must not block.
func (f *Fabric) After(d time.Duration, fn func()) { f.s.after(d, call(fn), 0) }

// Run lets virtual time pass until every main function has returned, and at most until limit after the start. Functions
// started by Serve do not count; they are ended with the run. It returns nil if no function returned an error, or else a
// *Failure with the first: an error of a function, functions that did not end within limit, a NIC that panicked.
func (f *Fabric) Run(limit time.Duration) (err error) {
	defer func() {
		err = f.caught(recover(), err)
		for _, p := range f.procs {
			p.abandon()
		}
	}()
	for f.err == nil && f.open > 0 && f.s.step(clock.Time(limit)) {
		if most := f.cfg.hooks.MaxEvents; most > 0 && f.s.steps > most {
			limit = f.Elapsed()
			break
		}
	}
	if f.err == nil && f.open > 0 {
		f.fail(f.hanging(limit))
	}
	return f.err
}

// Settle lets d of virtual time pass, whatever the processes do. It is Run for a fabric without a purpose.
func (f *Fabric) Settle(d time.Duration) (err error) {
	defer func() { err = f.caught(recover(), err) }()
	for until := f.s.now.Add(d); f.err == nil && f.s.step(until); {
	}
	return f.err
}

// caught makes the panic of a NIC the failure of the run.
func (f *Fabric) caught(panicked any, err error) error {
	if panicked == nil {
		return err
	}
	f.fail(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()))
	return f.err
}

// hanging lists what has not ended.
func (f *Fabric) hanging(limit time.Duration) error {
	var b strings.Builder
	if f.s.queue.len() == 0 {
		b.WriteString("nothing will ever happen again, but these have not ended:")
	} else {
		fmt.Fprintf(&b, "after %v these have not ended:", limit)
	}
	for _, p := range f.procs {
		for _, t := range p.tasks {
			if !t.over {
				fmt.Fprintf(&b, "\n\t%v on host %d waits for %s since %v", t.name, p.host.index, t.why, time.Duration(t.since))
			}
		}
	}
	return errors.New(b.String())
}
