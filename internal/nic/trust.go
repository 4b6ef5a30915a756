package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
)

// wallSeconds returns the time of day in Unix seconds.
func (e *Engine) wallSeconds(now clock.Time) int64 { return e.cfg.WallSeconds(now) }

// Vouch returns nil if a NIC has proved its id, else the reason why not (rel.Handler).
func (h *handler) Vouch(now clock.Time, nic uint64, from link.Addr, key trust.PublicKey, certificate []byte) error {
	_, err := h.cfg.Trust.Check(nicid.ID(nic), key, certificate, h.engine().wallSeconds(now))
	if err != nil {
		h.peers.news.refuse(now, nic, from, err)
	}
	return err
}

// Stranger notes frames that do not belong to this fabric, or to this kind of link (rel.Handler).
func (h *handler) Stranger(now clock.Time, from link.Addr, why error) {
	h.peers.news.refuse(now, 0, from, why)
}

// PlainPrograms reports whether datagrams for programs may go unsealed: the link is plain, or
// rel.Security.PlainResident says so.
func (e *Engine) PlainPrograms() bool {
	e.begin()
	return e.cfg.Security == nil || e.cfg.Security.PlainResident
}

// provedBy returns what a peer has proved in the session that opens.
func (e *Engine) provedBy(ep *rel.Endpoint) trust.Peer {
	key, certificate, ok := ep.Key()
	if !ok || e.cfg.Trust == nil {
		return trust.Peer{}
	}
	peer, err := e.cfg.Trust.Check(nicid.ID(ep.NIC()), key, certificate, e.wallSeconds(e.now))
	if err != nil { // it expired between two looks at the clock: the next rekey ends the session
		return trust.Peer{}
	}
	return peer
}

// Allows reports whether a NIC has a role here, for one of its users that it names. NICs of a
// private link have all roles. On another plain link no NIC has proved anything, and every NIC has
// only the role observe: anyone who reaches such a link sees everything in any case.
func (e *Engine) Allows(nic uint64, role trust.Role, user string) bool {
	e.begin()
	pr := e.peerOf(nic)
	switch {
	case pr == nil || !pr.ep.Up():
		return false
	case e.cfg.Private:
		return true
	case e.cfg.Security == nil:
		return role == trust.Observe
	}
	return pr.proved.NIC != 0 && e.cfg.Trust.Allows(pr.proved, role, user)
}

// ControlRefused counts a request of another NIC that lacks a role for it.
func (e *Engine) ControlRefused() { e.countControl(vni.NICControlRefused) }

// ControlDropped counts a request of another NIC that the NIC's owner has dropped.
func (e *Engine) ControlDropped() { e.countControl(vni.NICControlDropped) }

// SegmentRefused counts a request of a tool about a segment that the NIC's owner has refused.
func (e *Engine) SegmentRefused() { e.countControl(vni.NICSegmentsRefused) }

func (e *Engine) countControl(c vni.Counter) {
	e.begin()
	e.counts[c]++
	e.publisher.changed = true
}

// Bind ties the id of a NIC to its static key, and makes the first handshake with it shorter. On a
// plain link it does nothing.
func (e *Engine) Bind(nic uint64, key trust.PublicKey) error {
	e.begin()
	if e.cfg.Trust == nil {
		return nil
	}
	if key.ID() != nicid.ID(nic) {
		if err := e.cfg.Trust.Bind(nicid.ID(nic), key); err != nil {
			return err
		}
	}
	if ep := e.rel.Endpoint(nic); ep != nil {
		ep.Know(key)
	}
	return nil
}

// belief returns Config.Belief with the defaults of a sealed link: the peers are proven holders of
// the fabric key, so they vouch for nodes, and their certificates say which names their processes
// may have.
func (e *Engine) belief() Belief {
	b := e.cfg.Belief
	if e.cfg.Security != nil {
		b.HearsayFromPeers = true
		if b.MayClaim == nil {
			b.MayClaim = e.mayClaim
		}
	}
	return b
}

// mayClaim reports whether the certificate of a NIC, this one or a peer, allows names of an
// application.
func (e *Engine) mayClaim(nic uint64, application string) bool {
	if nic != e.cfg.ID {
		pr := e.peerOf(nic)
		return pr != nil && pr.proved.NIC != 0 && e.cfg.Trust.AllowsName(pr.proved, application)
	}
	c, err := e.cfg.Trust.CheckOwn(e.cfg.Security.Certificate, e.wallSeconds(e.now))
	return err == nil && e.cfg.Trust.AllowsName(trust.Peer{NIC: nicid.ID(nic), Certificate: c}, application)
}
