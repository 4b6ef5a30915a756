package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/simulated"
)

// Config configures a fabric. A zero field takes its default. The seed, the other fields and the
// program decide everything that happens.
type Config struct {
	// Seed decides what happens. See the function Seed.
	Seed uint64

	// NICs is the number of hosts, each with one NIC. 0 means 2.
	NICs int

	// TorusWidth is the number of columns of a torus. The NICs fill this torus row by row. 0 means
	// that the NICs have no positions.
	TorusWidth int

	// Link describes the network between all NICs.
	Link Link

	// Faults are the faults that happen at random. The zero value means none.
	Faults Faults

	// UnreachableAfter is the time of silence after which a NIC reports another NIC as unreachable.
	// 0 means 2 s.
	UnreachableAfter time.Duration

	// Replay is the command that repeats the run. A Failure holds this command. If Replay is empty,
	// a Failure holds a go test command that sets SeedVariable to the seed.
	Replay string

	hooks simulated.Hooks
}

// Fabric is a simulated fabric. Only one goroutine may use a fabric and its processes.
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

// New creates a fabric whose NICs know each other. Nothing happens until Run or Settle is called.
// New panics if a field of cfg is out of range, such as a rate above 1, and names the field.
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

// NICID returns the NIC ID of the host whose number is index.
func NICID(index int) weft.NICID { return 0x5745_4654_0000_0001 + weft.NICID(index) }

// Seed returns the seed of the fabric.
func (f *Fabric) Seed() uint64 { return f.cfg.Seed }

// Elapsed returns the virtual time since the start of the simulation.
func (f *Fabric) Elapsed() time.Duration { return time.Duration(f.s.now) }

// Now returns the virtual time of day. Every fabric starts at the beginning of the year 2100, UTC.
func (f *Fabric) Now() time.Time { return wall(f.s.now) }

// Counts returns the number of faults of each kind so far.
func (f *Fabric) Counts() Counts { return f.counts }

// Trace returns a hash of everything that has happened. Two runs of one seed have the same Trace.
func (f *Fabric) Trace() uint64 { return f.s.trace }

// After calls the function fn, outside any process, when the virtual time d has passed. The
// function fn must not block.
func (f *Fabric) After(d time.Duration, fn func()) { f.s.after(d, call(fn), 0) }

// Run lets virtual time pass until every function that Process started has returned. Run then ends
// the functions that Serve started. If the run fails, Run returns a [*Failure] with the first
// error. A run fails if a function returns an error or panics, or if a NIC panics. It also fails if
// some functions have not returned when the virtual time since the start of the simulation reaches
// timeout. In this case, the error lists these functions and what each function waits for.
func (f *Fabric) Run(timeout time.Duration) (err error) {
	defer func() {
		err = f.caught(recover(), err)
		for _, p := range f.procs {
			p.abandon()
		}
	}()
	for f.err == nil && f.open > 0 && f.s.step(clock.Time(timeout)) {
		if most := f.cfg.hooks.MaxEvents; most > 0 && f.s.steps > most {
			timeout = f.Elapsed()
			break
		}
	}
	if f.err == nil && f.open > 0 {
		f.fail(f.hanging(timeout))
	}
	return f.err
}

// Settle lets the virtual time d pass, whether or not functions return. If the run fails, Settle
// returns a [*Failure], like Run. Unlike Run, Settle ends no function.
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
				fmt.Fprintf(&b, "\n\t%v on host %d waits for %s since %v",
					t.name, p.host.index, t.why, time.Duration(t.since))
			}
		}
	}
	return errors.New(b.String())
}
