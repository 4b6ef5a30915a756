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

// Config configures a fabric. Zero fields take the defaults. Everything that happens follows from
// Seed, the other fields and the program.
type Config struct {
	// Seed decides what happens. See the function Seed.
	Seed uint64

	// NICs is the number of hosts, each with one NIC. 0 means 2.
	NICs int

	// TorusWidth is the number of columns of the torus on which the NICs are, row by row. 0 means
	// that the NICs have no positions.
	TorusWidth int

	// Link describes the network between all NICs.
	Link Link

	// Faults are the faults that happen at random. The zero value means none.
	Faults Faults

	// UnreachableAfter is the silence after which a NIC counts another as unreachable. 0 means 2 s.
	UnreachableAfter time.Duration

	// Replay is the command that a Failure prints to repeat the run. Empty means a go test command
	// with the seed in SeedVariable.
	Replay string

	hooks simulated.Hooks
}

// Fabric is a simulated fabric. It and its processes belong to one goroutine.
type Fabric struct {
	cfg    Config
	s      *sched
	net    *network
	nodes  []*node
	seeds  *rand.Rand // for engines and processes
	chance *rand.Rand // for episodes
	counts Counts
	procs  []*Process // all, including those that have ended
	open   int        // main functions that Run waits for
	err    error
}

// New creates a fabric whose NICs know each other. Nothing happens before Run or Settle. New panics
// if a field of cfg is out of range, such as a rate above 1, and names the field.
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

// NICID returns the id of the NIC of a host.
func NICID(index int) uint64 { return 0x5745_4654_0000_0001 + uint64(index) }

// Seed returns the seed of the fabric.
func (f *Fabric) Seed() uint64 { return f.cfg.Seed }

// Elapsed returns the virtual time since the start.
func (f *Fabric) Elapsed() time.Duration { return time.Duration(f.s.now) }

// Now returns the virtual time of day. Every fabric starts at the beginning of the year 2100, UTC.
func (f *Fabric) Now() time.Time { return wall(f.s.now) }

// Counts returns how often each fault has happened so far.
func (f *Fabric) Counts() Counts { return f.counts }

// Trace returns a hash of everything that has happened. Two runs of one seed have the same Trace.
func (f *Fabric) Trace() uint64 { return f.s.trace }

// After calls fn after d of virtual time, outside any process. fn must not block.
func (f *Fabric) After(d time.Duration, fn func()) { f.s.after(d, call(fn), 0) }

// Run lets virtual time pass until every function that Process started has returned. Then it ends
// the functions that Serve started. It returns nil, or a [*Failure] with the first error: a
// function has failed or panicked, a NIC has panicked, or functions had not returned when limit had
// passed since the start. In the last case the error lists these functions and what they wait for.
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

// Settle lets d of virtual time pass, whatever the processes do. It returns errors as Run does, and
// ends no function.
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

// hanging returns an error that lists the functions that have not ended.
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
