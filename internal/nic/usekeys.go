package nic

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

// UseKeys replaces the fabric keys and this NIC's certificate; nil: none. The NIC calls other NICs
// with the first key. Open sessions stay. It fails without a change if there are too few or
// too many keys, or if the certificate is too long for the frames of the link. On a plain link it
// does nothing.
func (e *Engine) UseKeys(now clock.Time, fabric []trust.FabricKey, certificate []byte) error {
	e.begin()
	if e.cfg.Security == nil {
		return nil
	}
	if _, err := trust.NewFabric(fabric...); err != nil {
		return err
	}
	next := *e.cfg.Security
	next.Fabric, next.Certificate = slices.Clone(fabric), bytes.Clone(certificate)
	if mtu := e.cfg.Link.MTU(); mtu < next.LeastMTU() {
		return fmt.Errorf("nic: frames of %d bytes carry no handshake with a certificate of %d bytes; "+
			"expected an MTU of at least %d: sign a shorter certificate", mtu, len(certificate), next.LeastMTU())
	}
	e.cfg.Security = &next
	e.rel.UseKeys(now, fabric, certificate)
	return nil
}

// Retrust replaces the ids that the configuration ties to keys, and the grants. Sessions with peers
// whose id is no longer tied to their key end at the next poll. On a plain link it does nothing.
func (e *Engine) Retrust(bound map[nicid.ID]trust.PublicKey, grants map[nicid.ID]trust.Roles) error {
	e.begin()
	if e.cfg.Trust == nil {
		return nil
	}
	if err := e.cfg.Trust.Replace(bound, grants); err != nil {
		return err
	}
	e.peers.lists.recheck = true
	e.expiry.at(e.now)
	return nil
}
