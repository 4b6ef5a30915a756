package nic

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// process is an entry of the process table (QNIX-34): one registered process, its VNI, and its
// operations.
type process struct {
	node     node[process] // in Engine.active while the NIC listens to its queue
	sendNode node[process] // in Engine.turns while it has sends that can take a turn
	slot     uint16
	gen      uint32
	pid      uint32 // of its program
	name     vni.Name
	vni      *vni.NIC
	wakeUp   func()
	rung     bool
	newAt    int  // position of its New_Process until that is answered; else noCommand
	gone     bool // it is leaving: its name and its operations have ended
	leaving  node[process]
	refused  error // the answer to its New_Process, if it is gone and not answered yet
	deleteAt int   // position of its Delete_Process, if that was posted; else noCommand
	detached bool  // no longer served; the driver has yet to delete it
	idle     int   // consecutive polls that found no command
	silent   int   // consecutive rings without a command
	// Operations refused for their arguments since badSince; a storm of them detaches.
	badOps   int
	badSince clock.Time

	sends  []send  // by send context
	copies []*send // sends of multicasts, numbered after the contexts; nil if unused
	free   []int   // free places in copies
	// Second level of the round robin (QNIX-40): sends that can take a turn.
	sched list[send]
	dests map[vni.Address]*dest
	// Destinations that are blank, or were at the last look; the first is forgotten first.
	blanks   list[dest]
	lastDest *dest     // of the last send: the next send most often has the same
	recvs    []receive // by receive context
	// Receive table, first half: posted and not yet matched, oldest first.
	posted         list[receive]
	bare           list[receive] // receives of datagrams, oldest first
	probes         list[receive] // posted probes, oldest first
	stray          strays        // receive table, second half: unexpected envelopes, oldest first
	sources        map[sourceKey]*source
	lastSource     *source                // of the last envelope: the next most often has the same
	straight       *Straight              // its straight way, if it has one
	straights      []*receive             // receives without a context
	spareStraights freelist.List[receive] // receives without a context, not in use
	tickets        uint64                 // number of tickets given
	libraries      libraries              // libraries that have posted receives
	// Numbers posted receives, so that one can go back to its place.
	postSeq uint64

	regions []*region // by id; 0 is the pool
	// Bytes of rings that others cannot reach by mistake, and of messages put back from rings.
	rings  int
	runs   freelist.List[sendRun] // for its sends
	ringed []*receive             // receives with rings
	fresh  []*msgRing             // rings with messages that the process has not been shown
	// Bytes of staging in use by messages that arrived with permission or locally.
	staged   int
	credited int       // bytes of staging promised to sending NICs as credit
	credits  []*credit // by holder
	// Short messages among stray for which staging had no room; oldest first.
	unstaged list[inbound]

	groups coll.Process

	held       list[multicast] // multicasts that have copies to start
	resumeNode node[process]   // in Engine.resumed
	lastCopy   uint32          // number of the last copy, for its token

	segments map[uint32]bool      // segments that it has mapped
	guard    *guard               // filter in front of it, or nil
	judged   bool                 // it has, or had, a filter that judges by the bytes
	guardOut program.OutgoingFunc // guard of what it sends, or nil
	rooms    rel.Account          // segments of its sends
	account  Account

	user string // name of its user; empty: the NIC is embedded in its program

	// Departure times of the last datagram and of the last message to a program that its guard has
	// judged.
	lastLetter, lastProgram clock.Time

	givenUp int               // calls to it known to be given up, over all holders
	gaveUp  map[*peer]*credit // holders of such calls; nil: there has been none
}

// sendNumbers returns how many numbers the sends of the process have: those of its contexts and of
// the copies of its multicasts.
func (p *process) sendNumbers() int { return len(p.sends) + len(p.copies) }

// sendAt returns a send by its number, which is in the lower half of its token, or nil.
func (p *process) sendAt(i int) *send {
	if i < len(p.sends) {
		return &p.sends[i]
	}
	if i -= len(p.sends); i < len(p.copies) {
		return p.copies[i]
	}
	return nil
}

