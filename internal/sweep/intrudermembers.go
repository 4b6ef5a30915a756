package sweep

import (
	"context"
	"crypto/ed25519"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/sim"
)

// fault is the fault in the keys of the member of an attacked fabric.
type fault uint8

const (
	otherFabric    fault = iota // it has another fabric key
	otherKey                    // its static key does not belong to its id
	expired                     // its certificate has expired
	notYetValid                 // its certificate is not valid yet
	otherAuthority              // its certificate comes from another authority
	uncertified                 // it has no certificate
	revoked                     // its certificate is revoked while it has sessions
	expires                     // its certificate expires while it has sessions
	memberFaults
)

func (k fault) String() string {
	return [...]string{"another fabric key", "another static key", "an expired certificate",
		"a certificate that is not yet valid", "a certificate of another authority", "no certificate",
		"a certificate that is revoked", "a certificate that expires"}[k]
}

// later reports whether the member is trusted at first.
func (k fault) later() bool { return k == revoked || k == expires }

// members gives the NICs of an attacked fabric their keys and certificates.
type members struct {
	x        *intruder
	fault    fault
	knows    bool // the configurations of honest NICs include the member
	ca       trust.CAKey
	policies [intruderHonest]*trust.Policy
	lists    [][]byte      // revocation lists: none, or one that revokes the member's certificate
	sent     int           // messages of the member that were received while it was trusted
	endsAt   time.Duration // time by which no honest NIC has a session with it; 0: not known yet
}

// intruderFabric is the fabric key of attacked fabrics.
var intruderFabric = trust.FabricKey{'a', 'n', ' ', 'a', 't', 't', 'a', 'c', 'k', 'e', 'd', ' ', 'f', 'a', 'b', 'r',
	'i', 'c'}

// simulationBegins is the time at which every simulated fabric begins, in Unix seconds.
var simulationBegins = time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()

func newMembers(x *intruder) *members {
	m := &members{x: x, fault: fault(x.seed % uint64(memberFaults))}
	m.knows = x.rng.IntN(4) > 0 || m.fault.later() // the honest NICs admit no others
	copy(m.ca[:], "the authority of an attacked fabric")
	return m
}

// know reports whether NIC a knows NIC b from its configuration. Attackers are in no
// configuration.
func (m *members) know(a, b int) bool {
	if a >= hostThief || b >= hostThief {
		return false
	}
	return b != hostMember || m.knows
}

// certified reports whether NICs require certificates.
func (m *members) certified() bool { return m.fault >= expired }

// security gives a NIC its keys.
func (m *members) security(host int, s *rel.Security) {
	x := m.x
	s.Key, s.Fabric, s.Pace = x.keys[host], []trust.FabricKey{intruderFabric}, intruderPace
	s.NoAES = x.seed%16 == 5 && host == 1
	if host < intruderHonest {
		s.Witness = x.watch.witness
	}
	if host == hostMember {
		switch m.fault {
		case otherFabric:
			s.Fabric = []trust.FabricKey{{'a', 'n', 'o', 't', 'h', 'e', 'r'}}
		case otherKey:
			s.Key[31] ^= 1
		}
	}
	if m.certified() {
		s.Certificate = m.certificate(host)
	}
}

// certificate returns the certificate of a NIC, or nil if it has none.
func (m *members) certificate(host int) []byte {
	c := trust.Certificate{
		Serial: uint64(host + 1), NIC: nicid.ID(m.x.ids[host]), Key: m.x.keys[host].Public(),
		NotBefore: simulationBegins - 1000, NotAfter: simulationBegins + 1000, Applications: []string{"*"},
	}
	ca := m.ca
	if host == hostMember {
		switch m.fault {
		case expired:
			c.NotAfter = simulationBegins
		case notYetValid:
			c.NotBefore = simulationBegins + 500
		case otherAuthority:
			ca[31] ^= 1
		case uncertified:
			return nil
		case expires:
			c.NotAfter = simulationBegins + 1
		}
	}
	if err := c.Sign(ca.Private()); err != nil {
		panic(err)
	}
	return c.Append(nil)
}

