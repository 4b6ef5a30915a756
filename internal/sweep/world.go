package sweep

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// phase is the progress of a run.
//
//	load ──all sent──► drain ──all ended, nothing comes──► settle ──resources are back──► closing
type phase uint8

const (
	load    phase = iota // lives send, receive, PUT and GET; acts happen
	drain                // nothing new is sent; lives receive what arrives
	settle               // no operation is in flight; NICs take back what they have lent
	closing              // lives end
)

func (p phase) String() string { return [...]string{"load", "drain", "settle", "closing"}[p] }

// A run must end within runLimit of virtual time. Operations in flight must have come to rest
// settleTime after the last operation. When no message has arrived for [world.quiet], none will.
const (
	runLimit   = 3 * time.Minute
	settleTime = 4 * time.Second
	lookEvery  = 20 * time.Millisecond
	shortWait  = 100 * time.Microsecond // until a context may be free
	watchTime  = 500 * time.Millisecond // until a watcher checks whether it is still needed
)

// world is one run.
type world struct {
	out    io.Writer // may be nil
	plan   *plan
	f      *sim.Fabric
	l      *ledger
	rng    *rand.Rand
	phase  phase
	lives  map[string]*life // the present life of each name
	all    []*life
	names  []string
	homes  map[string]int
	bufs   *buffers
	totals Totals

	toSend, toPut, toGet int
	sending              int // sender functions that have not ended
	lastCame             time.Duration
	closed               []closedRegion
	regions              uint64 // regions opened
	guests               []int  // by host: hostile processes that were started
	touched              []bool // by host: an act has happened to it that can make operations fail
	acts                 []act  // future acts
	pendingActs          int    // acts that have not ended
	grams                *datagrams
}

// Result holds the results of one run.
type Result struct {
	Totals
	Seed       uint64
	Defect     mutate.Defect
	Violations []string
	Trace      uint64
}

// Run runs a seed. The same seed makes the same run.
func Run(seed uint64, d mutate.Defect) *Result { return RunLogged(seed, d, nil) }

// RunLogged is like Run, and writes the faults of the fabric and the events of its processes to
// out.
func RunLogged(seed uint64, d mutate.Defect, out io.Writer) *Result {
	w := newWorld(newPlan(seed), d, out)
	defer w.bufs.giveBack()
	err := w.run()
	w.judge(err)
	w.totals.Datagrams, w.totals.DatagramsCame = uint64(w.grams.number), w.grams.came
	found, done := runTeam(seed, d)
	for _, v := range found {
		w.l.violate("%s", v)
	}
	guilty, formed := runGuild(seed, d)
	for _, v := range guilty {
		w.l.violate("%s", v)
	}
	done += formed
	harmed, records := runAsylum(seed, d)
	for _, v := range harmed {
		w.l.violate("%s", v)
	}
	misled, lies := runHearsay(seed, d)
	for _, v := range misled {
		w.l.violate("%s", v)
	}
	w.totals.Nonsense = records + lies
	rumoured, altered := runRumour(seed, d)
	for _, v := range rumoured {
		w.l.violate("%s", v)
	}
	w.totals.Altered = altered
	attacked, attacks := runIntruder(seed, d)
	for _, v := range attacked {
		w.l.violate("%s", v)
	}
	w.totals.Faults.Attacks = attacks
	contested, claims := runContest(seed, d)
	for _, v := range contested {
		w.l.violate("%s", v)
	}
	talked, ways := runTalk(seed, d)
	for _, v := range talked {
		w.l.violate("%s", v)
	}
	built, activations := runWorkshop(seed, d)
	for _, v := range built {
		w.l.violate("%s", v)
	}
	w.totals.Activations = activations
	w.totals.Ways.add(ways)
	w.totals.Claims = claims
	w.totals.Collectives, w.totals.Violations = done, uint64(len(w.l.violations))
	return &Result{Totals: w.totals, Seed: seed, Defect: d, Violations: w.l.violations, Trace: w.f.Trace()}
}

// nicID returns the id of a host's NIC in the form of the internal packages.
func nicID(host int) uint64 { return uint64(sim.NICID(host)) }

