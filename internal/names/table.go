package names

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// The Name Table (QNIX-53, QNIX-55, decision 15). Every NIC keeps the name of every process of
// the fabric. It tells its own names to every other NIC: all of them when a pair opens, and each
// change as it happens. Package rel loses nothing within a session, so nothing is told twice. But
// records may overtake one another, so the end of a process is remembered for a while, in case
// its claim arrives later.

// Entry is one claim to a name.
type Entry struct {
	vni.Address
	Name vni.Name

	number uint32 // among its NIC's claims
	// since is when this NIC first saw the claim. For claims that met after a partition, it is
	// their order (rank).
	since clock.Time
	// dead: the process has ended. The entry is kept for its last messages, which may arrive
	// after the news.
	dead   bool
	stale  bool       // its NIC cannot be reached
	out    bool       // not in the table any more
	forget clock.Time // when a dead or stale entry is forgotten
	state  claimState

	// For an undecided claim.
	patience clock.Time // the end of the wait for its answer
	near     nearest    // its home
	home     *Peer      // for a claim of this NIC: the NIC that was asked to confirm it
	granted  bool       // home has confirmed it
	asked    []*Peer    // NICs that were asked, and must hear the outcome
	promised []*Peer    // NICs whose first table from this NIC announced it

	// While the holder's NIC is in doubt (vouch.go).
	doubts               vni.Address // the holder; zero: none was doubted yet
	doubtFrom, doubtTill clock.Time

	// For a process of a rank (yield.go).
	incarnation uint64
	life        vni.Life    // for a process of this NIC
	pressed     vni.Address // the process that was asked for the name

	// For a claim to a contested name (contest.go).
	beaten vni.Address // the winner that this NIC, the home, has told its NIC
	judge  *Peer       // for a name of this NIC: the peer whose verdict gives the name to winner
	winner vni.Address // the process that has the name by the verdict of judge
}

// Live reports whether the name leads to the process.
func (n *Entry) Live() bool { return n.state == claimHeld && !n.dead && !n.stale }

// Stale reports whether the NIC of the process has not told of it in this session.
func (n *Entry) Stale() bool { return n.stale }

// Info is what tools get to know about a name.
type Info struct {
	Name vni.Name
	vni.Address
	Reachable bool
}

// Find returns the entry that a name stands for, nil if there is none. It is fastest for the name
// of the previous call.
func (t *Table) Find(name *vni.Name) *Entry {
	if n := t.last; n != nil && n.Name.Is(name) {
		return n
	}
	t.last = t.byName[*name]
	return t.last
}

// At returns the entry of a process, nil if there is none.
func (t *Table) At(a vni.Address) *Entry { return t.byAddr[a] }

// Lookup returns the address of the process with a name.
func (t *Table) Lookup(name vni.Name) (vni.Address, bool) {
	if n := t.Find(&name); n != nil && n.Live() {
		return n.Address, true
	}
	return vni.Address{}, false
}

// List returns the processes of the fabric, sorted by name.
func (t *Table) List() (l []Info) {
	for _, n := range t.all {
		if !n.dead && n.state == claimHeld {
			l = append(l, Info{n.Name, n.Address, !n.stale})
		}
	}
	slices.SortFunc(l, func(a, b Info) int { return a.Name.Compare(b.Name) })
	return l
}

// Processes returns the number of processes of a peer.
func (t *Table) Processes(p *Peer) (count int) {
	for _, n := range t.all {
		if n.NIC == p.NIC() && n.Live() {
			count++
		}
	}
	return count
}

// Len returns the number of names, and how many of them are undecided claims.
func (t *Table) Len() (all, open int) { return len(t.all), len(t.open) }

// Ended reports whether a process of another NIC is known to have ended, and until when its last
// messages may still arrive. It reports false as long as tables of that NIC are missing.
func (t *Table) Ended(a vni.Address) (bool, clock.Time) {
	now, p := t.nic.Now(), t.nic.Peer(a.NIC)
	if p == nil {
		return true, now
	}
	if a.Slot == 0 {
		return false, 0
	}
	if n := t.byAddr[a]; n != nil {
		return n.dead, n.forget.Add(limits.GoneGrace - limits.NameKeep)
	}
	return p.synced, now
}

