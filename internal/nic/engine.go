// Package nic is the NIC control program: it serves the virtual network interfaces of its host's
// processes, matches messages, permits, schedules, and moves bytes between their memory and the
// link. An Engine is a value: its input and the time go in, its output comes out.
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
// Poll, in engine.go, lists the phases and the file of each, in the order in which a message meets
// them. The other files: process.go has the process table, and driver.go the commands by which
// processes enter it. permission.go and credit.go have the flow control, put.go and get.go the
// regions, multicast.go and copies.go messages to several receivers. nodes.go has the other NICs,
// cancel.go the withdrawal of operations. service.go is the engine as its services see it. These
// are internal/names (the tables of names and NICs), internal/coll (groups), internal/relay
// (messages to several receivers) and internal/program (users' programs).
package nic

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/relay"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Config holds the parameters of an Engine. A zero field has a default, except for ID, Link and
// Secrets, and, with Security, Trust and WallSeconds.
type Config struct {
	ID          uint64 // of this NIC; not 0
	Incarnation uint64 // larger in every life of this NIC
	// Draws keys, session indices, cookies, first sequence numbers; required.
	Secrets *secret.Source
	Link    link.Driver // used by the engine alone

	Security *rel.Security // nil: the link is plain
	// The trust policy: the trusted NICs, and what they may do; required with Security.
	Trust *trust.Policy
	// The time of day in Unix seconds, for certificates; required with Security.
	WallSeconds func(now clock.Time) int64

	ReceiveCapacity uint64 // bytes of frames that may be in flight to this NIC
	// Silence after which a peer is given up if anything is pending on it.
	UnreachableAfter time.Duration
	// FailureTimeout is the silence after which a peer's names are forgotten. 0 means
	// limits.FailureTimeout, or twice UnreachableAfter if that is longer.
	FailureTimeout time.Duration
	AckDelay       time.Duration
	ProbeEvery     time.Duration

	StagingBytes int // per process, for unexpected messages
	// Permission requests of this NIC that may be open at one process; 0 =
	// limits.RequestsPerSource.
	Requests           int
	InitialCreditBytes int // what a sending NIC gets of StagingBytes at once; -1: nothing
	MaxProcesses       int
	// Segments of all processes that may await acknowledgement; 0 = limits.Rooms.
	Rooms int
	// Bytes that a relay must save its source to be made; -1: always made.
	RelaySaves int
	// Polls that find a process idle before its queue is no longer listened to.
	IdlePolls int
	Position  Position // on the torus of the fabric, if it is one (QNIX-52)
	Static    bool     // only NICs named by AddNode may open a pair with this one
	Private   bool     // all NICs of the link are parts of one program, and have all roles

	// Belief says which information of other NICs about names and nodes is believed. Security and
	// Trust give the defaults.
	Belief

	Clock func() clock.Time // what programs read as CLOCK; nil: the time of the poll
	// Called within Poll when a driver doorbell has rung or driver commands were read; may be nil.
	Rung     func()
	Counters vni.CounterPage // where counts are published; may be zero
	Peers    vni.PeerTable   // where the counts of each peer are published; may be zero
	Faults   rel.Faults      // test hooks
	Defect   mutate.Defect   // test hook
}

// Errors of driver commands and of the calls about regions.
var (
	ErrDeleted    = errors.New("nic: process was deleted before it was taken in")
	ErrNoProcess  = errors.New("nic: no such process")
	ErrNoRegion   = errors.New("nic: no such region")
	ErrRegions    = errors.New("nic: too many regions")
	ErrRegionBusy = errors.New("nic: region is busy")
	ErrClosed     = errors.New("nic: closed")
)

// Engine is one NIC. It belongs to one goroutine at a time; internal/poller ensures that.
type Engine struct {
	cfg    Config
	now    clock.Time
	rel    *rel.Module
	rng    *rand.Rand // used by defects only
	closed bool

	procs  processTable
	driver driverQueue
	// First level of the round robin (QNIX-35); idle processes are not in it.
	active     list[process]
	rung       []*process             // processes with a new doorbell or event in this poll
	waiting    list[send]             // sends whose receiver's name is not known yet
	names      names.Table            // the processes of the fabric that we know
	peers      peerTable              // the other NICs of the fabric that we know
	inbounds   freelist.List[inbound] // receive-table entries not in use
	serves     freelist.List[send]    // sends that answer GETs, not in use
	staging    stagingPool            // managed memory (QNIX-57)
	grants     granter                // permissions waiting for room
	turns      turns                  // processes that have something to send
	detached   []Detached
	leaving    list[process] // processes that have gone, of which something is left
	descs      [limits.Descriptors]vni.Descriptor
	expiry     expiry // what waits for its time
	groups     *coll.Table
	multicasts freelist.List[multicast]
	copies     freelist.List[send] // sends of multicasts, not in use
	relays     *relay.Table
	programs   *program.Table

	resumed    list[process] // processes whose multicasts have more copies to start
	refills    freelist.List[refill]
	completion vni.Completion // of the operation that is being completed

	caps  link.Caps   // of the Link
	out   rel.Flusher // the Link; to convert it for each frame costs a search for its methods
	early earlyReturns
	// The message that the straight way has taken out of the link and not accounted for yet; see
	// begin.
	met       met
	holding   holding  // held messages, which wait for more
	told      bool     // the last poll had something to tell a process
	counts    []uint64 // by vni.Counter
	ways      [wayCount]uint64
	placing   int       // bytes of the piece that Place was last asked about
	publisher publisher // publishes the counts
	// Messages that are passed on to others, and messages that wait for a receive.
	transit transit
}

