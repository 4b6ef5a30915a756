package nic

import (
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The seam between the engine and the name and NIC tables (internal/names).

// ErrNameTaken says that another process has the name of a refused process.
var ErrNameTaken = names.ErrTaken

// ErrSuperseded says that the rank of a refused process has a newer process.
var ErrSuperseded = names.ErrSuperseded

// Belief says which information of other NICs about names and nodes a NIC believes.
type Belief = names.Belief

// NameInfo holds what tools show of a name.
type NameInfo = names.Info

// Lookup returns the address of the process with a name.
func (e *Engine) Lookup(name vni.Name) (vni.Address, bool) { return e.names.Lookup(name) }

// Names returns the processes of the fabric, ordered by name.
func (e *Engine) Names() []NameInfo { return e.names.List() }

// Applications returns the group to which the processes of each application belong without joining
// (QNIX-55): the live, reachable processes, ordered by name.
func (e *Engine) Applications() (l []coll.Group) {
	for _, n := range e.Names() {
		if !n.Reachable {
			continue
		}
		name := n.Name.Application()
		if len(l) == 0 || l[len(l)-1].Name != name {
			l = append(l, coll.Group{Name: name, State: "application"})
		}
		g := &l[len(l)-1]
		g.Members = append(g.Members, coll.Member{Name: n.Name, Address: n.Address})
		g.Size++
	}
	return l
}

// AddNode adds a NIC at addr; id is 0 if it is not known yet. The engine opens a pair with it at
// once, and again each time that the pair is lost, since names spread over pairs. A NIC that is up
// at another address is refused, unless it was removed from there before. The NIC may be at one of
// the other addresses instead; these are tried in turn.
func (e *Engine) AddNode(id uint64, addr link.Addr, others ...link.Addr) error {
	e.begin()
	return e.names.AddNode(id, addr, others...)
}

// RemoveNode removes the NIC with this id, or at addr if id is 0. A NIC that is not up is
// forgotten at the next Poll, with its names and everything that waits for it. A NIC that is up is
// probed as long as it lives; a dead one is forgotten after UnreachableAfter. It is no error if
// the NIC is not known.
func (e *Engine) RemoveNode(id uint64, addr link.Addr) {
	e.begin()
	e.names.RemoveNode(id, addr)
}

// forNames is the engine as internal/names sees it.
type forNames struct{ *services }

func (h forNames) Peer(nic uint64) *names.Peer {
	return part(h.services, nic, func(pr *peer) *names.Peer { return &pr.names })
}

func (h forNames) Open(nic uint64, addr link.Addr) (*names.Peer, error) {
	ep, err := h.rel.Open(nic, addr)
	if err != nil {
		return nil, err
	}
	return &h.engine().peerAt(ep).names, nil
}

// Forget drops a peer that is no longer in any table.
func (h forNames) Forget(p *names.Peer) {
	h.rel.Forget(h.now, p.Endpoint)
	pr := peerWith(p.Endpoint)
	h.publisher.peers.remove(pr)
	h.peers.remove(pr)
}

// Confirmed answers a process's New_Process. Only the driver waits for the answer, so it may come
// in a later poll than the command.
func (h forNames) Confirmed(slot uint16) {
	p := h.engine().process(slot)
	h.engine().answerNew(p, driver.Result{Gen: p.gen})
}

func (h forNames) Refused(slot uint16, why error) { h.engine().vacate(h.engine().process(slot), why) }

// Lost takes its name from a process. From now on all its operations fail with the reason, and an
// event tells it which process has the name.
func (h forNames) Lost(slot uint16, to *names.Entry) {
	e := h.engine()
	p := e.process(slot)
	if !p.served() {
		return
	}
	e.tell(p, vni.Event{Kind: vni.EventNameLost, NIC: to.NIC, Slot: to.Slot, Gen: to.Gen, Name: p.name})
	e.procs.nameless = append(e.procs.nameless, Nameless{p.slot, to.Address})
	p.detached = true
	p.node.remove()
	e.stop(p)
	p.vni.SetGone(vni.StatusNameLost) // from here on it may reuse its memory
	e.ring(p)
}

// Nameless describes a process that has lost its name, and the address of the process that has it.
type Nameless struct {
	Slot  uint16
	Owner vni.Address
}

// TakeNameless returns the processes that have lost their names since the last call, except those
// that the driver has deleted since.
func (e *Engine) TakeNameless() []Nameless {
	e.begin()
	n := e.procs.nameless
	e.procs.nameless = nil
	return n
}

// Named gives the sources at an address their name, and matches the messages that waited for it.
// Receives from the name now depend on the NIC that has it.
func (h forNames) Named(n *names.Entry) {
	h.engine().named(n)
	h.engine().rewatch(n.Name)
}

func (h forNames) Gone(n *names.Entry, named bool) {
	h.engine().processGone(n.Address, n.Name, named)
	h.engine().rewatch(n.Name)
}

// Forgotten drops the state of a sender that ended long ago from all processes of this NIC.
func (h forNames) Forgotten(a vni.Address) {
	pr := h.engine().peerOf(a.NIC)
	for p := range h.procs.all {
		if src := p.sources[sourceKey{pr, a.Slot, a.Gen}]; src != nil && src.early.n == 0 {
			p.forgetSource(src)
		}
	}
}

// rewatch makes receives and probes from a name depend on the NIC that has it now.
func (e *Engine) rewatch(name vni.Name) {
	for p := range e.procs.all {
		for r := range p.unmatched {
			if !r.exact && r.sender == name {
				e.watchSender(r)
			}
		}
	}
}

// tableRecord handles a Table record of a peer.
func (e *Engine) tableRecord(pr *peer, b []byte) {
	e.counts[vni.NICNameUpdatesReceived]++
	switch {
	case len(b) > 0 && (b[0] == wire.TableJoin || b[0] == wire.TableLeave):
		e.groups.News(&pr.groups, b)
	case len(b) > 0 && b[0] == wire.TableProgram:
		if !e.programs.Take(&pr.programs, b) {
			e.counts[vni.DropFormat]++
		}
	case len(b) > 0 && b[0] == wire.TableRevocation:
		if !e.takePiece(pr, b) {
			e.counts[vni.DropFormat]++
		}
	case !e.names.Take(&pr.names, b):
		e.counts[vni.DropFormat]++
	}
}

// awaitName makes a send wait for a name that is unknown here but may still be announced. It
// returns false if there is nothing to wait for.
func (e *Engine) awaitName(s *send) bool {
	herald, due := e.names.Due(s.name)
	if !due && s.kind != kindResolve {
		return false
	}
	s.watch.On(herald)
	s.state = sendUnresolved
	e.waiting.pushBack(&s.node)
	return true
}

// resolveWaiting looks up the names of the waiting sends again.
func (e *Engine) resolveWaiting() {
	for n := e.waiting.n; n > 0; n-- {
		s := e.waiting.front()
		s.node.remove()
		e.resolve(s)
	}
}