// Expect notes that another service has heard of a process by its name. Package rel loses
// nothing, so the claim will arrive, or the NIC of the process will be lost. Until then sends to
// the name wait, as they do for the tables of a new peer.
func (t *Table) Expect(name vni.Name, a vni.Address) {
	if n := t.byAddr[a]; (n == nil || !n.dead && n.state != claimHeld) && len(t.due) < limits.NamesPerNIC {
		t.due[name] = a
	}
}

// Due reports whether an unknown name may still be told. If a certain NIC is to tell it, watch is
// the endpoint of that NIC. It may have no other reason to be probed, and if it dies, the wait
// for the name must end.
func (t *Table) Due(name vni.Name) (watch *rel.Endpoint, due bool) {
	if a, ok := t.due[name]; ok {
		if p := t.nic.Peer(a.NIC); p != nil {
			watch = p.Endpoint
		}
		return watch, true
	}
	return nil, t.undecided(name) || t.mayKnowMore()
}

// undecided reports whether a claim to a name is not confirmed yet.
func (t *Table) undecided(name vni.Name) bool {
	return slices.ContainsFunc(t.claims[name], func(n *Entry) bool { return n.state != claimHeld && !n.dead })
}

// heldBy returns the live claim of a NIC to a name.
func (t *Table) heldBy(nic uint64, name vni.Name) *Entry {
	for _, n := range t.claims[name] {
		if n.NIC == nic && n.Live() {
			return n
		}
	}
	return nil
}

// full reports whether a NIC has the largest allowed number of names here.
func (t *Table) full(nic uint64) bool { return t.owned[nic] >= limits.NamesPerNIC }

// put adds a claim.
func (t *Table) put(n *Entry) {
	t.byAddr[n.Address] = n
	t.all = append(t.all, n)
	t.claims[n.Name] = append(t.claims[n.Name], n)
	t.owned[n.NIC]++
	t.cfg.Counts[vni.NICNamesNow] = uint64(len(t.all))
	if n.state == claimHeld {
		t.stands(n)
	}
}

// stands makes a claim hold from now on, and wakes the operations that wait for the name.
func (t *Table) stands(n *Entry) {
	if t.due[n.Name] == n.Address {
		delete(t.due, n.Name)
	}
	t.elect(n.Name)
	t.contested(n)
	t.nic.Named(n)
}

