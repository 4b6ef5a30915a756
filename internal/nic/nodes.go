package nic

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/relay"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Position is the position of a NIC on the torus of the fabric, if there is one (QNIX-52).
type Position = wire.Position

// peer is the state of another NIC as this one deals with it: all that is in flight to it and from
// it.
type peer struct {
	ep    *rel.Endpoint
	row   int    // in the table of peers that tools map
	nic   uint64 // 0 until its first hello
	names names.Peer
	// Why the last session or the last attempt ended; nil during a session, and before the first.
	ended error
	wasUp bool // the last one was a session

	badList bool // in this session it has sent a revocation list that no authority has signed

	granted    uint64     // bytes that are permitted to it and have not arrived
	writtenOff uint64     // permitted bytes that are no longer waited for
	writeOffs  uint32     // times that bytes were written off
	progressAt clock.Time // when such bytes last arrived, or when it first had any
	holder     node[peer] // in granter.holders

	blocked  list[send]            // sends that wait until the peer can take more
	remotes  map[remoteKey]*remote // its processes that ours send to
	out      fragTable[send]       // our fragments to it, by our ids
	in       fragTable[inbound]    // its fragments to us, by its ids
	gets     fragTable[inbound]    // our GETs from it, by our ids
	serving  fragTable[send]       // its GETs from us, by its ids
	groups   coll.Peer
	relays   relay.Peer
	programs program.Peer

	proved trust.Peer // what it has proved in its last session; zero on a plain link

	givenUp int // calls of its processes noted as given up, over all processes here
}

// remote returns what we know of a process of the peer.
func (pr *peer) remote(k remoteKey) *remote {
	r := pr.remotes[k]
	if r == nil {
		r = &remote{key: k}
		pr.remotes[k] = r
	}
	return r
}

// peerTable holds the NICs of the fabric that this one knows.
type peerTable struct {
	// In the order in which they became known. Each owns its endpoint, by which rel knows it.
	list []*peer
	// The peer of the last record, which most often sends the next too; nil: not known.
	last      *peer
	datagrams []DatagramService // by service, nil if not claimed
	news      peerNews
	lists     revocations // of certificates
}

// remove undoes peerAt.
func (t *peerTable) remove(pr *peer) {
	t.news.changes++
	pr.ep.Owner = nil
	t.list = slices.DeleteFunc(t.list, func(other *peer) bool { return other == pr })
	t.last = nil
}

// NodeInfo holds what tools show of another NIC.
type NodeInfo struct {
	ID          uint64 // 0 if it has never answered
	Incarnation uint64
	Addr        link.Addr
	Up          bool
	// Why it is not up, an error of package rel; nil: it is up, or has not been tried for long
	// enough.
	Ended      error
	Processes  int
	RTTNanos   int64
	Frame      int // bytes of the longest frame known to reach it; 0 if it is down
	WholeFrame int // bytes of the longest frame that both NICs take
	Narrow     int // equal to Frame if the path was found to carry no more; else 0
	Position   Position
	Key        trust.PublicKey // proved in its session; zero if it is down, and on a plain link
	Binding    trust.Binding   // the proof that its id belongs to Key
	Suite      string          // the AEAD of its frames; empty if they are plain, or it is down
	Check      rel.CheckStatus // state of the last connectivity check (USNIC-61)
	CheckText  string          // why it failed
	// Address from which frames of its last session came that were dropped, because the NIC is
	// called at Addr.
	Elsewhere link.Addr
	// Further addresses of its host at which it has not answered since it was last up.
	NoAnswerAt string
}

// Nodes returns the other NICs in the order in which this one got to know them.
func (e *Engine) Nodes() []NodeInfo {
	e.begin()
	var l []NodeInfo
	for _, pr := range e.peers.list {
		n := NodeInfo{ID: pr.nic, Incarnation: pr.ep.Incarnation(), Addr: pr.ep.Addr(), Up: pr.ep.Up(),
			Ended: pr.ended, RTTNanos: int64(pr.ep.RTT()), Position: pr.names.Position}
		n.Frame, n.WholeFrame, n.Narrow = pr.ep.FrameLengths()
		n.Check, n.CheckText = pr.ep.CheckResult()
		n.Elsewhere, n.NoAnswerAt = pr.ep.Elsewhere(), pr.names.NoAnswerAt()
		if n.Up && pr.proved.NIC != 0 {
			n.Key, n.Binding, n.Suite = pr.proved.Key, pr.proved.Binding(), pr.ep.Suite()
		}
		n.Processes = e.names.Processes(&pr.names)
		l = append(l, n)
	}
	return l
}