// New returns an engine without processes or peers. It sends nothing before its first Poll.
func New(cfg Config) (*Engine, error) {
	if cfg.ID == 0 {
		return nil, errors.New("nic: Config.ID is 0, which is no NIC's")
	}
	if cfg.Link == nil {
		return nil, errors.New("nic: Config.Link is nil")
	}
	if cfg.Security != nil && (cfg.Trust == nil || cfg.WallSeconds == nil) {
		return nil, errors.New("nic: Config.Security without Config.Trust or Config.WallSeconds")
	}
	if s := cfg.Security; s != nil && cfg.Link.MTU() < s.LeastMTU() {
		return nil, fmt.Errorf(
			"nic: frames of %d bytes carry no handshake with a certificate of %d bytes; "+
				"expected an MTU of at least %d: raise it, or sign a shorter certificate",
			cfg.Link.MTU(), len(s.Certificate), s.LeastMTU())
	}
	if cfg.Secrets == nil {
		return nil, errors.New("nic: Config.Secrets is nil")
	}
	cfg.UnreachableAfter = cmp.Or(cfg.UnreachableAfter, limits.UnreachableAfter)
	cfg.FailureTimeout = cmp.Or(cfg.FailureTimeout, max(limits.FailureTimeout, 2*cfg.UnreachableAfter))
	cfg.AckDelay = cmp.Or(cfg.AckDelay, limits.AckDelay)
	// One probe may be lost, or two.
	cfg.ProbeEvery = cmp.Or(cfg.ProbeEvery, min(limits.ProbeEvery, cfg.UnreachableAfter/8))
	cfg.StagingBytes = cmp.Or(cfg.StagingBytes, limits.StagingBytes)
	cfg.Requests = cmp.Or(cfg.Requests, limits.RequestsPerSource)
	cfg.MaxProcesses = cmp.Or(cfg.MaxProcesses, limits.DefaultProcesses)
	cfg.IdlePolls = cmp.Or(cfg.IdlePolls, limits.IdlePolls)
	cfg.RelaySaves = cmp.Or(cfg.RelaySaves, limits.RelaySaves)
	cfg.InitialCreditBytes = cmp.Or(cfg.InitialCreditBytes, limits.CreditBytes)
	cfg.ReceiveCapacity = cmp.Or(cfg.ReceiveCapacity, uint64(limits.ReceiveCapacityBytes))
	if cfg.MaxProcesses < 1 || cfg.MaxProcesses > limits.MaxProcesses {
		return nil, fmt.Errorf("nic: Config.MaxProcesses is %d; expected 1 to %d", cfg.MaxProcesses,
			limits.MaxProcesses)
	}
	if cfg.FailureTimeout <= cfg.UnreachableAfter {
		return nil, fmt.Errorf("nic: Config.FailureTimeout is %v; expected more than UnreachableAfter, %v",
			cfg.FailureTimeout, cfg.UnreachableAfter)
	}
	if !cfg.Position.Valid() {
		return nil, fmt.Errorf("nic: Config.Position is %v on a torus of %d by %d", cfg.Position,
			cfg.Position.Width, cfg.Position.Height)
	}
	e := &Engine{
		cfg: cfg,
		rng: rand.New(rand.NewPCG(cfg.ID, cfg.Incarnation)),
	}
	queue := driver.NewQueue(cfg.MaxProcesses)
	e.driver.NIC, e.driver.other = queue.NIC(), queue.Driver()
	e.grants.bound = cfg.grantBound()
	e.counts = make([]uint64, len(vni.Names()))
	e.groups = coll.New(coll.Config{NIC: cfg.ID, Position: cfg.Position, MTU: cfg.Link.MTU(), Counts: e.counts,
		Defect: cfg.Defect}, forGroups{(*services)(e)})
	e.relays = relay.New(cfg.ID, cfg.Defect, e.counts, forRelays{(*services)(e)})
	e.programs = program.New(program.Config{NIC: cfg.ID, Incarnation: cfg.Incarnation, Counts: e.counts,
		Defect: cfg.Defect}, forPrograms{(*services)(e)})
	e.names.Init(names.Config{
		NIC: cfg.ID, Position: cfg.Position, Static: cfg.Static, Counts: e.counts, Defect: cfg.Defect,
		Belief: e.belief(), UnreachableAfter: cfg.UnreachableAfter,
		FailureTimeout: cfg.FailureTimeout, ProbeEvery: cfg.ProbeEvery,
	}, forNames{(*services)(e)})
	e.procs.init(cfg.MaxProcesses, uint32(cfg.Secrets.Uint64(secret.Generation)))
	e.caps = cfg.Link.Caps()
	e.out = cfg.Link
	e.rel = rel.New(cfg.rel(e.caps), (*handler)(e))
	e.ClaimDatagrams(wire.ServiceProcess, e.letter)
	e.ClaimDatagrams(wire.ServiceProgram, func(_ clock.Time, nic uint64, b []byte) { e.programs.Datagram(nic, b) })
	return e, nil
}

