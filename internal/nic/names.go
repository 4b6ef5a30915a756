package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Names (QNIX-53, QNIX-55, decision 15). Every NIC keeps the name of every process of the fabric, and tells its own to
// every other: all of them when a pair opens, each change as it happens. rel loses nothing within a session, so nothing
// needs to be told twice; but records may overtake one another, so the end of a process is remembered for a while, lest
// its claim come after it.

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
	number uint32     // of its NIC's claims
	since  clock.Time // when it was claimed, on this NIC's clock
	dead   bool       // the process has gone; kept for its last messages, which may come after the news
	stale  bool       // its NIC cannot be reached
	out    bool       // not in the table any more
	forget clock.Time // when a dead or stale one is forgotten

	state    claimState
	patience clock.Time // of an open claim: until when its answer waits
	home     *peer      // of a claim of ours: who is asked to confirm it
	granted  bool       // and has
	near     nearest    // its home
	asked    []*peer    // whoever was asked, and has to hear of its end
	promised []*peer    // whoever was told in our first table that it is to come
}

func (n *nameEntry) live() bool { return n.state == claimHeld && !n.dead && !n.stale }

type nameTable struct {
	byName map[vni.Name]*nameEntry
	last   *nameEntry // of byName, that find found last
	byAddr map[address]*nameEntry
	all    []*nameEntry              // in the order of learning
	count  map[uint64]int            // entries by NIC
	claims map[vni.Name][]*nameEntry // to each name, whether dead or alive, in the order of their coming
	number uint32                    // of our latest claim
	open   []*nameEntry              // claims that are not decided: ours, and those that we are to judge
	due    map[vni.Name]address      // heard of otherwise, by processes too: the claim is still under way
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
	t.count = make(map[uint64]int)
	t.claims = make(map[vni.Name][]*nameEntry)
	t.due = make(map[vni.Name]address)
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
		if !n.dead && n.state == claimHeld {
			l = append(l, NameInfo{n.name, Address{n.nic, n.slot, n.gen}, !n.stale})
		}
	}
	slices.SortFunc(l, func(a, b NameInfo) int { return a.Name.Compare(b.Name) })
	return l
}

// own finds the process of ours that has a name.
func (t *nameTable) own(e *Engine, name vni.Name) *nameEntry {
	return t.claimOf(e.cfg.ID, name)
}

// claimOf finds the claim of a NIC to a name.
func (t *nameTable) claimOf(nic uint64, name vni.Name) *nameEntry {
	for _, n := range t.claims[name] {
		if n.nic == nic && n.live() {
			return n
		}
	}
	return nil
}

// expect notes that a process has been heard of by its name: rel loses nothing, so its claim will come, or its NIC will be
// lost. Who sends to the name until then waits, as for the tables of a new peer.
func (t *nameTable) expect(name vni.Name, a address) {
	if n := t.byAddr[a]; (n == nil || !n.dead && n.state != claimHeld) && len(t.due) < limits.NamesPerNIC {
		t.due[name] = a
	}
}

// awaitName has a send wait for a name that is unknown here and may be told yet, if there is hope.
func (e *Engine) awaitName(s *send) bool {
	a, due := e.names.due[s.name]
	if !due && s.kind != kindResolve && !e.names.undecided(s.name) && !e.nodes.mayKnowMore(e.now) {
		return false
	}
	if pr := e.peerOf(a.nic); due && pr != nil { // it may have nothing else to be probed for, and if it dies the send must end
		s.herald = pr
		pr.ep.Watch(1)
	}
	s.state = sendUnresolved
	e.waiting.pushBack(&s.node)
	return true
}

// undecided reports whether somebody claims a name who is not sure of it yet.
func (t *nameTable) undecided(name vni.Name) bool {
	return slices.ContainsFunc(t.claims[name], func(n *nameEntry) bool { return n.state != claimHeld && !n.dead })
}

// heard ends what awaitName began.
func (s *send) heard() {
	if s.herald != nil {
		s.herald.ep.Watch(-1)
		s.herald = nil
	}
}

// put adds a claim. If it holds, everybody who waits for the name is let know.
func (t *nameTable) put(e *Engine, n *nameEntry) {
	t.byAddr[n.address] = n
	t.all = append(t.all, n)
	t.claims[n.name] = append(t.claims[n.name], n)
	t.count[n.nic]++
	e.counts[vni.NICNamesNow] = uint64(len(t.all))
	if n.state == claimHeld {
		t.stands(e, n)
	}
}