// peerWith returns the peer with an endpoint, or nil.
func peerWith(ep *rel.Endpoint) *peer {
	pr, _ := ep.Owner.(*peer)
	return pr
}

// peerAt returns the peer with an endpoint. It makes a new one if a NIC is added or says hello.
func (e *Engine) peerAt(ep *rel.Endpoint) *peer {
	pr := peerWith(ep)
	if pr == nil {
		pr = &peer{ep: ep, nic: ep.NIC(), groups: coll.Peer{Endpoint: ep}, relays: relay.Peer{Endpoint: ep},
			programs: program.Peer{Endpoint: ep}, remotes: make(map[remoteKey]*remote)}
		pr.holder.v = pr
		ep.Owner = pr
		e.peers.list, e.peers.last = append(e.peers.list, pr), nil
		e.publisher.peers.add(pr)
		e.names.Add(&pr.names, ep)
	}
	return pr
}

// peerOf returns the peer with an id, or nil.
func (e *Engine) peerOf(nic uint64) *peer {
	if pr := e.peers.last; pr != nil && pr.nic == nic && nic != 0 { // in most cases
		return pr
	}
	if ep := e.rel.Endpoint(nic); ep != nil {
		return peerWith(ep)
	}
	return nil
}

// Admit returns nil if a NIC that says hello may open a pair with this one (decision 1), else the
// reason why not.
func (h *handler) Admit(now clock.Time, nic uint64, from link.Addr) error {
	err := h.names.Admit(nic, from)
	if h.cfg.Security != nil && errors.Is(err, names.ErrKnownID) {
		// The handshake proves who owns the id, and of two lives of one NIC the later one counts.
		return nil
	}
	if err != nil {
		h.peers.news.refuse(now, nic, from, err)
	}
	return err
}

// MakeRoom forgets a peer that is not in the configuration and not up, so that another NIC gets
// its place.
func (h *handler) MakeRoom() bool { return h.names.MakeRoom() }

// Outdated notes a NIC that is refused because it had a larger incarnation before.
func (h *handler) Outdated(now clock.Time, nic uint64, from link.Addr) {
	h.peers.news.refuse(now, nic, from, rel.ErrOutdated)
}

// Up begins a session with a peer. The tables are sent to it before anything else.
func (h *handler) Up(_ clock.Time, ep *rel.Endpoint) {
	e := h.engine()
	pr := e.peerAt(ep)
	pr.nic, e.peers.last = ep.NIC(), nil
	pr.proved = e.provedBy(ep)
	e.peers.news.up(pr)
	e.counts[vni.RelUpSessions]++
	e.names.Up(&pr.names)
	e.groups.Up(&pr.groups)
	e.programs.Up(&pr.programs)
	e.sendLists(pr)
	e.unblock(pr)
}

// Down ends a session, or the attempt at one. Operations that need the peer end with the reason;
// accepted messages stay. The processes are told before any data of a next session can arrive.
func (h *handler) Down(_ clock.Time, ep *rel.Endpoint, why error) {
	e := h.engine()
	pr := peerWith(ep)
	if pr == nil {
		return
	}
	end := sessionEndOf(why)
	e.peers.news.down(pr, why)
	e.counts[end.counter]++
	// First, so that receives go back and end with the others.
	pr.in.all(func(inb *inbound) { e.loseInbound(inb) })
	e.relays.Down(&pr.relays)
	e.programs.Down(&pr.programs, end.status)
	for p := range e.procs.all {
		e.dropPeer(p, pr, end)
	}
	pr.serving.all(func(s *send) { e.endServe(s) })
	clear(pr.remotes)
	e.forgetPeerCredits(pr)
	e.names.Down(&pr.names, end.status == vni.StatusProcessGone)
	if other := (*rel.OtherNICError)(nil); errors.As(why, &other) {
		e.names.Other(&pr.names, other.NIC)
	}
	e.groups.Down(&pr.groups, errors.Is(why, rel.ErrGoodbye))
	e.forgetLists(pr)
}

