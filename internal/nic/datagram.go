package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// Datagrams between NICs are for services of the engine that can do without what may as well be lost. Each datagram says which service
// it is for, and a service has those that it claims.

// DatagramService takes a datagram of a peer; the payload is valid during the call.
type DatagramService func(now clock.Time, nic uint64, payload []byte)

// ClaimDatagrams has take take what peers send to a service from now on. Datagrams to a service that has no claim are counted and dropped.
func (e *Engine) ClaimDatagrams(service uint8, take DatagramService) {
	e.begin()
	if more := int(service) + 1 - len(e.peers.datagrams); more > 0 {
		e.peers.datagrams = append(e.peers.datagrams, make([]DatagramService, more)...)
	}
	if e.peers.datagrams[service] != nil {
		panic(fmt.Sprintf("nic: the datagrams of service %d are claimed twice", service))
	}
	e.peers.datagrams[service] = take
}

// Datagram returns room for a datagram of n bytes to a service of a NIC, which is written at once and leaves with the next Poll. It
// returns nil if it cannot leave: the NIC is not known or not up, n is too long, or too many wait.
func (e *Engine) Datagram(nic uint64, service uint8, n int) []byte {
	e.begin()
	ep := e.rel.Endpoint(nic)
	if ep == nil || e.closed {
		return nil
	}
	return ep.Datagram(service, n)
}

// Datagram takes a datagram of a peer.
func (h *handler) Datagram(now clock.Time, ep *rel.Endpoint, service uint8, payload []byte) {
	e := h.engine()
	if int(service) < len(e.peers.datagrams) && e.peers.datagrams[service] != nil {
		e.peers.datagrams[service](now, ep.NIC(), payload)
		return
	}
	e.counts[vni.NICDatagramsUnclaimed]++
}
