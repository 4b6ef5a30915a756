package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// Datagrams between NICs are for services of the engine that tolerate loss. Each datagram names
// its service, and a service gets the datagrams that it has claimed.

// DatagramService handles a datagram of a peer. The payload is valid during the call.
type DatagramService func(now clock.Time, nic uint64, payload []byte)

// ClaimDatagrams registers take for a service's datagrams. The engine counts and drops datagrams
// to a service without a claim.
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

// Datagram returns room for a datagram of n bytes to a service of a NIC. The caller writes it at
// once, and it leaves with the next Poll. Datagram returns nil if the NIC is not known or not up,
// n is too long, or too many datagrams wait.
func (e *Engine) Datagram(nic uint64, service uint8, n int) []byte {
	e.begin()
	ep := e.rel.Endpoint(nic)
	if ep == nil || e.closed {
		return nil
	}
	return ep.Datagram(service, n)
}

// Datagram passes a datagram of a peer to its service.
func (h *handler) Datagram(now clock.Time, ep *rel.Endpoint, service uint8, payload []byte) {
	e := h.engine()
	if int(service) < len(e.peers.datagrams) && e.peers.datagrams[service] != nil {
		e.peers.datagrams[service](now, ep.NIC(), payload)
		return
	}
	e.counts[vni.NICDatagramsUnclaimed]++
}