// trusts configures the trust of a NIC.
func (m *members) trusts(host int, c *trust.PolicyConfig) {
	c.Key, c.Bound = m.x.keys[host].Public(), nil
	if host == hostMember && m.fault == otherKey {
		return // its own trust does not matter
	}
	if m.certified() {
		c.Authorities, c.Revocations = []trust.CAPublic{m.ca.Public()}, m.lists
	}
}

func (m *members) policy(host int, p *trust.Policy) {
	if host < intruderHonest {
		m.policies[host] = p
	}
}

// begin starts the member's process.
func (m *members) begin() {
	x := m.x
	if m.fault.later() {
		x.attacks.Revoked++
	} else {
		x.attacks.Untrusted++
	}
	x.f.Serve(hostMember, "member/0", m.main)
}

// begins returns the time at which the work begins.
func (m *members) begins() time.Duration {
	if m.fault == expires {
		// After a few lost handshakes there is still time for a message.
		return time.Second - 250*time.Millisecond
	}
	return 0
}

// main repeatedly sends to the honest processes.
func (m *members) main(p *sim.Process) error {
	x := m.x
	p.Runtime().Sleep(context.Background(), m.begins())
	for n := 0; !x.honest.over; n++ {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 10*time.Millisecond)
		if err := p.Peer(honestName(n%2)).SendDelivered(ctx, memberTag, saneMessage(9, 9, n%3)); err == nil {
			m.sent++
		}
		cancel()
		if m.fault == revoked && m.sent >= 20 && m.endsAt == 0 && !x.honest.over {
			m.revoke()
		}
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	return nil
}

const memberTag weft.Tag = 77

// revoke spreads a revocation list with the member's certificate.
func (m *members) revoke() {
	l := trust.RevocationList{Number: 1, Serials: []uint64{hostMember + 1}}
	if err := l.Sign(ed25519.PrivateKey(m.ca.Private())); err != nil {
		panic(err)
	}
	m.lists = [][]byte{l.Append(nil)}
	for host, p := range m.policies {
		if newer, err := p.Revoke(m.lists[0]); !newer || err != nil {
			m.x.violate("NIC %d does not take a revocation list: %v", host, err)
		}
	}
	m.endsAt = m.x.f.Elapsed() + memberPatience
}

// memberPatience is the time within which a session of a member that is no longer trusted ends:
// at the next phase, whose probe may be lost a few times.
const memberPatience = intruderUnreachable

// trusted reports whether honest NICs may have sessions with the member now.
func (m *members) trusted() bool {
	switch {
	case !m.fault.later():
		return false
	case m.fault == expires && m.endsAt == 0:
		m.endsAt = time.Second + memberPatience
	}
	return m.endsAt == 0 || m.x.f.Elapsed() < m.endsAt
}

// check reports a session of a NIC with the member that must not exist.
func (m *members) check(host int, e *nic.Engine) {
	// The member sends to NICs 0 and 1. A session without frames has no phases, so there is no
	// phase at which it could end.
	if e.Session(m.x.ids[hostMember]) == 0 || host > 1 && m.fault.later() {
		return
	}
	if !m.trusted() {
		m.x.violate("NIC %d has a session with a member that has %v", host, m.fault)
	}
}

// judge checks the outcome for the member.
func (m *members) judge() {
	var refused uint64
	for host := range intruderHonest {
		s := simulated.Engine(m.x.f, host).Transport()
		if refused += s.Identities; m.fault == otherFabric {
			refused += s.BadMACs
		} else if !m.knows {
			refused += s.Refused
		}
	}
	if !m.fault.later() && refused == 0 {
		m.x.violate("a member has %v, and no NIC has refused it", m.fault)
	}
	if m.fault.later() && (m.sent == 0 || m.endsAt == 0) {
		m.x.violate("a member with %v has sent %d messages while it was trusted", m.fault, m.sent)
	}
}
