// Package nic is the NIC control program: it serves the virtual network interfaces of its host's processes, matches
// messages, permits, schedules, and moves bytes between their memory and the link. It is a value: input and now in,
// output out.
//
//	          process halves (VNIs)                                  other NICs
//	commands │                 ▲ doorbells, completions          frames │        ▲ frames
//	         ▼                 │                                        ▼        │
//	┌─ command.go ──┐   ┌─ receive.go ─┐                        ┌───── link ─────────────┐
//	│ drain queues  │   │ match, finish│◄─────────────── rx.go ◄┤ Poll      Reserve/Commit│
//	└──────┬────────┘   └──────────────┘     order.go           └──▲──────────────┬──────┘
//	       ▼                                 inbound.go            │ internal/rel │
//	   send.go ──► sched.go ──► tx.go ──────────────────────────────┘ (one Endpoint a peer)
//	                  └──► local.go (both processes are ours: one copy, no link)
//
// The phases of Poll stand in engine.go, one file each; the files in the order in which a message meets them. Besides:
// process.go has the process table, driver.go how processes get into it, permission.go and credit.go the flow control,
// put.go and get.go the regions, groups.go, member.go and join.go the groups, collective.go, tree.go, signal.go, barrier.go,
// broadcast.go, legs.go and reduce.go what their members do together, multicast.go, copies.go and relay.go messages to several; nodes.go, names.go and
// tables.go what the NICs tell one another, cancel.go the withdrawal of operations.
package nic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// Config is everything that an Engine is made from. The zero value of each field but ID and Link has a default.
type Config struct {
	ID          uint64      // of this NIC; not 0
	Incarnation uint64      // larger in every life of this NIC
	Seed        uint64      // of everything random: keys, session indices, cookies, first sequence numbers
	Link        link.Driver // the engine's alone

	ReceiveCapacity  uint64        // bytes of frames that may be under way to this NIC
	UnreachableAfter time.Duration // silence after which a peer with anything pending is given up
	FailureTimeout   time.Duration // silence after which a peer's names are forgotten; 0 = limits.FailureTimeout, or more if it takes more to be sure
	AckDelay         time.Duration
	ProbeEvery       time.Duration

	StagingBytes       int // per process, for messages that nobody waits for yet
	InitialCreditBytes int // what a sending NIC is handed of that at a time; -1 hands out none
	MaxProcesses       int
	Rooms              int      // segments of all processes that may await acknowledgement; 0 = limits.Rooms
	RelaySaves         int      // bytes that a relay must save its source to be made; -1: whatever it saves
	IdlePolls          int      // that find a process idle before its queue is listened to no more
	Position           Position // on the torus of the fabric, if it is one (QNIX-52)
	Static             bool     // only NICs that AddNode named may open a pair with this one

	Rung     func()          // called within Poll when a driver doorbell has rung, or driver commands were read; may be nil
	Counters vni.CounterPage // where counts are published; may be zero
	Faults   rel.Faults      // test hooks
	Defect   mutate.Defect   // test hook
}

// Errors of driver commands and of the calls about regions.
var (
	ErrNameTaken  = errors.New("nic: name is taken")
	ErrDeleted    = errors.New("nic: process was deleted before it was taken in")
	ErrNoProcess  = errors.New("nic: no such process")
	ErrNoRegion   = errors.New("nic: no such region, or too many")
	ErrRegionBusy = errors.New("nic: region is in use by an operation of its process")
	ErrClosed     = errors.New("nic: closed")
)