// underWay visits the sends that have not ended, of contexts and copies.
func (p *process) underWay(yield func(*send) bool) {
	for i := range p.sendNumbers() {
		if s := p.sendAt(i); s != nil && s.state != sendIdle && !yield(s) {
			return
		}
	}
}

// addressOf returns the address of a process of this NIC.
func (e *Engine) addressOf(p *process) vni.Address {
	return vni.Address{NIC: e.cfg.ID, Slot: p.slot, Gen: p.gen}
}

// served reports whether the process may still be sent to.
func (p *process) served() bool { return !p.gone && !p.detached }

func (p *process) String() string { return fmt.Sprintf("%v (slot %d)", p.name, p.slot) }

// processTable is the process table (QNIX-34).
type processTable struct {
	slots      []*process // slot 0 is the NIC's own (decision 1); nil: none
	gens       []uint32   // by slot: the last generation given
	registered int        // processes, without the one at slot 0
	// Programs that guard processes, by the processes' names; nil: none.
	guards   map[vni.Name]programGuard
	outgoing map[vni.Name]outgoingGuard // guards of what processes send; nil: none
	nameless []Nameless                 // that TakeNameless has not returned yet
}

// init makes the table for at most most processes, besides the one at slot 0. The generations
// begin after base.
func (t *processTable) init(most int, base uint32) {
	t.slots, t.gens = make([]*process, 1, 1+min(most, limits.Processes)), make([]uint32, 1+most)
	for i := range t.gens {
		t.gens[i] = base
	}
}

// at returns the process at slot, or nil.
func (t *processTable) at(slot uint16) *process {
	if int(slot) < len(t.slots) {
		return t.slots[slot]
	}
	return nil
}

// all visits the processes, ordered by slot.
func (t *processTable) all(yield func(*process) bool) {
	for _, p := range t.slots {
		if p != nil && !yield(p) {
			return
		}
	}
}

// generation returns the generation of the next process at slot. No process has 0, so an empty
// envelope belongs to none.
func (t *processTable) generation(slot uint16) uint32 {
	if t.gens[slot]++; t.gens[slot] == 0 {
		t.gens[slot]++
	}
	return t.gens[slot]
}

func (t *processTable) add(p *process) {
	for int(p.slot) >= len(t.slots) {
		t.slots = append(t.slots, nil)
	}
	t.slots[p.slot] = p
	if p.slot != 0 {
		t.registered++
	}
}

func (t *processTable) remove(p *process) {
	t.slots[p.slot] = nil
	if p.slot != 0 {
		t.registered--
	}
}

// bytes returns the size of the table without the processes.
func (t *processTable) bytes() int64 {
	return int64(cap(t.slots))*size[*process]() + int64(len(t.gens))*size[uint32]()
}

// process returns the process at slot, or nil.
func (e *Engine) process(slot uint16) *process { return e.procs.at(slot) }

// install makes the table entry of a process and begins to listen to it.
func (e *Engine) install(c driver.Command, gen uint32, name vni.Name) *process {
	at := e.driver.Entry(c.Index)
	seg := at.VNI
	g := seg.Geometry()
	p := &process{
		slot: c.Index, gen: gen, pid: c.PID, name: name, user: at.User, vni: seg.NIC(), wakeUp: at.WakeUp,
		newAt: noCommand, deleteAt: noCommand,
		// The allocator rounds both tables up to pages of 8 KiB: one more field may cost each
		// process a page.
		sends: make([]send, g.Contexts), recvs: make([]receive, g.Contexts),
		dests: make(map[vni.Address]*dest), sources: make(map[sourceKey]*source),
		regions: make([]*region, 1),
		groups:  coll.Process{Name: name, Address: vni.Address{NIC: e.cfg.ID, Slot: c.Index, Gen: gen}},
	}
	p.node.v, p.sendNode.v, p.resumeNode.v, p.leaving.v = p, p, p, p
	for c := range p.sends {
		p.sends[c].init(p, c)
		p.recvs[c].init(p, c)
	}
	p.regions[0] = &region{owner: p, mem: seg.Pool()}
	p.vni.SetIdentity(vni.Identity{NIC: e.cfg.ID, Incarnation: e.cfg.Incarnation, Slot: p.slot, Gen: p.gen, Name: name})
	if g, ok := e.procs.guards[p.name]; ok && g.of.Covers(p.user) {
		p.guardBy(g.filter)
	}
	e.procs.guardOutgoing(p)
	e.procs.add(p)
	e.listen(p, e.cfg.IdlePolls)
	return p
}

