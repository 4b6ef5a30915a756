package nic

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// process is an entry of the process table (QNIX-34): one registered process, its VNI, and what it has under way.
type process struct {
	node     node[process] // in Engine.active while the NIC listens to its queue
	sendNode node[process] // in Engine.sending while it has sends that can take a turn
	slot     uint16
	gen      uint32
	name     vni.Name
	vni      *vni.NIC
	wakeUp   func()
	rung     bool
	gone     bool
	detached bool  // served no more; its owner has yet to unregister it
	lostTo   *peer // which has judged that the name is its own; its claim may come later
	idle     int   // polls in a row that found no command
	badOps   int   // operations refused for their arguments since badSince; a storm of them detaches
	badSince clock.Time

	sends   []send     // by send context
	copies  []*send    // of multicasts, numbered behind the contexts; nil where there is none
	free    []int      // the places in copies that are free
	sched   list[send] // second level of the round robin (QNIX-40): sends that can take a turn
	dests   map[destKey]*dest
	recvs   []receive     // by receive context
	posted  list[receive] // receive table, first half: posted and not yet matched, oldest first
	stray   list[inbound] // receive table, second half: envelopes that nobody has asked for yet, oldest first
	sources map[sourceKey]*source
	postSeq uint64 // numbers posted receives, so that one can go back to its place

	lost uint64 // sends completed and never acknowledged, of the session that ends just now

	regions  []*region // by id; 0 is the pool
	staged   int       // bytes of staging in use by messages that came with permission or locally
	credited int       // bytes of staging promised to sending NICs as credit
	credits  []*credit // who has it

	members []*member // its memberships in groups

	held     list[multicast] // that wait for copies to come free
	lastCopy uint32          // counts the copies, for their tokens
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

// served reports whether the process may still be sent to.
func (p *process) served() bool { return !p.gone && !p.detached }

func (p *process) String() string { return fmt.Sprintf("%v (slot %d)", p.name, p.slot) }

// ProcessInfo is what tools are told about a process.
type ProcessInfo struct {
	Name       vni.Name
	Slot       uint16
	Generation uint32
	Posted     int // receives waiting for a message
	Unexpected int // messages waiting for a receive
	Staged     int // bytes of them in staging
}

// Processes lists the registered processes by slot.
func (e *Engine) Processes() []ProcessInfo {
	var l []ProcessInfo
	for _, p := range e.procs {
		if p != nil {
			l = append(l, ProcessInfo{p.name, p.slot, p.gen, p.posted.n, p.stray.n, p.staged})
		}
	}
	return l
}

// process returns the process at slot, nil if there is none.
func (e *Engine) process(slot uint16) *process {
	if int(slot) < len(e.procs) {
		return e.procs[slot]
	}
	return nil
}

// Register takes a process in (QNIX-62, New_Process): it gets a slot, its name is told to every NIC, and its command
// queue is listened to. wakeUp is called, within Poll, when the process sleeps and something has happened to it.
// The segment is the engine's until Unregister returns.
func (e *Engine) Register(name vni.Name, seg *vni.Segment, wakeUp func()) (slot uint16, gen uint32, err error) {
	if e.closed {
		return 0, 0, ErrClosed
	}
	if name.IsZero() {
		return 0, 0, fmt.Errorf("nic: a process without a name cannot register; expected app/index")
	}
	if n := e.names.byName[name]; n != nil && n.live() {
		return 0, 0, fmt.Errorf("%w: %v is the process at slot %d of NIC %d", ErrNameTaken, name, n.slot, n.nic)
	}
	if name.App == controlName.App {
		return 0, 0, fmt.Errorf("%w: %v; application %q is the NICs' own", ErrNameTaken, name, "nic")
	}
	i, ok := e.takeSlot()
	if !ok {
		return 0, 0, ErrNoSlot
	}
	e.gens[i]++
	p := e.install(i, e.gens[i], name, seg, wakeUp)
	e.registered++
	e.names.addOwn(e, p)
	e.counts[vni.NICRegistrations]++
	return p.slot, p.gen, nil
}

// ControlGeneration is the generation of slot 0, which has one process in each life of the NIC.
const ControlGeneration = 1

// RegisterControl makes a process half of the NIC's owner the NIC's control process, slot 0 (decision 1): others reach
// it by the address (NIC, 0, ControlGeneration), not by name.
func (e *Engine) RegisterControl(seg *vni.Segment, wakeUp func()) error {
	if e.procs[0] != nil {
		return fmt.Errorf("%w: slot 0", ErrNameTaken)
	}
	e.install(0, ControlGeneration, controlName, seg, wakeUp)
	return nil
}

// install makes the table entry of a process and begins to listen to it.
func (e *Engine) install(i int, gen uint32, name vni.Name, seg *vni.Segment, wakeUp func()) *process {
	g := seg.Geometry()
	p := &process{
		slot: uint16(i), gen: gen, name: name, vni: seg.NIC(), wakeUp: wakeUp,
		sends: make([]send, g.Contexts), recvs: make([]receive, g.Contexts),
		dests: make(map[destKey]*dest), sources: make(map[sourceKey]*source),
		regions: make([]*region, 1),
	}
	p.node.v, p.sendNode.v = p, p
	for c := range p.sends {
		p.sends[c].init(p, c)
		p.recvs[c].init(p, c)
	}
	p.regions[0] = &region{owner: p, mem: seg.Pool()}
	p.vni.SetIdentity(vni.Identity{NIC: e.cfg.ID, Incarnation: e.cfg.Incarnation, Slot: p.slot, Gen: p.gen, Name: name})
	e.procs[i] = p
	e.listen(p)
	return p
}

// takeSlot finds a free slot as QNIX-60 says: the one at the mark, which is the one used longest ago, or the next free
// one behind it.
func (e *Engine) takeSlot() (int, bool) {
	for range e.cfg.MaxProcesses {
		i := e.nextSlot
		e.nextSlot = i%e.cfg.MaxProcesses + 1
		for i >= len(e.procs) {
			e.procs = append(e.procs, nil)
		}
		if e.procs[i] == nil {
			return i, true
		}
	}
	return 0, false
}

// Unregister lets a process go (Delete_Process): whatever it has under way ends, who waits for it is told, its name
// vanishes from every NIC. When it returns, the engine touches neither the segment nor the process's regions again.
func (e *Engine) Unregister(slot uint16, gen uint32) {
	p := e.process(slot)
	if p == nil || p.gen != gen {
		return
	}
	p.gone = true
	e.leaveAll(p)
	for i := range p.sends {
		if s := &p.sends[i]; s.state != sendIdle {
			e.abandonSend(s)
		}
	}
	e.dropReceives(p)
	for _, r := range p.regions {
		if r != nil {
			e.closeRegion(r)
		}
	}
	p.node.remove()
	p.sendNode.remove()
	e.forgetCredits(p)
	e.procs[slot] = nil
	if slot != 0 {
		e.registered--
	}
	e.endName(p)
}

// detach ends a process that has done what no working process half can do (decision 10). Its owner, the daemon, sees
// the word and lets it go; until then it is served no more.
func (e *Engine) detach(p *process, why error) {
	if p.gone || p.detached {
		return
	}
	p.detached = true
	e.counts[vni.NICDetaches]++
	p.vni.SetGone(vni.StatusDetached)
	e.ring(p)
	e.detached = append(e.detached, Detached{p.slot, p.gen, p.name, why})
	p.node.remove()
}

// Detached is a process that the engine refuses to serve any longer, and the reason.
type Detached struct {
	Slot       uint16
	Generation uint32
	Name       vni.Name
	Why        error
}

// TakeDetached returns the processes detached since the last call. The caller unregisters them.
func (e *Engine) TakeDetached() []Detached {
	d := e.detached
	e.detached = nil
	return d
}

// listen puts p among the processes whose queues every poll looks at.
func (e *Engine) listen(p *process) {
	p.idle = 0
	if p.node.in == nil && !p.gone && !p.detached { // whoever was thrown out may ring as much as it likes
		p.vni.Listen()
		e.active.pushBack(&p.node)
	}
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