// Engine is one NIC. It belongs to one goroutine at a time; internal/poller sees to that.
type Engine struct {
	cfg    Config
	now    clock.Time
	rel    *rel.Module
	rng    *rand.Rand
	closed bool

	procs      []*process  // by slot; slot 0 is the NIC's own (decision 1)
	gens       []uint32    // by slot: the generation given last
	registered int         // processes in procs, beside the one at slot 0
	driver     *driver.NIC // Driver Info (QNIX-51)
	driverHalf *driver.Driver
	driven     int           // driver commands executed in this poll
	driverRung bool          // a driver doorbell has rung in this poll, or a command was read
	active     list[process] // first level of the round robin (QNIX-35); idle processes are not in it
	rung       []*process    // processes with a new doorbell or event in this poll
	waiting    list[send]    // sends whose receiver's name nobody has told us yet
	names      nameTable     // every process of the fabric that we know
	nodes      nodeTable     // every NIC of the fabric that we know
	peers      map[*rel.Endpoint]*peer
	lastPeer   *peer             // whom the last record was from: so will be the next, mostly
	inbounds   freeList[inbound] // receive-table entries not in use
	serves     freeList[send]    // sends that answer GETs, not in use
	staging    stagingPool       // managed memory (QNIX-57)
	grants     granter           // permissions waiting for room
	sending    list[process]     // processes with sends that can take a turn
	crowded    list[process]     // processes with such sends that have as many rooms as are left
	detached   []Detached
	leaving    list[process] // of which something is left
	descs      [limits.Descriptors]vni.Descriptor
	doomed     list[receive] // from processes that have gone; by when they end
	recalled   list[receive] // cancelled when their messages were on their way
	groups     groupTable
	multicasts freeList[multicast]
	copies     freeList[send] // of multicasts, not in use
	relays     relayTable
	resumed    list[process] // whose multicasts have copies to begin
	refills    freeList[refill]
	completion vni.Completion // under way to a process

	taker       link.Taker  // the Link, if it is one
	peeker      link.Peeker // likewise
	posts       bool        // the Link takes a lone frame at one step
	out         rel.Flusher // the Link: to make it one for each frame costs a search for its methods
	served      bool        // a straight receive has been finished in this poll
	hurried     int         // polls in a row that ended early; see hurry
	met         met         // what the straight way has taken out of the link and has yet to account for; see catchUp
	held        int         // messages that wait for company; see straight.go
	heldAt      clock.Time  // when the last one began to
	told        bool        // the last poll had something to tell a process
	reconsider  bool        // tables have changed: look at waiting again
	nextCheck   clock.Time  // of expire
	counts      []uint64    // by vni.Counter
	relCounted  rel.Stats   // what of rel's statistics is in counts
	dirty       bool        // counts have changed since they were published
	nextPublish clock.Time
}

// New returns an engine that has neither processes nor peers. It sends nothing before its first Poll.
func New(cfg Config) (*Engine, error) {
	if cfg.ID == 0 {
		return nil, errors.New("nic: Config.ID is 0, which is no NIC's")
	}
	if cfg.Link == nil {
		return nil, errors.New("nic: Config.Link is nil")
	}
	setDefault(&cfg.UnreachableAfter, limits.UnreachableAfter)
	setDefault(&cfg.FailureTimeout, max(limits.FailureTimeout, 2*cfg.UnreachableAfter))
	setDefault(&cfg.AckDelay, limits.AckDelay)
	setDefault(&cfg.ProbeEvery, min(limits.ProbeEvery, cfg.UnreachableAfter/8)) // so that one probe may be lost, or two
	setDefault(&cfg.StagingBytes, limits.StagingBytes)
	setDefault(&cfg.MaxProcesses, limits.DefaultProcesses)
	setDefault(&cfg.IdlePolls, limits.IdlePolls)
	setDefault(&cfg.RelaySaves, limits.RelaySaves)
	setDefault(&cfg.InitialCreditBytes, limits.CreditBytes)
	setDefault(&cfg.ReceiveCapacity, uint64(limits.ReceiveCapacityBytes))
	if cfg.MaxProcesses < 1 || cfg.MaxProcesses > limits.MaxProcesses {
		return nil, fmt.Errorf("nic: Config.MaxProcesses is %d; expected 1 to %d", cfg.MaxProcesses, limits.MaxProcesses)
	}
	if cfg.FailureTimeout <= cfg.UnreachableAfter {
		return nil, fmt.Errorf("nic: Config.FailureTimeout is %v; expected more than UnreachableAfter, %v", cfg.FailureTimeout, cfg.UnreachableAfter)
	}
	if !cfg.Position.Valid() {
		return nil, fmt.Errorf("nic: Config.Position is %v on a torus of %d by %d", cfg.Position, cfg.Position.Width, cfg.Position.Height)
	}
	e := &Engine{
		cfg:   cfg,
		rng:   rand.New(rand.NewPCG(cfg.Seed, cfg.ID^cfg.Incarnation*0x9e3779b97f4a7c15)),
		procs: make([]*process, 1, 1+min(cfg.MaxProcesses, limits.Processes)),
		gens:  make([]uint32, 1+cfg.MaxProcesses),
		peers: make(map[*rel.Endpoint]*peer),
	}
	q := driver.NewQueue(cfg.MaxProcesses)
	e.driver, e.driverHalf = q.NIC(), q.Driver()
	e.grants.bound = cfg.grantBound()
	e.names.init()
	e.nodes.init()
	e.groups.init()
	e.relays.legs = make(map[uint32]*relayLeg)
	e.counts = make([]uint64, len(vni.Names()))
	base := e.rng.Uint32()
	for i := range e.gens {
		e.gens[i] = base
	}
	e.taker, _ = cfg.Link.(link.Taker)
	_, e.posts = cfg.Link.(link.Poster)
	e.peeker, _ = cfg.Link.(link.Peeker)
	e.out = cfg.Link
	e.rel = rel.New(cfg.rel(e.rng.Uint64()), (*handler)(e))
	return e, nil
}