// detach stops serving a process that has done what no correct process half can do (decision 10).
// throwOut tells the process. Its owner, the daemon, sees the word and deletes it.
func (e *Engine) detach(p *process, why error) {
	if p.gone || p.detached {
		return
	}
	p.detached = true
	e.counts[vni.NICDetaches]++
	e.detached = append(e.detached, Detached{p.slot, p.gen, p.name, why, false})
	p.node.remove()
}

// throwOut tells processes that they have been detached, once all their operations have ended:
// each may then reuse its memory. It runs later than detach, since the code that detaches a
// process is in the middle of an operation.
func (e *Engine) throwOut() {
	for i := 0; i < len(e.detached); i++ { // more may be added meanwhile
		if d := &e.detached[i]; !d.told {
			d.told = true
			p := e.process(d.Slot)
			e.stop(p)
			p.vni.SetGone(vni.StatusDetached)
			e.ring(p)
		}
	}
}

// Detached is a process that the engine no longer serves, and the reason.
type Detached struct {
	Slot       uint16
	Generation uint32
	Name       vni.Name
	Why        error

	told bool // the process has been told; so have all before it
}

// TakeDetached returns the processes detached since the last call, except those that the driver
// has deleted meanwhile and those that have not been told yet. The caller makes the driver delete
// them.
func (e *Engine) TakeDetached() []Detached {
	e.begin()
	n := 0
	for n < len(e.detached) && e.detached[n].told {
		n++
	}
	d := e.detached[:n:n]
	if e.detached = e.detached[n:]; len(e.detached) == 0 {
		e.detached = nil
	}
	return d
}

// untold reports whether throwOut has something to do.
func (e *Engine) untold() bool {
	n := len(e.detached)
	return n > 0 && !e.detached[n-1].told
}

// listen puts p among the processes whose queues every poll looks at, until it has been idle for
// polls polls.
func (e *Engine) listen(p *process, polls int) {
	p.idle = e.cfg.IdlePolls - polls
	// A detached process may ring as often as it likes.
	if p.node.in == nil && !p.gone && !p.detached {
		p.vni.Listen()
		e.active.pushBack(&p.node)
	}
}

// rang handles a ring of p. After each ring without a command, the NIC listens for a shorter time,
// so that rings alone do not keep it from parking. A storm of empty rings detaches p.
func (e *Engine) rang(p *process) {
	p.account.Rings++
	e.counts[vni.NICRings]++
	if p.silent > 0 { // no command since the last ring
		p.account.EmptyRings++
		e.counts[vni.NICRingsEmpty]++
	}
	if p.silent > limits.EmptyRings {
		e.detach(p, fmt.Errorf("it rang %d times in a row without a command", p.silent))
		return
	}
	if p.silent == 0 || p.node.in == nil {
		e.listen(p, max(e.cfg.IdlePolls>>min(p.silent, 16), 1))
	}
	p.silent++
}

// badArgument counts an operation of p that was refused for its arguments; a storm of them
// detaches (decision 10).
func (e *Engine) badArgument(p *process, err error) {
	e.counts[vni.NICFailedBadArgument]++
	if e.now.Sub(p.badSince) > time.Second {
		p.badOps, p.badSince = 0, e.now
	}
	if p.badOps++; p.badOps > limits.BadOperations {
		e.detach(p, fmt.Errorf("%d operations with bad arguments, the last: %w", p.badOps, err))
	}
}