// rel returns the configuration of the rel.Module.
func (cfg *Config) rel(caps link.Caps) rel.Config {
	p := cfg.Link.Properties()
	return rel.Config{
		NIC: cfg.ID, Incarnation: cfg.Incarnation, Secrets: cfg.Secrets,
		MTU: cfg.Link.MTU(), Tagged: !p.Checked, Reliable: p.Reliable && p.Ordered,
		ReceiveCapacity: cfg.ReceiveCapacity, Rooms: cfg.Rooms, UnreachableAfter: cfg.UnreachableAfter,
		AckDelay: cfg.AckDelay, ProbeEvery: cfg.ProbeEvery,
		Narrow:       !p.Whole,
		DoubtBatches: caps.DoubtBatches, Copy: caps.Copy, Post: caps.Post, PostLone: caps.PostLone,
		ReserveRun: caps.ReserveRun, CommitRun: caps.CommitRun,
		Reached: caps.Reached, From: caps.From,
		Security: cfg.Security,
		Faults:   cfg.Faults, Defect: cfg.Defect,
	}
}

// ID returns this NIC's id.
func (e *Engine) ID() uint64 { return e.cfg.ID }

// Poll is the whole loop body of the control program. It takes in the input of the link and the
// processes, and moves all data that can move. It returns how much it did, and when it must be
// called again if nothing comes in from outside. That time is at once (≤ now) if a full batch has
// left work over, and Never if the engine waits for nothing.
//
// It must be called again soon after a frame arrives, after a process or the driver posts a
// command, or after Ring.
func (e *Engine) Poll(now clock.Time) (work int, next clock.Time) {
	now = e.beginAt(now)
	held := e.holding.end()
	e.driver.executed = 0
	if e.closed {
		e.drive() // processes still leave
		e.runLeaving()
		e.wake()
		return e.driver.executed, clock.Never
	}
	// Commands come after the operations that have waited, and frames after the commands, so that
	// they find the receives. Processes come and go at every drive.
	datagrams := e.rel.SendDatagrams(now, e.out)    //    posted datagrams do not wait for the rest
	e.drive()                                       // 1. driver.go: here and in 2, 3 and 5
	left := e.runLeaving()                          //    leaving.go: a few steps of removal
	e.expire()                                      //    nodes.go: timeouts, and new names
	e.resume()                                      //    copies.go: held copies of multicasts
	commands, more := e.drainCommands()             // 2. command.go: commands in
	e.early.served = false                          //    so far no frame has ended anything
	frames, linkNext := e.cfg.Link.Poll(now, e.rel) // 3. rel, then rx.go: frames in
	if e.returnEarly(frames, commands+held) {
		return frames + e.driver.executed + left + datagrams, e.soon()
	}
	e.drive()
	e.groups.Run()                //    internal/coll: news between members of groups here
	judged := e.judgeDepartures() // departing.go: sends that guards of processes have to judge
	e.grants.run(e)               // 4. permission.go: permissions out
	turns := e.schedule()         // 5. sched.go, tx.go: messages out
	programs := 0
	if e.programs.Pending() > 0 {
		// internal/program: users' programs.
		programs = e.programs.Run(frames + commands + held + turns)
	}
	e.throwOut()                                    //    process.go: detached processes
	segments, relNext := e.rel.Progress(now, e.out) // 6. segments, ACKs, retransmissions
	e.cfg.Link.Flush(now)                           // 7. frames out
	e.wake()                                        // 8. wake those whose doorbells rang
	work = datagrams + e.driver.executed + left + frames + commands + judged + turns + programs + segments
	e.counts[vni.NICPolls]++
	if work == 0 {
		e.counts[vni.NICIdlePolls]++
	}
	next = clock.Min(clock.Min(linkNext, relNext), clock.Min(e.expiry.next, e.grants.next()))
	if more || e.unfinished() {
		next = now
	}
	return work, clock.Min(next, e.publish(work, next))
}