// stands lets everybody know who waits for a name that it has a process now.
func (t *nameTable) stands(e *Engine, n *nameEntry) {
	if t.due[n.name] == n.address {
		delete(t.due, n.name)
	}
	t.elect(n.name)
	e.reconsider = true
	e.named(n)
	e.rewatch(n.name)
}

// rewatch has receives from a name depend on the NIC that has it now.
func (e *Engine) rewatch(name vni.Name) {
	for _, p := range e.procs {
		if p == nil {
			continue
		}
		for m := p.posted.head; m != nil; m = m.next {
			if !m.v.exact && m.v.sender == name {
				e.watchSender(m.v)
			}
		}
	}
}

// kill marks a process as gone.
func (t *nameTable) kill(e *Engine, n *nameEntry) {
	n.dead, n.stale = true, false
	n.forget = e.now.Add(limits.NameKeep)
	e.checkAt(n.forget)
	t.elect(n.name)
	e.reconsider = true
}

// remove takes an entry out of everything but the list of all, which expire does.
func (t *nameTable) remove(n *nameEntry) {
	if n.out {
		return
	}
	n.out, n.dead, n.forget = true, true, 0
	if t.byAddr[n.address] == n {
		delete(t.byAddr, n.address)
	}
	if t.count[n.nic]--; t.count[n.nic] == 0 {
		delete(t.count, n.nic)
	}
	claims := slices.DeleteFunc(t.claims[n.name], func(m *nameEntry) bool { return m == n })
	if t.claims[n.name] = claims; len(claims) == 0 {
		delete(t.claims, n.name)
	}
	t.elect(n.name)
}

// full reports whether a NIC has as many names here as it may have.
func (t *nameTable) full(nic uint64) bool { return t.count[nic] >= limits.NamesPerNIC }

// find returns the entry that a name stands for, nil if there is none. Mostly it is the one that was asked for last.
func (t *nameTable) find(name *vni.Name) *nameEntry {
	if n := t.last; n != nil && n.name.Is(name) {
		return n
	}
	t.last = t.byName[*name]
	return t.last
}

// elect finds the entry that a name stands for: of several claims, which only a partition lets arise, the oldest whose
// NIC can be reached. Two of the same age go by the NIC's id.
func (t *nameTable) elect(name vni.Name) {
	t.last = nil
	var best *nameEntry
	for _, n := range t.claims[name] {
		if !n.dead && n.state == claimHeld && (best == nil || n.before(best)) {
			best = n
		}
	}
	if best == nil {
		delete(t.byName, name)
	} else {
		t.byName[name] = best
	}
}

func (n *nameEntry) before(m *nameEntry) bool {
	switch {
	case n.stale != m.stale:
		return m.stale
	case n.since != m.since:
		return n.since < m.since
	}
	return n.nic < m.nic
}

// lose marks the names of a lost NIC: gone with it, or out of reach until it comes back or has been silent for
// FailureTimeout. It confirms nothing any more, and its own claims that were not confirmed are void.
func (t *nameTable) lose(e *Engine, pr *peer, gone bool) {
	for name, a := range t.due { // order does not matter: only deletions
		if a.nic == pr.nic {
			delete(t.due, name)
		}
	}
	for _, n := range t.open {
		e.forgetAsked(n, pr)
	}
	for _, n := range t.all {
		if n.nic != pr.nic || n.out {
			continue
		}
		if n.state != claimHeld {
			t.remove(n)
			e.checkAt(e.now)
			continue
		}
		if !n.stale { // else a further attempt to reach its NIC has failed
			n.stale = true
			n.forget = max(e.now, pr.ep.Heard().Add(e.cfg.FailureTimeout))
		}
		if n.dead = n.dead || gone; n.dead { // the session of its last messages is over
			n.forget = e.now
		}
		e.checkAt(n.forget)
		t.elect(n.name)
	}
}

// expire forgets the names whose time is over.
func (t *nameTable) expire(e *Engine) {
	kept := t.all[:0]
	var gone []*nameEntry
	for _, n := range t.all {
		switch {
		case n.live(), n.state != claimHeld && !n.dead && !n.stale:
			kept = append(kept, n)
		case n.forget > e.now:
			e.checkAt(n.forget)
			kept = append(kept, n)
		case !n.out:
			gone = append(gone, n)
		}
	}
	clear(t.all[len(kept):])
	t.all = kept
	for _, n := range gone {
		t.remove(n)
		e.reconsider = true
		e.forgetSources(n.address)
	}
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
			p.forgetSource(src)
		}
	}
}
