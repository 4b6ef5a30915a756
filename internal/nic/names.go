package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Names (QNIX-53, QNIX-55, decision 15). Every NIC keeps the name of every process of the fabric, and tells its own to
// every other: all of them when a pair opens, each change as it happens. rel loses nothing within a session, so nothing
// needs to be told twice; records may overtake one another, so each has the version of its owner's table.

// address is one process of the fabric, in one life.
type address struct {
	nic  uint64
	slot uint16
	gen  uint32
}

// nameEntry is one name of the table.
type nameEntry struct {
	name vni.Name
	address
	since  clock.Time // when it was claimed, on this NIC's clock
	dead   bool       // the process has gone; kept for its last messages, which may come after the news
	stale  bool       // its NIC cannot be reached
	forget clock.Time // when a dead or stale one is forgotten
}

func (n *nameEntry) live() bool { return !n.dead && !n.stale }

type nameTable struct {
	byName map[vni.Name]*nameEntry
	byAddr map[address]*nameEntry
	all    []*nameEntry // in the order of learning
}

// controlName is the name of slot 0 of every NIC. Nobody can claim it.
var controlName = func() vni.Name {
	n, err := vni.MakeName("nic", 0)
	if err != nil {
		panic(err)
	}
	return n
}()

func (t *nameTable) init() {
	t.byName = make(map[vni.Name]*nameEntry)
	t.byAddr = make(map[address]*nameEntry)
}

// Address is where a name was found.
type Address struct {
	NIC  uint64
	Slot uint16
	Gen  uint32
}

// NameInfo is what tools are told about a name.
type NameInfo struct {
	Name vni.Name
	Address
	Reachable bool
}

// Lookup finds the process with a name.
func (e *Engine) Lookup(name vni.Name) (Address, bool) {
	n := e.names.byName[name]
	if n == nil || !n.live() {
		return Address{}, false
	}
	return Address{n.nic, n.slot, n.gen}, true
}

// Names lists the processes of the fabric by name.
func (e *Engine) Names() []NameInfo {
	var l []NameInfo
	for _, n := range e.names.all {
		if !n.dead {
			l = append(l, NameInfo{n.name, Address{n.nic, n.slot, n.gen}, !n.stale})
		}
	}
	slices.SortFunc(l, func(a, b NameInfo) int { return a.Name.Compare(b.Name) })
	return l
}

// addOwn claims the name of a process that has just registered.
func (t *nameTable) addOwn(e *Engine, p *process) {
	n := &nameEntry{name: p.name, address: address{e.cfg.ID, p.slot, p.gen}, since: e.now}
	t.put(e, n)
	for _, pr := range e.nodes.list {
		e.tellClaim(pr, n, false)
	}
}

// removeOwn takes back the name of a process that goes.
func (t *nameTable) removeOwn(e *Engine, p *process) {
	n := t.byAddr[address{e.cfg.ID, p.slot, p.gen}]
	if n == nil || n.dead {
		return
	}
	t.kill(e, n)
	for _, pr := range e.nodes.list {
		e.tellEnd(pr, n)
	}
}

// put adds a name and lets everybody who waits for it know.
func (t *nameTable) put(e *Engine, n *nameEntry) {
	t.byAddr[n.address] = n
	t.all = append(t.all, n)
	if old := t.byName[n.name]; old == nil || !old.live() || n.since < old.since || n.since == old.since && n.nic < old.nic {
		t.byName[n.name] = n
	}
	e.counts[vni.NICNamesNow] = uint64(len(t.all))
	e.reconsider = true
	e.named(n)
	for _, p := range e.procs { // receives from this name now depend on its NIC
		if p == nil {
			continue
		}
		for m := p.posted.head; m != nil; m = m.next {
			if m.v.sender == n.name {
				e.watchSender(m.v)
			}
		}
	}
}

// kill marks a process as gone.
func (t *nameTable) kill(e *Engine, n *nameEntry) {
	n.dead = true
	n.forget = e.now.Add(limits.NameKeep)
	e.checkAt(n.forget)
	t.elect(n.name)
	e.reconsider = true
}

// drop removes an entry at once.
func (t *nameTable) drop(n *nameEntry) {
	delete(t.byAddr, n.address)
	t.all = slices.DeleteFunc(t.all, func(m *nameEntry) bool { return m == n })
	t.elect(n.name)
}

// elect finds the entry that a name stands for once the one before is out: another claim may have been waiting.
func (t *nameTable) elect(name vni.Name) {
	var best *nameEntry
	for _, n := range t.all {
		if n.name == name && !n.dead && (best == nil || best.stale && !n.stale || best.stale == n.stale && n.since < best.since) {
			best = n
		}
	}
	if best == nil {
		delete(t.byName, name)
	} else {
		t.byName[name] = best
	}
}

