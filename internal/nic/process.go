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

// process is an entry of the process table (QNIX-34): one registered process, its VNI, and what it has under way.
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
	newAt    int  // position of its New_Process, while that is not answered; else noCommand
	gone     bool // it leaves: its name and its operations have ended
	leaving  node[process]
	refused  error // then: what its New_Process is answered with, if that has yet to be
	deleteAt int   // position of its Delete_Process, if that has come; else noCommand
	detached bool  // served no more; the driver has yet to delete it
	idle     int   // polls in a row that found no command
	silent   int   // rings in a row without a command
	badOps   int   // operations refused for their arguments since badSince; a storm of them detaches
	badSince clock.Time

	sends          []send     // by send context
	copies         []*send    // of multicasts, numbered behind the contexts; nil where there is none
	free           []int      // the places in copies that are free
	sched          list[send] // second level of the round robin (QNIX-40): sends that can take a turn
	dests          map[vni.Address]*dest
	blanks         list[dest]    // that are blank, or were when they were last looked at; the first is forgotten first
	lastDest       *dest         // that a send went to: so will the next, mostly
	recvs          []receive     // by receive context
	posted         list[receive] // receive table, first half: posted and not yet matched, oldest first
	bare           list[receive] // of datagrams, oldest first
	probes         list[receive] // posted probes, oldest first
	stray          strays        // receive table, second half: unexpected envelopes, oldest first
	sources        map[sourceKey]*source
	lastSource     *source                // that an envelope was from: likewise
	straight       *Straight              // its straight way, if it has one
	straights      []*receive             // entries of the receive table that are not of a context
	spareStraights freelist.List[receive] // of those, not in use
	tickets        uint64                 // that probes have told
	libraries      libraries              // that have posted receives
	postSeq        uint64                 // numbers posted receives, so that one can go back to its place

	regions  []*region              // by id; 0 is the pool
	rings    int                    // bytes of rings that others cannot reach by mistake, and of what was put back from rings
	runs     freelist.List[sendRun] // of its sends
	ringed   []*receive             // that have rings
	fresh    []*msgRing             // with something that the process has not been shown
	staged   int                    // bytes of staging in use by messages that came with permission or locally
	credited int                    // bytes of staging promised to sending NICs as credit
	credits  []*credit              // by holder
	unstaged list[inbound]          // short messages among stray that staging had no room for; oldest first

	groups coll.Process

	held       list[multicast] // that have copies to begin
	resumeNode node[process]   // in Engine.resumed
	lastCopy   uint32          // counts the copies, for their tokens

	segments map[uint32]bool      // that it has mapped
	guard    *guard               // in front of it; nil if none is
	judged   bool                 // one that judges by the bytes is, or was
	guardOut program.OutgoingFunc // on its way out; nil if none is
	rooms    rel.Account          // segments of its sends
	account  Account

	user string // whose it is, by name; empty: the NIC is inside its program

	lastLetter, lastProgram clock.Time // when the last datagram, and message to a program, that its guard has judged set off

	givenUp int               // calls to it that are known to be given up, over all holders
	gaveUp  map[*peer]*credit // the holders of such calls; nil: there has been none
}

// sendNumbers is how many numbers the sends of the process have, those of its contexts and the copies of its multicasts.
func (p *process) sendNumbers() int { return len(p.sends) + len(p.copies) }

// sendAt finds a send by its number, which is in the lower half of its token; nil if there is none.
func (p *process) sendAt(i int) *send {
	if i < len(p.sends) {
		return &p.sends[i]
	}
	if i -= len(p.sends); i < len(p.copies) {
		return p.copies[i]
	}
	return nil
}

// underWay are the sends that have not ended, of contexts and copies.
func (p *process) underWay(yield func(*send) bool) {
	for i := range p.sendNumbers() {
		if s := p.sendAt(i); s != nil && s.state != sendIdle && !yield(s) {
			return
		}
	}
}

// addressOf is the address of a process of this NIC.
func (e *Engine) addressOf(p *process) vni.Address {
	return vni.Address{NIC: e.cfg.ID, Slot: p.slot, Gen: p.gen}
}

// served reports whether the process may still be sent to.
func (p *process) served() bool { return !p.gone && !p.detached }

func (p *process) String() string { return fmt.Sprintf("%v (slot %d)", p.name, p.slot) }

