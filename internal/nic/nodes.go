package nic

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// peer is another NIC, as this one deals with it: what is under way to it and from it.
type peer struct {
	ep      *rel.Endpoint
	nic     uint64 // 0 until its first hello
	at      Position
	added   bool // by AddNode or the word of another NIC, so that it may stay away and come back
	named   bool // by AddNode, so that it is not forgotten however long it stays away
	removed bool // by RemoveNode; forgotten when its pair is down
	watched bool // and probed until then
	failed  bool // it could not be reached, or was lost, and has not come back
	retryAt clock.Time
	pause   time.Duration // before that, after an attempt that failed

	looked   bool // since lookedAt it is probed, for it has been silent for long
	lookedAt clock.Time
	forgetAt clock.Time // unless it has come back, or is named

	granted     uint64     // bytes that it has been permitted and that have not come
	writtenOff  uint64     // such bytes that are waited for no more
	writeOffs   uint32     // how often
	progressAt  clock.Time // when some came, or it began to have any
	holder      node[peer] // in granter.holders
	doubted     bool       // another NIC uses its id: it is probed, to see whether it has moved
	doubtedTill clock.Time

	blocked list[send]            // sends that wait until it can take more
	remotes map[remoteKey]*remote // its processes that ours send to
	out     fragTable[send]       // our fragments to it, by our ids
	in      fragTable[inbound]    // its fragments to us, by its ids
	gets    fragTable[inbound]    // what we GET from it, by our ids
	serving fragTable[send]       // what it GETs from us, by its ids
	legs    list[leg]             // of collective operations, that wait until it can take more
	signals []wire.Signal         // that wait until the pair is open

	relays      list[relay]         // that it wants an answer to
	legsOut     list[relayLeg]      // of relays, that it has not answered
	legsBlocked list[relayLeg]      // those of them that wait until it can take more
	relayed     int                 // what those that it has not answered cost
	assemblies  map[uint32]assembly // relays of its that have not come whole
	assembling  int                 // what they cost
	seats       peerSeats           // what it has been told of groups, and has told

	first, firstDue       int        // records of its first table: come so far, and announced
	promised, promisedDue int        // claims whose fate was to follow: known so far, and announced
	told                  bool       // its first table is complete
	synced                bool       // and what was to follow has come
	syncBy                clock.Time // when sends to unknown names do not wait for that any more
	gatherBy              clock.Time // when claims do not wait for its table; 0 until that is timed
}

// remote finds what we know of a process of the peer.
func (pr *peer) remote(k remoteKey) *remote {
	r := pr.remotes[k]
	if r == nil {
		r = &remote{key: k}
		pr.remotes[k] = r
	}
	return r
}

// nodeTable is the NIC table (QNIX-52): every NIC of the fabric that this one knows.
type nodeTable struct {
	list []*peer
	byID map[uint64]*peer
}

func (t *nodeTable) init() { t.byID = make(map[uint64]*peer) }

// mayKnowMore reports whether there is a NIC whose names have not all been told yet.
func (t *nodeTable) mayKnowMore(now clock.Time) bool {
	return slices.ContainsFunc(t.list, func(pr *peer) bool { return !pr.synced && !pr.failed && now < pr.syncBy })
}

// NodeInfo is what tools are told about another NIC.
type NodeInfo struct {
	ID          uint64 // 0 if it has never answered
	Incarnation uint64
	Addr        link.Addr
	Up          bool
	Processes   int
	RTTNanos    int64
	Frame       int // bytes of the longest frame that is known to reach it; 0 if it is down
	WholeFrame  int // bytes of the longest that both NICs take
	Narrow      int // Frame, if the path was found to carry no more; else 0
	Position    Position
	Check       rel.CheckStatus // how the last connectivity check stands (USNIC-61)
	CheckText   string          // why it failed
}

