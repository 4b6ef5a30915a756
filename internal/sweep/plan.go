package sweep

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// plan holds everything about a run that its seed decides beforehand.
type plan struct {
	seed     uint64
	nics     int
	procs    int
	messages int // number that all processes send together
	puts     int
	gets     int

	link   sim.Link
	faults sim.Faults
	hooks  simulated.Hooks
	acts   []act

	unreachableAfter time.Duration
	think            time.Duration // mean time between two operations of one function
	cancel           float64       // share of operations with a deadline
	accept           float64       // share of messages sent by SendDelivered
	local            float64       // share of messages within one NIC
	named            float64       // share of receives from a named source
	tagged           float64       // share of receives for one tag
	// Share of receives after a pause, so that messages are unexpected.
	lazy    float64
	flight  int     // sends that one function has in flight
	dropped float64 // share of frames dropped by rel's own hook
	large   float64 // share of messages longer than 16 KiB
}

// act is an event of the fabric that happens after a given number of messages has been sent.
type act struct {
	after   int // messages sent before
	kind    actKind
	lasting time.Duration
	longest int  // of actNarrow: longest frame, in bytes
	stops   bool // of actCut: the NIC vanishes
}

type actKind uint8

const (
	actPartition actKind = iota
	actClog
	actStall
	actStopNIC
	actKill
	actHostile
	actCut
	// Some paths carry shorter frames, for lasting or, if that is 0, until the end. No operation
	// may fail because of it.
	actNarrow
)

// pick draws one of some values.
func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// maxEvents is far more than any run needs. A run that reaches it would never end.
const maxEvents = 20_000_000

func newPlan(seed uint64) *plan {
	rng := rand.New(rand.NewPCG(seed, 0x7377656570))
	p := &plan{
		seed:             seed,
		nics:             8 + rng.IntN(5),
		messages:         2000 + rng.IntN(200),
		puts:             60 + rng.IntN(60),
		gets:             60 + rng.IntN(60),
		unreachableAfter: pick(rng, 2*time.Second, time.Second, 500*time.Millisecond),
		think:            pick(rng, 50*time.Microsecond, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond),
		cancel:           pick(rng, 0, 0.02, 0.2),
		accept:           pick(rng, 0.1, 0.5, 0.9),
		local:            pick(rng, 0.1, 0.3),
		named:            pick(rng, 0, 0.1, 0.3),
		tagged:           pick(rng, 0, 0.1, 0.3),
		lazy:             pick(rng, 0, 0.1, 0.5),
		flight:           pick(rng, 1, 4, 16),
		large:            pick(rng, 0.02, 0.1, 0.15),
	}
	p.procs = 2*p.nics + rng.IntN(p.nics)
	if rng.IntN(2) == 0 {
		p.procs = (2 + rng.IntN(2)) * p.nics
	}
	p.link = sim.Link{
		MTU:       pick(rng, 1232, 1452, 1452, 4096, 8952),
		Latency:   pick(rng, 5*time.Microsecond, 20*time.Microsecond, 200*time.Microsecond, 2*time.Millisecond),
		Jitter:    pick(rng, time.Microsecond, 20*time.Microsecond),
		Bandwidth: pick[int64](rng, 12_500_000, 125_000_000, 1_250_000_000),
		SendQueue: pick(rng, 32<<10, 256<<10),
		RecvQueue: pick(rng, 64<<10, 208<<10, 4<<20),
		Reliable:  rng.IntN(16) == 0,
	}
	p.hooks = simulated.Hooks{
		MaxEvents:    maxEvents,
		Geometry:     geometry(rng),
		StagingBytes: pick(rng, 0, 256<<10, 64<<10),
		Requests:     pick(rng, 0, 1, 4),
		CreditBytes:  pick(rng, 0, 16<<10, 4<<10, -1),
		IdlePolls:    pick(rng, 2, 8, 32),
		RelaySaves:   pick(rng, 0, -1, -1),
		// With few slots, they are soon reused.
		MaxProcesses: (p.procs+p.nics-1)/p.nics + pick(rng, 0, 1, 10),
	}
	// Two senders, and PUT and GET, must all find contexts.
	p.flight = min(p.flight, p.hooks.Geometry.Contexts/4)
	p.hooks.Pool = p.hooks.Geometry.PoolPages > 0
	if !p.link.Reliable {
		p.drawFaults(rng)
	}
	p.drawActs(rng)
	if !p.link.Reliable {
		p.drawNarrow(rng)
		p.drawCuts(rng)
	}
	return p
}