// dropPeer ends all operations of a process with a peer.
func (e *Engine) dropPeer(p *process, pr *peer, end sessionEnd) {
	knew, doubtful := p.heardOf(pr) && e.cfg.Defect != mutate.EndUntold, p.inDoubt(pr)
	for s := range p.underWay {
		if s.dest != nil && s.dest.peer == pr {
			knew = true
			e.stopGet(s)
			e.completeSend(s, end.status)
		} else if s.kind == kindMulticast {
			lost := e.loseReceivers(s.multi, end.status, func(d *dest) bool { return d.peer == pr })
			knew = knew || lost
		}
	}
	for _, d := range p.dests { // order does not matter: only deletions
		if d.peer == pr {
			knew = true
			e.forgetDest(p, d)
		}
	}
	for _, src := range sorted(p.sources) {
		if src.key.peer == pr {
			e.endSource(p, src)
		}
	}
	for inb := range p.stray.all { // whole messages stay, but not on the credit of the old session
		inb.leaveCredit(pr)
	}
	for r := range p.receives { // so do those that wait for more room in their stretch
		if inb := r.inb; inb != nil {
			inb.leaveCredit(pr)
		}
	}
	for r := range p.unmatched {
		if r.watch.Of(pr.ep) { // it depends on the peer
			e.orphanReceive(r, end.status)
		}
	}
	if knew {
		e.tell(p, vni.Event{Kind: end.event, NIC: pr.nic, Count: doubtful})
	}
}

// leaveCredit moves the cost of a peer's whole message from the peer's credit to its receiver's
// staging.
func (inb *inbound) leaveCredit(pr *peer) {
	if inb.peer == pr && inb.done && inb.onCredit {
		inb.onCredit, inb.charged = false, int(stagedCost(inb.length))
		inb.src.p.staged += inb.charged
	}
}

// endSource forgets a source whose session is over, with all its parked messages: the message
// before them will not come (decision 6).
func (e *Engine) endSource(p *process, src *source) {
	for inb := src.early.front(); inb != nil; inb = src.early.front() {
		if inb.done && e.cfg.Defect == mutate.ParkedDelivered {
			inb.node.remove()
			e.offer(inb)
			continue
		}
		e.freeInbound(inb)
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

// loseInbound drops an inbound whose rest will not come. Its receive waits again, for another
// message.
func (e *Engine) loseInbound(inb *inbound) {
	r := inb.recv
	e.freeInbound(inb)
	if r != nil {
		e.repost(r)
	}
}

// CheckAll begins a connectivity check of every node (USNIC-61), even if its id is not known yet.
// It opens a session first if there is none. Nodes returns the state of each check. A check ends
// within limits.CheckTries probes, or when the node is given up.
func (e *Engine) CheckAll(now clock.Time) {
	e.begin()
	for _, pr := range e.peers.list {
		pr.ep.Check(now)
	}
}

// stopGet forgets the inbound of a GET.
func (e *Engine) stopGet(s *send) {
	if s.kind == kindGet && s.inb != nil {
		e.freeInbound(s.inb)
		s.inb = nil
	}
}

// tell gives a process an event, unless the process is leaving.
func (e *Engine) tell(p *process, ev vni.Event) {
	if p.gone {
		return
	}
	e.counts[vni.NICEvents]++
	p.vni.Event(ev)
	e.ring(p)
}

// expire serves everything that has waited for its time, or for a name.
func (e *Engine) expire() {
	if e.expiry.due(e.now) {
		e.names.Expire()
		e.programs.Expire()
		e.endDelays()
		e.bury()
		e.endRecalled()
		e.endAwaited()
		e.recallLate()
		e.enforce()
	}
	if e.names.Settle() {
		e.resolveWaiting()
	}
}

// sorted returns the sources of a process in a fixed order, so that a run can be replayed.
func sorted(m map[sourceKey]*source) []*source {
	return slices.SortedFunc(maps.Values(m), func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.nic, b.nic), cmp.Compare(a.key.slot, b.key.slot), cmp.Compare(a.key.gen, b.key.gen))
	})
}