// lose marks the names of a lost NIC: gone with it, or out of reach until it comes back or is given up.
func (t *nameTable) lose(e *Engine, pr *peer, gone bool) {
	for _, n := range t.all {
		if n.nic != pr.nic {
			continue
		}
		n.stale, n.dead = true, n.dead || gone
		n.forget = e.now.Add(limits.FailureTimeout)
		if n.dead { // the session of its last messages is over
			n.forget = e.now
		}
		e.checkAt(n.forget)
		t.elect(n.name)
	}
}

// expire forgets the names whose time is over.
func (t *nameTable) expire(e *Engine) {
	kept := t.all[:0]
	for _, n := range t.all {
		switch {
		case n.live():
			kept = append(kept, n)
		case n.forget > e.now:
			e.checkAt(n.forget)
			kept = append(kept, n)
		default:
			if t.byAddr[n.address] == n {
				delete(t.byAddr, n.address)
			}
			if t.byName[n.name] == n {
				delete(t.byName, n.name)
			}
			e.reconsider = true
			e.forgetSources(n.address)
		}
	}
	clear(t.all[len(kept):])
	t.all = kept
	e.counts[vni.NICNamesNow] = uint64(len(t.all))
}

// forgetSources drops what processes of ours remember of a sender that has long gone.
func (e *Engine) forgetSources(a address) {
	pr := e.peerOf(a.nic)
	for _, p := range e.procs {
		if p == nil {
			continue
		}
		if src := p.sources[sourceKey{pr, a.slot, a.gen}]; src != nil && src.early.n == 0 {
			delete(p.sources, src.key)
		}
	}
}

// alive reports whether a process may still send. Of a NIC that we have not heard everything of we do not know.
func (e *Engine) alive(k destKey) bool {
	if k.slot == 0 {
		return k.nic == e.cfg.ID || e.peerOf(k.nic) != nil
	}
	if k.nic == e.cfg.ID {
		p := e.process(k.slot)
		return p != nil && p.gen == k.gen
	}
	n := e.names.byAddr[address(k)]
	if n != nil {
		return !n.dead
	}
	pr := e.peerOf(k.nic)
	return pr != nil && !pr.synced
}

// goneProcess is a process that has gone, and when the receives that name it end: its last messages may come after the
// news of its end, since records overtake one another.
type goneProcess struct {
	destKey
	name vni.Name
	at   clock.Time
	seqs []uint64 // by slot of our processes: receives posted later are not meant
}

// processGone ends the sends to a process that has gone, now, and the receives that name it, a little later.
func (e *Engine) processGone(nic uint64, slot uint16, gen uint32, name vni.Name) {
	k := destKey{nic, slot, gen}
	g := goneProcess{destKey: k, name: name, at: e.now, seqs: make([]uint64, len(e.procs))}
	if nic != e.cfg.ID {
		g.at = e.now.Add(limits.GoneGrace)
	}
	for i, p := range e.procs {
		if p == nil {
			continue
		}
		g.seqs[i] = p.postSeq
		d := p.dests[k]
		if d == nil {
			continue
		}
		for j := range p.sends {
			if s := &p.sends[j]; s.state != sendIdle && s.dest == d {
				e.giveUp(s, 0)
				e.completeSend(s, vni.StatusProcessGone)
			}
		}
		delete(p.dests, k)
		e.tell(p, vni.Event{Kind: vni.EventProcessGone, NIC: nic, Slot: slot, Gen: gen, Name: name})
	}
	if nic == e.cfg.ID {
		e.endReceivesFrom(&g)
		return
	}
	e.gone = append(e.gone, g)
	e.checkAt(g.at)
}

// bury ends the receives that name processes whose grace is over.
func (e *Engine) bury() {
	kept := e.gone[:0]
	for i := range e.gone {
		if g := &e.gone[i]; g.at <= e.now {
			e.endReceivesFrom(g)
		} else {
			e.checkAt(g.at)
			kept = append(kept, *g)
		}
	}
	clear(e.gone[len(kept):])
	e.gone = kept
}

func (e *Engine) endReceivesFrom(g *goneProcess) {
	for i, p := range e.procs {
		if p == nil || i >= len(g.seqs) {
			continue
		}
		e.failReceives(p, vni.StatusProcessGone, func(r *receive) bool {
			return r.seq <= g.seqs[i] && (r.exact && r.from == g.destKey || !r.exact && !r.sender.IsZero() && r.sender == g.name)
		})
	}
}