func geometry(rng *rand.Rand) vni.Geometry {
	g := vni.Geometry{Contexts: pick(rng, 8, 16, 64), Descriptors: pick(rng, 4, 16), Colour: rng.IntN(vni.Colours)}
	g.Commands = 3*g.Contexts + pick(rng, 32, 128)
	if rng.IntN(4) == 0 {
		g.PoolPages = pick(rng, 32, 128)
	}
	return g
}

// drawFaults makes most networks slightly bad, some very bad, and some good.
func (p *plan) drawFaults(rng *rand.Rand) {
	rate := func(most float64) float64 {
		return most * pick(rng, 0, 0, 0.01, 0.1, 0.3, 1)
	}
	p.faults = sim.Faults{
		Loss:      rate(0.1),
		LossBurst: pick(rng, 1., 1, 4, 20),
		Duplicate: rate(0.1),
		Reorder:   rate(0.3),
		Corrupt:   rate(0.03),
		Truncate:  rate(0.02),
		Delay:     rate(0.003),
		DelayMax:  pick(rng, time.Millisecond, 20*time.Millisecond, 100*time.Millisecond),
	}
	if rng.IntN(8) == 0 { // the hooks inside rel
		fails := func(p float64) func() bool { return func() bool { return rng.Float64() < p } }
		p.dropped = 0.01
		p.hooks.Faults = rel.Faults{DropReceived: fails(p.dropped), FailAck: fails(0.1), FailResend: fails(0.1)}
	}
}

// drawActs plans the acts of the run. One run in four is spared, so that every failure in it is a
// violation.
func (p *plan) drawActs(rng *rand.Rand) {
	if rng.IntN(4) == 0 {
		return
	}
	for range 1 + rng.IntN(10) {
		a := act{after: rng.IntN(p.messages),
			kind: pick(rng, actPartition, actClog, actStall, actStopNIC, actKill, actKill, actKill, actHostile)}
		short := time.Duration(rng.Int64N(int64(p.unreachableAfter) / 2))
		long := p.unreachableAfter + time.Duration(rng.Int64N(int64(3*p.unreachableAfter)))
		switch a.kind {
		case actPartition:
			if p.link.Reliable {
				continue
			}
			a.lasting = pick(rng, short, long)
		case actClog:
			a.lasting = pick(rng, short/10, short, long)
		case actStall:
			a.lasting = pick(rng, short/10, short, long)
		case actStopNIC:
			a.lasting = pick(rng, 0, short/10, short, long)
		case actKill:
			a.lasting = pick(rng, 0, 0, short/100, short/10, short, long)
		}
		p.acts = append(p.acts, a)
	}
}

// drawNarrow makes some paths of every third fabric carry shorter frames than both ends accept,
// from the start or from a later time.
func (p *plan) drawNarrow(rng *rand.Rand) {
	if rng.IntN(3) > 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		a := act{kind: actNarrow, after: pick(rng, 0, rng.IntN(p.messages)),
			longest: pick(rng, limits.LeastFrame, 1000, limits.SureFrame, 1300, 1400, 4000)}
		a.lasting = pick(rng, 0, time.Duration(rng.Int64N(int64(p.unreachableAfter))))
		p.acts = append(p.acts, a)
	}
}

// calm reports whether the plan has no act that could make an operation fail.
func (p *plan) calm() bool {
	return !slices.ContainsFunc(p.acts, func(a act) bool { return a.kind != actNarrow })
}

// drawSize draws the size of a message: most are small.
func (p *plan) drawSize(rng *rand.Rand) int {
	switch x := rng.Float64(); {
	case x < p.large/4:
		return rng.IntN(MaxMessage + 1)
	case x < p.large:
		return 16<<10 + rng.IntN(48<<10)
	case x < p.large+0.2:
		return 768 + rng.IntN(15<<10)
	case x < p.large+0.25:
		return rng.IntN(idBytes)
	default:
		return rng.IntN(1024)
	}
}