// Nodes lists the other NICs in the order in which this one got to know them.
func (e *Engine) Nodes() []NodeInfo {
	var l []NodeInfo
	for _, pr := range e.nodes.list {
		n := NodeInfo{ID: pr.nic, Incarnation: pr.ep.Incarnation(), Addr: pr.ep.Addr(), Up: pr.ep.Up(), RTTNanos: int64(pr.ep.RTT()), Position: pr.at}
		n.Frame, n.WholeFrame, n.Narrow = pr.ep.FrameLengths()
		n.Check, n.CheckText = pr.ep.CheckResult()
		for _, m := range e.names.all {
			if m.nic == pr.nic && m.live() {
				n.Processes++
			}
		}
		l = append(l, n)
	}
	return l
}

// AddNode says that there is a NIC at addr; id is 0 if that is not known yet. The engine opens a pair with it at once
// and as often as it is lost, since names spread over pairs. A NIC that is up at another address is refused, unless it
// was removed from there before.
func (e *Engine) AddNode(id uint64, addr link.Addr) error {
	e.catchUp() // it may end the session of one that was removed
	pr, err := e.addNode(id, addr)
	if err == nil {
		pr.named = true
	}
	return err
}

func (e *Engine) addNode(id uint64, addr link.Addr) (*peer, error) {
	if id == e.cfg.ID {
		return nil, fmt.Errorf("nic: node %v has this NIC's own id", addr)
	}
	ep, err := e.rel.Open(id, addr)
	if pr := e.peerOf(id); errors.Is(err, rel.ErrAddress) && pr != nil && pr.removed {
		e.forget(pr) // whoever has the session is not whom the registry means by this id
		ep, err = e.rel.Open(id, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("nic: node %v: %w", addr, err)
	}
	pr := e.peers[ep]
	if pr == nil {
		pr = e.newPeer(ep)
	}
	pr.keep()
	pr.added = true
	e.checkAt(0)
	return pr, nil
}

func (e *Engine) newPeer(ep *rel.Endpoint) *peer {
	pr := &peer{ep: ep, nic: ep.NIC(), remotes: make(map[remoteKey]*remote), syncBy: clock.Never}
	pr.holder.v = pr
	e.peers[ep] = pr
	e.nodes.list = append(e.nodes.list, pr)
	if pr.nic != 0 {
		e.nodes.byID[pr.nic], e.lastPeer = pr, nil
	}
	return pr
}

// peerOf finds the peer with an id; nil if there is none.
func (e *Engine) peerOf(nic uint64) *peer {
	if pr := e.lastPeer; pr != nil && pr.nic == nic && nic != 0 { // mostly
		return pr
	}
	return e.nodes.byID[nic]
}

// errRefused are the reasons for which a hello is refused.
var (
	errOwnID   = errors.New("nic: hello with this NIC's own id")
	errUnknown = errors.New("nic: hello of a NIC that is not in the configuration")
	errKnownID = errors.New("nic: hello of a second NIC with a known id")
)

// Admit says whether a NIC that says hello may open a pair with this one (decision 1).
func (h *handler) Admit(_ clockTime, nic uint64, from link.Addr) error {
	e := h.engine()
	if nic == e.cfg.ID {
		return errOwnID
	}
	if e.cfg.Static && !slices.ContainsFunc(e.nodes.list, func(pr *peer) bool { return pr.added && pr.ep.Addr() == from }) {
		return errUnknown
	}
	if pr := e.peerOf(nic); pr != nil && pr.ep.Up() && pr.ep.Addr() != from {
		e.doubt(pr)
		return errKnownID
	}
	return nil
}

// doubt has a peer probed because somebody elsewhere says that he is it: if it does not answer, it has moved, and will be
// admitted at its new address once the old one is given up.
func (e *Engine) doubt(pr *peer) {
	if !pr.doubted {
		pr.doubted = true
		pr.ep.Watch(1)
	}
	pr.doubtedTill = e.now.Add(e.cfg.UnreachableAfter + e.cfg.ProbeEvery)
	e.checkAt(pr.doubtedTill)
}

func (e *Engine) trust(pr *peer) {
	if pr.doubted {
		pr.doubted = false
		pr.ep.Watch(-1)
	}
}

// Up begins a session with a peer: the tables go to it before anything else.
func (h *handler) Up(_ clockTime, ep *rel.Endpoint) {
	e := h.engine()
	pr := e.peers[ep]
	if pr == nil {
		pr = e.newPeer(ep)
	}
	pr.nic = ep.NIC()
	e.nodes.byID[pr.nic], e.lastPeer = pr, nil
	e.names.comes(pr)
	pr.failed, pr.told, pr.synced = false, false, false
	pr.first, pr.firstDue, pr.promised, pr.promisedDue = 0, -1, 0, 0
	pr.retryAt, pr.pause = clock.Never, 0
	pr.syncBy = e.now.Add(e.cfg.UnreachableAfter)
	pr.gatherBy = 0
	e.checkAt(0)
	e.counts[vni.RelUpSessions]++
	e.tellTables(pr)
	e.flushSignals(pr)
	e.unblock(pr)
}

// Down ends a session, or the attempt at one. Whatever needs the peer ends with the reason; what has come whole stays.
func (h *handler) Down(_ clockTime, ep *rel.Endpoint, why error) {
	e := h.engine()
	pr := e.peers[ep]
	if pr == nil {
		return
	}
	e.trust(pr)
	e.lookAway(pr)
	if !pr.failed {
		pr.forgetAt = e.now.Add(e.cfg.FailureTimeout)
		e.checkAt(pr.forgetAt)
	}
	pr.failed, pr.told, pr.synced = true, false, false
	pr.retryAt = e.now.Add(max(pr.pause, limits.HelloEvery))
	status := statusOfDown(why)
	e.countDown(why)
	pr.in.all(func(inb *inbound) { e.loseInbound(inb) }) // first, so that receives go back and end with the others
	e.losePeerRelays(pr)
	for _, p := range e.procs {
		if p != nil {
			e.dropPeer(p, pr, status, why)
		}
	}
	pr.serving.all(func(s *send) { e.endServe(s) })
	clear(pr.remotes)
	e.forgetPeerCredits(pr)
	pr.syncBy = clock.Never
	e.names.lose(e, pr, status == vni.StatusProcessGone)
	e.losePeerSeats(pr, errors.Is(why, rel.ErrGoodbye))
	e.reconsider = true
	e.checkAt(pr.retryAt)
	if pr.removed {
		e.checkAt(0)
	}
}

// dropPeer ends all that a process has under way with a peer.
func (e *Engine) dropPeer(p *process, pr *peer, status vni.Status, why error) {
	knew := false
	for i := range p.sendNumbers() {
		if s := p.sendAt(i); s != nil && s.state != sendIdle && s.dest != nil && s.dest.peer == pr {
			knew = true
			e.stopGet(s)
			e.completeSend(s, status)
		} else if s != nil && s.kind == kindMulticast && s.state != sendIdle {
			lost := e.loseReceivers(s.multi, status, func(d *dest) bool { return d.peer == pr })
			knew = knew || lost
		}
	}
	for k, d := range p.dests { // order does not matter: only deletions
		if d.peer == pr {
			knew = true
			delete(p.dests, k)
			p.lastDest = nil
		}
	}
	for _, src := range sorted(p.sources) {
		if src.key.peer == pr {
			knew = true
			e.endSource(p, src)
		}
	}
	for n := p.stray.head; n != nil; n = n.next { // whole messages stay, but not on the credit of the old session
		n.v.leaveCredit(pr)
	}
	for r := range p.receives { // likewise those that wait for more of their place
		if inb := r.inb; inb != nil {
			inb.leaveCredit(pr)
		}
	}
	e.failReceives(p, status, func(r *receive) bool { return r.watch == pr })
	if knew {
		kind := vni.EventUnreachable
		if errors.Is(why, rel.ErrRestarted) {
			kind = vni.EventRestarted
		}
		e.tell(p, vni.Event{Kind: kind, NIC: pr.nic, Count: p.takeLost()})
	}
}

// leaveCredit has a whole message of a peer take of its receiver's staging what it took of the peer's credit.
func (inb *inbound) leaveCredit(pr *peer) {
	if inb.peer == pr && inb.done && inb.onCredit {
		inb.onCredit, inb.charged = false, int(stagedCost(inb.length))
		inb.src.p.staged += inb.charged
	}
}

// endSource matches what has come whole from a source whose session is over, gaps or not: it may have been reported as
// delivered. The rest will not come.
func (e *Engine) endSource(p *process, src *source) {
	for inb := src.early.front(); inb != nil; inb = src.early.front() {
		inb.node.remove()
		if inb.done {
			e.offer(inb)
		} else {
			e.loseInbound(inb)
		}
	}
	p.forgetSource(src)
}

func (p *process) forgetSource(src *source) {
	delete(p.sources, src.key)
	p.lastSource = nil
	if src.credit != nil {
		src.credit.sources--
	}
}

// loseInbound drops an inbound whose rest will not come. Its receive waits again, for another message.
func (e *Engine) loseInbound(inb *inbound) {
	r := inb.recv
	e.freeInbound(inb)
	if r != nil {
		e.repost(r)
	}
}

// stopGet forgets the inbound of a GET.
func (e *Engine) stopGet(s *send) {
	if s.kind == kindGet && s.inb != nil {
		e.freeInbound(s.inb)
		s.inb = nil
	}
}

// tell gives a process an event, unless it leaves.
func (e *Engine) tell(p *process, ev vni.Event) {
	if p.gone {
		return
	}
	e.counts[vni.NICEvents]++
	p.vni.Event(ev)
	e.ring(p)
}

// checkAt makes expire run at t or earlier.
func (e *Engine) checkAt(t clock.Time) { e.nextCheck = clock.Min(e.nextCheck, t) }

// expire does what has waited for its time: pairs are opened again, names of lost NICs and of gone processes forgotten,
// sends to names looked at again.
func (e *Engine) expire() {
	if e.now >= e.nextCheck {
		e.nextCheck = clock.Never
		for _, pr := range e.nodes.list {
			e.checkSyncBy(pr)
			e.checkGather(pr)
			e.checkDoubt(pr)
			e.checkRetry(pr)
			e.checkLook(pr)
			e.checkForget(pr)
		}
		e.forgetRemoved()
		e.names.expire(e)
		e.bury()
		e.endRecalled()
		e.decide()
	}
	if e.reconsider {
		e.decide()
		e.reconsider = false
		e.resolveWaiting()
	}
}

// checkDoubt trusts a peer again that has answered for long enough.
func (e *Engine) checkDoubt(pr *peer) {
	switch {
	case !pr.doubted:
	case pr.doubtedTill <= e.now:
		e.trust(pr)
	default:
		e.checkAt(pr.doubtedTill)
	}
}

// checkSyncBy has sends to unknown names wait no longer for a peer that keeps its names to itself.
func (e *Engine) checkSyncBy(pr *peer) {
	switch {
	case pr.synced || pr.syncBy == clock.Never:
	case pr.syncBy <= e.now:
		e.reconsider = true
	default:
		e.checkAt(pr.syncBy)
	}
}

// resolveWaiting looks the names of waiting sends up again.
func (e *Engine) resolveWaiting() {
	for n := e.waiting.n; n > 0; n-- {
		s := e.waiting.front()
		s.node.remove()
		e.resolve(s)
	}
}

// sorted returns the sources of a process in a fixed order, so that a run can be replayed.
func sorted(m map[sourceKey]*source) []*source {
	l := make([]*source, 0, len(m))
	for _, s := range m {
		l = append(l, s)
	}
	slices.SortFunc(l, func(a, b *source) int {
		switch {
		case a.nic != b.nic:
			return compare(a.nic, b.nic)
		case a.key.slot != b.key.slot:
			return int(a.key.slot) - int(b.key.slot)
		}
		return compare(uint64(a.key.gen), uint64(b.key.gen))
	})
	return l
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