// unfinished reports whether the next Poll has something to do at once.
func (e *Engine) unfinished() bool {
	return e.turns.ready.n > 0 || e.expiry.departures.unjudged.n > 0 || e.names.Changed() || e.resumed.n > 0 ||
		e.leaving.n > 0 || e.groups.Unfinished() || e.programs.Pending() > 0 || e.untold()
}

// earlyReturns lets polls return early (USNIC-38): all other work waits for the next poll, which
// is due at once.
type earlyReturns struct {
	// A frame of this poll has finished a direct receive or a send of an embedded caller.
	served bool
	inRow  int // consecutive polls that have returned early
}

// mostEarly is how many consecutive polls may return early. They delay timers and acknowledgements
// by some microseconds.
const mostEarly = 8

// mostFramesEarly is how many frames a poll may have brought that returns early: those of one
// message of some kilobytes. The acknowledgement of a message travels with the caller's answer.
// The acknowledgement of a frame that has ended a send travels with the caller's next message. A
// stream is acknowledged by each poll.
const mostFramesEarly = 8

// returnEarly reports whether Poll may return now: its few frames have completed an embedded
// caller's receive or send, and it had nothing else to do.
func (e *Engine) returnEarly(frames, asked int) bool {
	h := &e.early
	if !h.served || frames == 0 || frames > mostFramesEarly || asked > 0 || e.turns.ready.n > 0 ||
		h.inRow == mostEarly {
		h.inRow = 0
		return false
	}
	h.inRow++
	e.counts[vni.NICPolls]++
	e.ways[WayEarly]++
	e.wake()
	return true
}

// soon returns when the next poll must follow one that returned early: at once, for the work that
// it has left.
func (e *Engine) soon() clock.Time {
	if e.cfg.Defect == mutate.EarlyLeaves {
		return clock.Never
	}
	return e.now
}

// wake wakes each sleeping process to which something has happened, once, and the driver.
func (e *Engine) wake() {
	if e.driver.news && e.cfg.Rung != nil {
		e.cfg.Rung()
	}
	e.driver.news = false
	e.told = len(e.rung) > 0
	for i, p := range e.rung {
		e.rung[i] = nil
		p.rung = false
		p.publish()
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

// Answered returns the number of messages that programs have handled. The NIC answers these, so no
// process waits for the next one.
func (e *Engine) Answered() uint64 { return e.counts[vni.NICProgramMessages] }

// WaitsAt returns the processor at which a process waits awake, as the process says itself. It
// returns -1 unless exactly one process's queue is listened to and that process waits awake at a
// known processor.
func (e *Engine) WaitsAt() int {
	if e.active.n != 1 {
		return -1
	}
	return e.active.front().vni.WaitsAt()
}

// ring notes that p has something new to look at. wake does the rest at the end of the poll.
func (e *Engine) ring(p *process) {
	if !p.rung {
		p.rung = true
		e.rung = append(e.rung, p)
	}
}

// Ring says that the process at slot has posted a command while the NIC did not listen to its
// queue. The next Poll looks there again (decision 11).
func (e *Engine) Ring(slot uint16) {
	e.begin()
	if p := e.process(slot); p != nil && p.served() {
		e.rang(p)
		e.throwOut()
	}
}

// RingAll calls Ring for every process: a caller in the same address space need not say which
// process has posted.
func (e *Engine) RingAll() {
	e.begin()
	for p := range e.procs.all {
		if p.node.in == nil {
			e.listen(p, e.cfg.IdlePolls)
		}
	}
}

// Listening reports whether polls are needed without a Ring. Either every poll looks at some
// process's queue, so that posts to it do not ring, or messages are held for which no process
// rings.
func (e *Engine) Listening() bool {
	return e.active.n > 0 || e.holding.recent(e.now)
}

// Close says goodbye to every peer, so that the peers need not detect the loss. The engine does
// nothing afterwards.
func (e *Engine) Close(now clock.Time) {
	now = e.beginAt(now)
	if e.closed {
		return
	}
	for p := range e.procs.all {
		if !p.gone { // one that has gone is answered when nothing of it is left
			e.answerNew(p, driver.Result{Err: ErrClosed})
			p.vni.SetGone(vni.StatusNICGone)
			e.ring(p)
		}
	}
	e.wake()
	e.rel.Close(now, e.out)
	e.cfg.Link.Flush(now)
	e.publisher.next = now
	e.publish(1, clock.Never)
	e.closed = true
}

// handler gives rel's upcalls their own method set, so that they are no methods of Engine.
type handler Engine

func (h *handler) engine() *Engine { return (*Engine)(h) }