// processTable is the process table (QNIX-34).
type processTable struct {
	slots      []*process                 // slot 0 is the NIC's own (decision 1); nil: none
	gens       []uint32                   // by slot: the generation given last
	registered int                        // processes, beside the one at slot 0
	guards     map[vni.Name]programGuard  // programs that guard processes, by their names; nil if none does
	outgoing   map[vni.Name]outgoingGuard // those that guard what processes send; likewise
	nameless   []Nameless                 // that TakeNameless has not returned yet
}

// init makes the table of at most so many processes, beside that at slot 0. The generations begin behind base.
func (t *processTable) init(most int, base uint32) {
	t.slots, t.gens = make([]*process, 1, 1+min(most, limits.Processes)), make([]uint32, 1+most)
	for i := range t.gens {
		t.gens[i] = base
	}
}

// at returns the process at slot, nil if there is none.
func (t *processTable) at(slot uint16) *process {
	if int(slot) < len(t.slots) {
		return t.slots[slot]
	}
	return nil
}

// all are the processes, by slot.
func (t *processTable) all(yield func(*process) bool) {
	for _, p := range t.slots {
		if p != nil && !yield(p) {
			return
		}
	}
}

// generation gives the next process at slot its generation. 0 is no process's, so an empty envelope is of none.
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

// bytes is what the table takes, without the processes.
func (t *processTable) bytes() int64 {
	return int64(cap(t.slots))*size[*process]() + int64(len(t.gens))*size[uint32]()
}

// process returns the process at slot, nil if there is none.
func (e *Engine) process(slot uint16) *process { return e.procs.at(slot) }

// install makes the table entry of a process and begins to listen to it.
func (e *Engine) install(c driver.Command, gen uint32, name vni.Name) *process {
	at := e.driver.Entry(c.Index)
	seg := at.VNI
	g := seg.Geometry()
	p := &process{
		slot: c.Index, gen: gen, pid: c.PID, name: name, user: at.User, vni: seg.NIC(), wakeUp: at.WakeUp, newAt: noCommand, deleteAt: noCommand,
		// The allocator rounds both tables up to pages of 8 KiB: a field more may cost each process a page.
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

// detach ends a process that has done what no working process half can do (decision 10), which throwOut tells it. Its owner, the daemon, sees
// the word and lets it go; until then it is served no more.
func (e *Engine) detach(p *process, why error) {
	if p.gone || p.detached {
		return
	}
	p.detached = true
	e.counts[vni.NICDetaches]++
	e.detached = append(e.detached, Detached{p.slot, p.gen, p.name, why, false})
	p.node.remove()
}

// throwOut tells processes that they have been detached, once nothing of theirs is under way any more: from then on each may use its memory for something else. What
// detaches a process is in the middle of something.
func (e *Engine) throwOut() {
	for i := 0; i < len(e.detached); i++ { // others may come while it goes on
		if d := &e.detached[i]; !d.told {
			d.told = true
			p := e.process(d.Slot)
			e.stop(p)
			p.vni.SetGone(vni.StatusDetached)
			e.ring(p)
		}
	}
}

// Detached is a process that the engine refuses to serve any longer, and the reason.
type Detached struct {
	Slot       uint16
	Generation uint32
	Name       vni.Name
	Why        error

	told bool // the process has been, which all before it have
}

// TakeDetached returns the processes detached since the last call, but not those that the driver has deleted meanwhile, nor those that have yet to be told. The
// caller has the driver delete them.
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

// listen puts p among the processes whose queues every poll looks at, until it has been idle for so many polls.
func (e *Engine) listen(p *process, polls int) {
	p.idle = e.cfg.IdlePolls - polls
	if p.node.in == nil && !p.gone && !p.detached { // one that was thrown out may ring as much as it likes
		p.vni.Listen()
		e.active.pushBack(&p.node)
	}
}

// rang takes a ring of p. One that brings no command buys less and less patience, so that ringing does not keep the NIC
// from parking; a storm of them detaches.
func (e *Engine) rang(p *process) {
	p.account.Rings++
	e.counts[vni.NICRings]++
	if p.silent > 0 { // since the last one there was no command
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

// badArgument counts an operation of p that was refused for its arguments; a storm of them detaches (decision 10).
func (e *Engine) badArgument(p *process, err error) {
	e.counts[vni.NICFailedBadArgument]++
	if e.now.Sub(p.badSince) > time.Second {
		p.badOps, p.badSince = 0, e.now
	}
	if p.badOps++; p.badOps > limits.BadOperations {
		e.detach(p, fmt.Errorf("%d operations with bad arguments, the last: %w", p.badOps, err))
	}
}