func newWorld(p *plan, d mutate.Defect, out io.Writer) *world {
	p.hooks.Defect = d
	p.hooks = sealed(p.seed, p.hooks)
	w := &world{
		out: out, plan: p, l: newLedger(), rng: rand.New(rand.NewPCG(p.seed, 0x776f726c64)),
		lives: map[string]*life{}, homes: map[string]int{}, bufs: newBuffers(), touched: make([]bool, p.nics),
		guests: make([]int, p.nics),
		toSend: p.messages, toPut: p.puts, toGet: p.gets, acts: slices.Clone(p.acts),
	}
	w.grams = newDatagrams(p.seed, p.nics, w.l.violate)
	checks := newChecks(p.unreachableAfter)
	p.hooks.Check = func(e *nic.Engine) error {
		defer w.grams.polled(e, w.phase == load)
		return checks.check(e)
	}
	w.l.session = w.session
	w.l.trusting, w.l.frame, w.l.newsTake = p.link.Reliable, p.link.MTU, p.unreachableAfter+newsTakes
	w.f = sim.New(simulated.Hooked(sim.Config{
		Seed: p.seed, NICs: p.nics, Link: p.link, Faults: p.faults, UnreachableAfter: p.unreachableAfter,
		Replay: replay(p.seed, d),
	}, p.hooks))
	w.totals.Seeds, w.totals.NICs = 1, uint64(p.nics)
	w.actsAtOnce()
	for i := range p.procs {
		name := fmt.Sprintf("app/%d", i)
		w.names = append(w.names, name)
		w.homes[name] = i % p.nics
		w.begin(name)
	}
	w.f.After(lookEvery, w.look)
	return w
}

// run carries out the whole run. A panic outside of the fabric is also a failure of the run.
func (w *world) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return w.f.Run(runLimit)
}

// log writes a line to the log, if there is one.
func (w *world) log(format string, args ...any) {
	if w.out != nil {
		fmt.Fprintf(w.out, "%12v  %s\n", w.f.Elapsed(), fmt.Sprintf(format, args...))
	}
}

// look moves the run from phase to phase.
func (w *world) look() {
	now := w.f.Elapsed()
	switch {
	case w.phase == load && w.sending == 0 && w.toSend <= 0 && w.pendingActs == 0:
		w.phase = drain
		w.log("nothing new is sent")
		w.lastCame = now
	case w.phase == drain && w.l.unended == 0 && now-w.lastCame > w.quiet():
		w.phase = settle
		w.log("every operation has ended")
		w.f.After(settleTime, w.close)
		return
	}
	w.f.After(lookEvery, w.look)
}

// quiet returns the time of silence after which nothing more will arrive. It is longer than any
// retransmission or timeout.
func (w *world) quiet() time.Duration { return w.plan.unreachableAfter + time.Second }

// close takes stock while all processes are still running, and then ends them.
func (w *world) close() {
	w.takeStock()
	w.log("the run closes")
	for _, lf := range w.lives {
		lf.clean = !lf.ended
	}
	w.phase = closing
}

// begin starts a life of a name at its home.
func (w *world) begin(name string) *life {
	lf := &life{w: w, name: name, host: w.homes[name], sent: map[string]int{}, heard: map[int]heard{},
		number: len(w.all), open: map[fmt.Stringer]time.Duration{}}
	w.all = append(w.all, lf)
	if w.lives[name] != nil {
		w.totals.Faults.Renamed++
		lf.heir = true
	}
	w.lives[name] = lf
	w.totals.Processes++
	w.log("%s begins on host %d as life %d", name, lf.host, lf.number)
	lf.proc = w.f.Process(lf.host, name, lf.main)
	return lf
}

// end notes that a life has ended, for whatever cause.
func (w *world) end(lf *life) {
	if !lf.ended {
		lf.ended = true
		w.bury(lf)
		w.sending -= lf.senders
		lf.senders = 0
		for _, m := range w.l.order {
			if m.from == lf && m.outcome == pending {
				w.l.unended-- // its end will never be reported
				w.l.leaves(m)
			}
		}
	}
}
