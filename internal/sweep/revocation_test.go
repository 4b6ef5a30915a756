package sweep

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// certified is a fabric whose NICs have certificates from one authority. The serial number of
// host i is i+1.
type certified struct {
	t  *testing.T
	f  *sim.Fabric
	ca trust.CAKey
}

func newCertified(t *testing.T, nics int, seed uint64, peers func(a, b int) bool) *certified {
	c := &certified{t: t, ca: trust.CAKey{'a', 'u', 't', 'h', 'o', 'r', 'i', 't', 'y'}}
	h := simulated.Hooks{Sealed: true, Peers: peers}
	h.Security = func(host int, s *rel.Security) {
		cert := &trust.Certificate{Serial: uint64(host) + 1, NIC: nicid.ID(nicID(host)), Key: s.Key.Public(), NotAfter: 1 << 40}
		if err := cert.Sign(c.ca.Private()); err != nil {
			t.Fatal(err)
		}
		s.Certificate = cert.Append(nil)
	}
	h.Trust = func(_ int, p *trust.PolicyConfig) { p.Authorities = []trust.CAPublic{c.ca.Public()} }
	c.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: nics}, h))
	return c
}

// revoke gives one host a list that revokes certificates.
func (c *certified) revoke(host int, number uint64, serials ...uint64) {
	c.t.Helper()
	l := &trust.RevocationList{Number: number, Serials: serials}
	if err := l.Sign(c.ca.Private()); err != nil {
		c.t.Fatal(err)
	}
	if newer, err := simulated.Engine(c.f, host).Revoke(l.Append(nil)); !newer || err != nil {
		c.t.Fatalf("list %d is new: %v, %v", number, newer, err)
	}
	simulated.Turn(c.f, host)
}

func (c *certified) settle(d time.Duration) {
	c.t.Helper()
	if err := c.f.Settle(d); err != nil {
		c.t.Fatal(err)
	}
}

// up reports whether host a has a session with host b.
func (c *certified) up(a, b int) bool {
	for _, n := range simulated.Engine(c.f, a).Nodes() {
		if n.ID == nicID(b) {
			return n.Up
		}
	}
	return false
}

// The hosts 0 to 4 form a chain, and host 5 knows them all. Only host 0 gets the list.
func TestARevocationListReachesAllNICsAndEndsTheSessionsOfTheRevokedOne(t *testing.T) {
	const last, revoked = 4, 5
	c := newCertified(t, 6, 1, func(a, b int) bool { return a == revoked || b == revoked || a-b == 1 || b-a == 1 })
	c.settle(3 * time.Second)
	for host := range last + 1 {
		if !c.up(host, revoked) || host > 0 && !c.up(host, host-1) {
			t.Fatalf("host %d has not its sessions", host)
		}
	}
	many := make([]uint64, 0, 1900) // so that the list has nearly its maximum length
	for i := range cap(many) {
		many = append(many, uint64(1000+i))
	}
	c.revoke(0, 7, append(many, revoked+1)...)
	c.settle(3 * time.Second)
	for host := range last + 1 {
		e := simulated.Engine(c.f, host)
		if lists, changes := e.Revocations(); len(lists) != 1 || changes != 1 {
			t.Errorf("host %d has %d lists after %d changes", host, len(lists), changes)
		}
		if c.up(host, revoked) {
			t.Errorf("host %d still has a session with the revoked NIC", host)
		}
		if host > 0 && !c.up(host, host-1) {
			t.Errorf("host %d has lost its session with host %d", host, host-1)
		}
	}
	c.settle(5 * time.Second) // meanwhile the revoked NIC calls again
	for host := range last + 1 {
		if c.up(host, revoked) {
			t.Errorf("host %d has let the revoked NIC in again", host)
		}
	}
	before := simulated.Engine(c.f, last).Count(vni.NICRevocations)
	c.revoke(2, 9)
	c.settle(5 * time.Second)
	if n := simulated.Engine(c.f, last).Count(vni.NICRevocations); n != before+1 {
		t.Errorf("a newer list from the middle of the chain was taken %d times at its end", n-before)
	}
}