// elect finds the entry that a name stands for: among the claims whose NIC can be reached, the
// one that this NIC saw first. For two that were seen at the same time, the lower NIC id decides.
func (t *Table) elect(name vni.Name) {
	t.last, t.changed = nil, true
	var best *Entry
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

func (n *Entry) before(m *Entry) bool {
	switch {
	case n.stale != m.stale:
		return m.stale
	case n.since != m.since:
		return n.since < m.since
	}
	return n.NIC < m.NIC
}

// ends handles the news that a process has ended. The entry is kept until its last messages must
// have arrived.
func (t *Table) ends(n *Entry) {
	named := t.byName[n.Name] == n
	n.dead, n.stale = true, false
	t.keep(n, t.nic.Now().Add(limits.NameKeep))
	t.forgetOldest(n)
	t.nic.Gone(n, named)
}

// forgetOldest forgets the oldest ended process of n's NIC that had the name of n, if too many
// have ended. Otherwise a NIC that claims one name again and again would make each lookup of that
// name ever more expensive.
func (t *Table) forgetOldest(n *Entry) {
	kept, now := 0, t.nic.Now()
	var oldest *Entry
	for _, o := range t.claims[n.Name] { // in the order of arrival
		if o.NIC != n.NIC || !o.dead || o.forget <= now {
			continue
		}
		if kept++; oldest == nil {
			oldest = o
		}
	}
	if kept > limits.EndsPerName {
		oldest.forget = now
		t.nic.CheckAt(now)
	}
}

// keep sets the time at which a dead or stale entry is forgotten. Meanwhile its name stands for
// another entry, if there is one.
func (t *Table) keep(n *Entry, until clock.Time) {
	n.forget = until
	t.nic.CheckAt(until)
	t.elect(n.Name)
}

// drop forgets a claim that has failed.
func (t *Table) drop(n *Entry) {
	t.closeClaim(n)
	t.remove(n)
	t.nic.CheckAt(0)
}

// remove takes an entry out of everything except the list all, which expireNames cleans up.
func (t *Table) remove(n *Entry) {
	if n.out {
		return
	}
	n.out, n.dead, n.forget = true, true, 0
	if t.byAddr[n.Address] == n {
		delete(t.byAddr, n.Address)
	}
	if t.owned[n.NIC]--; t.owned[n.NIC] == 0 {
		delete(t.owned, n.NIC)
	}
	claims := slices.DeleteFunc(t.claims[n.Name], func(m *Entry) bool { return m == n })
	if t.claims[n.Name] = claims; len(claims) == 0 {
		delete(t.claims, n.Name)
	}
	t.elect(n.Name)
}

// lose marks the names of a lost NIC. They end with the NIC if ended is set. Otherwise they are
// unreachable until it comes back or has been silent for FailureTimeout. The NIC confirms nothing
// any more, and its own unconfirmed claims are void.
func (t *Table) lose(p *Peer, ended bool) {
	for name, a := range t.due { // order does not matter: only deletions
		if a.NIC == p.NIC() {
			delete(t.due, name)
		}
	}
	t.forgetAsked(p)
	for _, n := range t.all {
		switch {
		case n.NIC != p.NIC() || n.out:
		case n.state != claimHeld:
			t.remove(n)
			t.nic.CheckAt(0)
		default:
			if !n.stale { // else a further attempt to reach its NIC has failed
				n.stale = true
				n.forget = max(t.nic.Now(), p.Heard().Add(t.cfg.FailureTimeout))
			}
			if n.dead = n.dead || ended; n.dead { // the session of its last messages is over
				n.forget = t.nic.Now()
			}
			t.keep(n, n.forget)
		}
	}
}

// expireNames forgets the names whose time is over.
func (t *Table) expireNames() {
	kept := t.all[:0]
	var over []*Entry
	for _, n := range t.all {
		switch {
		case n.Live(), n.state != claimHeld && !n.dead && !n.stale:
			kept = append(kept, n)
		case n.forget > t.nic.Now():
			t.nic.CheckAt(n.forget)
			kept = append(kept, n)
		case !n.out:
			over = append(over, n)
		}
	}
	clear(t.all[len(kept):])
	t.all = kept
	for _, n := range over {
		t.remove(n)
		t.nic.Forgotten(n.Address)
	}
	t.cfg.Counts[vni.NICNamesNow] = uint64(len(t.all))
}

// Audit checks whether the parts of the table agree, and whether open claims know their homes.
func (t *Table) Audit() error {
	owned := make(map[uint64]int)
	for _, n := range t.all {
		switch {
		case n.out:
			continue
		case t.byAddr[n.Address] != n:
			return fmt.Errorf("%v is not found by its address", n)
		case n.Live() && t.byName[n.Name] == nil:
			return fmt.Errorf("%v is not found by its name", n)
		}
		owned[n.NIC]++
	}
	for name, n := range t.byName {
		if n.out || n.dead || n.state != claimHeld || n.Name != name {
			return fmt.Errorf("%v leads to %v, which does not have it", name, n)
		}
	}
	for nic, n := range owned {
		if t.owned[nic] != n || n > limits.NamesPerNIC {
			return fmt.Errorf("NIC %v has %d names, counted as %d", nicid.ID(nic), n, t.owned[nic])
		}
	}
	for _, n := range t.open {
		switch {
		case !n.out && !n.dead && n.state != claimWaiting && n.state != claimAsked:
			return fmt.Errorf("the claim of %v is open, and decided", n)
		case n.near.found && n.near.home != t.Home(n.Name):
			return fmt.Errorf("the claim of %v takes another NIC for its home", n)
		}
	}
	return nil
}

func (n *Entry) String() string {
	return fmt.Sprintf("%v (slot %d of NIC %v)", n.Name, n.Slot, nicid.ID(n.NIC))
}
