package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/registry"
)

// claim is the information of a NIC about itself. It travels as the metadata of its member,
// little-endian:
//
//	 0       1        2      4         12            20
//	├ version ┼ stance ┼ port ┼ NIC id  ┼ incarnation ┼ address ┤
//	    1        1        2       8           8         16 bytes
//
// The address is that of the NIC's link, not of its gossip. IPv4 is written as IPv6,
// ::ffff:10.0.0.2.
type claim struct {
	id          registry.NICID
	incarnation uint64
	addr        netip.AddrPort
	stance      stance
}

// stance is the attitude of a NIC to its own id.
type stance uint8

const (
	starting stance = iota // checks whether another has the id
	claiming               // has it
	refused                // another has it
)

var stances = [...]string{starting: "starting", claiming: "claiming", refused: "refused"}

func (s stance) String() string { return stances[s] }

const (
	claimVersion = 1
	claimLen     = 36
)

var errClaim = errors.New("gossip: bad metadata")

// append adds the claim's bytes to b.
func (c claim) append(b []byte) []byte {
	b = append(b, claimVersion, byte(c.stance))
	b = binary.LittleEndian.AppendUint16(b, c.addr.Port())
	b = binary.LittleEndian.AppendUint64(b, uint64(c.id))
	b = binary.LittleEndian.AppendUint64(b, c.incarnation)
	ip := c.addr.Addr().As16()
	return append(b, ip[:]...)
}

// parseClaim parses a claim. It accepts only the output of append.
func parseClaim(b []byte) (c claim, err error) {
	if len(b) != claimLen {
		return c, fmt.Errorf("%w: %d bytes; expected %d", errClaim, len(b), claimLen)
	}
	if b[0] != claimVersion {
		return c, fmt.Errorf("%w: version %d; expected %d", errClaim, b[0], claimVersion)
	}
	if int(b[1]) >= len(stances) {
		return c, fmt.Errorf("%w: stance %d", errClaim, b[1])
	}
	ip := netip.AddrFrom16([16]byte(b[20:])).Unmap()
	c = claim{
		id:          registry.NICID(binary.LittleEndian.Uint64(b[4:])),
		incarnation: binary.LittleEndian.Uint64(b[12:]),
		addr:        netip.AddrPortFrom(ip, binary.LittleEndian.Uint16(b[2:])),
		stance:      stance(b[1]),
	}
	return c, c.check()
}

// check refuses impossible claims of a NIC.
func (c claim) check() error {
	switch ip := c.addr.Addr(); {
	case c.id == 0:
		return fmt.Errorf("%w: NIC id 0, which is no NIC's", errClaim)
	case c.incarnation == 0:
		return fmt.Errorf("%w: NIC %v has incarnation 0", errClaim, c.id)
	case ip != ip.Unmap() || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || c.addr.Port() == 0:
		return fmt.Errorf("%w: NIC %v at %v, where others cannot reach it", errClaim, c.id, c.addr)
	}
	return nil
}

// less orders claims to one id that met only after they were made: the older life comes first.
func (c claim) less(d claim) bool {
	if c.incarnation != d.incarnation {
		return c.incarnation < d.incarnation
	}
	return c.addr.Compare(d.addr) < 0
}