// rel is the part of the configuration that rel needs.
func (cfg *Config) rel(seed uint64) rel.Config {
	p := cfg.Link.Properties()
	poster, _ := cfg.Link.(link.Poster)
	lonePoster, _ := cfg.Link.(link.LonePoster)
	return rel.Config{
		NIC: cfg.ID, Incarnation: cfg.Incarnation, Seed: seed,
		MTU: cfg.Link.MTU(), Tagged: !p.Checked, Reliable: p.Reliable && p.Ordered,
		ReceiveCapacity: cfg.ReceiveCapacity, Rooms: cfg.Rooms, UnreachableAfter: cfg.UnreachableAfter,
		AckDelay: cfg.AckDelay, ProbeEvery: cfg.ProbeEvery,
		Narrow: !p.Whole, Doubt: cfg.doubt(), Copy: cfg.copier(), Poster: poster, LonePoster: lonePoster,
		Faults: cfg.Faults, Defect: cfg.Defect,
	}
}

// copier is how the link wants payload copied into its frames, nil if it does not care.
func (cfg *Config) copier() func(to, from []byte) {
	if c, ok := cfg.Link.(link.Copier); ok {
		return c.Copy
	}
	return nil
}

// doubt passes on to the link what rel's losses say of a path, if the link wants to know.
func (cfg *Config) doubt() func(to link.Addr, what rel.Doubt) {
	d, ok := cfg.Link.(link.Doubter)
	if !ok {
		return nil
	}
	return func(to link.Addr, what rel.Doubt) {
		if what == rel.DoubtBatches {
			d.DoubtBatches(to)
		}
	}
}

func setDefault[T int | uint64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// ID is this NIC's id.
func (e *Engine) ID() uint64 { return e.cfg.ID }

// Poll is the control program's one loop body. It takes in what the link and the processes have brought, moves what can
// be moved, and returns how much it did, and when it has to be called again though nothing comes in from outside:
// at once (≤ now) while work is left over from a full batch, Never when it waits for nothing.
//
// It must be called again soon after a frame arrives, a process or the driver posts a command, or Ring.
func (e *Engine) Poll(now clock.Time) (work int, next clock.Time) {
	e.catchUp()
	now = max(now, e.now) // who polls may have read the clock before somebody who sent straight
	held := e.held
	e.now, e.driven, e.held = now, 0, 0
	if e.closed {
		e.drive() // processes still go
		e.runLeaving()
		e.wake()
		return e.driven, clock.Never
	}
	e.drive()                                       // 1. driver.go: processes come and go, here and in 2, 3 and 5
	left := e.runLeaving()                          //    leaving.go: those that go, a little at a time
	e.expire()                                      //    nodes.go, names.go: what has waited long enough, or for a name
	e.resume()                                      //    copies.go: multicasts that have more to begin
	commands, more := e.drainCommands()             // 2. commands in, behind those that have waited: command.go
	frames, linkNext := e.cfg.Link.Poll(now, e.rel) // 3. frames in, which so find the receives: rel, then rx.go
	if e.hurry(frames, commands+held) {
		return frames + e.driven + left, now
	}
	e.drive()
	e.runGroups()                                   //    signal.go: what members of groups here tell one another
	e.grants.run(e)                                 // 4. permission.go: permissions out
	turns := e.schedule()                           // 5. sched.go, tx.go: messages out
	segments, relNext := e.rel.Progress(now, e.out) // 6. segments, acknowledgements, retransmissions out
	e.cfg.Link.Flush(now)                           // 7. frames out
	e.wake()                                        // 8. doorbells have been rung: wake who sleeps
	work = e.driven + left + frames + commands + turns + segments
	e.counts[vni.NICPolls]++
	if work == 0 {
		e.counts[vni.NICIdlePolls]++
	}
	next = clock.Min(clock.Min(linkNext, relNext), clock.Min(e.nextCheck, e.publish(work)))
	next = clock.Min(next, e.grants.next())
	if more || e.unfinished() {
		next = now
	}
	return work, next
}

// PollFrame is Poll for who sees that a frame has come, and so perhaps what somebody waits for: it looks for frames first. If
// they bring that, the rest waits for the next Poll; see hurry.
func (e *Engine) PollFrame(now clock.Time) (work int, next clock.Time) {
	if e.closed {
		return e.Poll(now)
	}
	e.catchUp()
	now = max(now, e.now)
	e.now = now
	frames := 0
	if e.taker == nil {
		frames, _ = e.cfg.Link.Poll(now, e.rel)
	} else if e.taker.Take(now, e.rel) {
		frames = 1
	}
	if e.hurry(frames, e.held) {
		return frames, now
	}
	work, next = e.Poll(now)
	return frames + work, next
}

// unfinished reports whether there is something for the next Poll to do at once.
func (e *Engine) unfinished() bool {
	return e.sending.n > 0 || e.reconsider || e.resumed.n > 0 || e.leaving.n > 0 || len(e.groups.here) > 0
}

// hurries is how many polls in a row may end early: timers and acknowledgements wait for some microseconds.
const hurries = 8

// hurry ends a poll early that has brought somebody a message who waits for it in the same address space (USNIC-38): all
// else waits for the next poll, which is due at once. Only so many polls in a row may, and only if nobody else asked for
// anything.
func (e *Engine) hurry(frames, asked int) bool {
	yes := e.served && e.hurried < hurries && frames == 1 && asked == 0 && e.sending.n == 0
	e.served = false
	if e.hurried++; !yes {
		e.hurried = 0
	} else {
		e.counts[vni.NICPolls]++
		e.wake()
	}
	return yes
}

// wake tells the sleeping among the processes that something has happened to them, once each, and the driver.
func (e *Engine) wake() {
	if e.driverRung {
		e.driverRung = false
		if e.cfg.Rung != nil {
			e.cfg.Rung()
		}
	}
	e.told = len(e.rung) > 0
	for i, p := range e.rung {
		e.rung[i] = nil
		p.rung = false
		if p.gone || p.wakeUp == nil || !p.vni.Sleeping() {
			continue
		}
		if e.cfg.Defect == mutate.LostWakeUp && e.rng.IntN(50) == 0 {
			continue
		}
		e.counts[vni.NICWakes]++
		p.wakeUp()
	}
	e.rung = e.rung[:0]
}

// Told reports whether the last Poll had something to tell a process.
func (e *Engine) Told() bool { return e.told }

// WaitsAt is the processor at which the only process whose queue is listened to waits awake, as it says itself; -1 if that is not
// known, it does not, or there are several.
func (e *Engine) WaitsAt() int {
	if e.active.n != 1 {
		return -1
	}
	return e.active.front().vni.WaitsAt()
}

// ring notes that p has something new to see. wake does the rest at the end of the poll.
func (e *Engine) ring(p *process) {
	if !p.rung {
		p.rung = true
		e.rung = append(e.rung, p)
	}
}

// Ring says that the process at slot has posted a command though the NIC no longer listened to its queue. The next Poll
// looks there again (decision 11).
func (e *Engine) Ring(slot uint16) {
	if p := e.process(slot); p != nil && p.served() {
		e.rang(p)
	}
}

// RingAll is Ring for every process: who rings in the same address space need not say for whom.
func (e *Engine) RingAll() {
	for _, p := range e.procs {
		if p != nil && p.node.in == nil {
			e.listen(p, e.cfg.IdlePolls)
		}
	}
}

// Listening reports whether some process's queue is looked at by every poll, so that its posts do not ring, or messages are
// held that nobody rings for.
func (e *Engine) Listening() bool {
	return e.active.n > 0 || e.held > 0 || e.heldAt != 0 && e.now.Sub(e.heldAt) < heldLong
}

// Close takes leave of every peer, so that they need not find out. The engine does nothing afterwards.
func (e *Engine) Close(now clock.Time) {
	if e.closed {
		return
	}
	e.catchUp()
	e.now = now
	for _, p := range e.procs {
		if p != nil && !p.gone { // who has gone is answered when nothing is left of him
			e.answerNew(p, driver.Result{Err: ErrClosed})
			p.vni.SetGone(vni.StatusNICGone)
			e.ring(p)
		}
	}
	e.wake()
	e.rel.Close(now, e.out)
	e.cfg.Link.Flush(now)
	e.nextPublish = now
	e.publish(1)
	e.closed = true
}

// handler gives rel's upcalls their own method set, so that they are not part of Engine's.
type handler Engine

func (h *handler) engine() *Engine { return (*Engine)(h) }
