package trust

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
)

// Peer is the identity that a NIC has proved in a handshake.
type Peer struct {
	NIC         nicid.ID
	Key         PublicKey
	Certificate *Certificate // nil if this NIC requires none
}

// Binding is the proof that ties the id of a NIC to its static key.
type Binding uint8

// The bindings.
const (
	Unbound         Binding = iota // the NIC has proved no key
	ByKey                          // the id is derived from the key
	ByConfiguration                // this NIC's configuration names both
	ByCertificate
)

// String returns the binding in the form that tools show.
func (b Binding) String() string { return [...]string{"-", "key", "configuration", "certificate"}[b] }

// Binding returns the proof that ties the peer's id to its key.
func (p Peer) Binding() Binding {
	switch {
	case p.NIC == 0:
		return Unbound
	case p.Certificate != nil:
		return ByCertificate
	case p.Key.ID() == p.NIC:
		return ByKey
	}
	return ByConfiguration
}

// PolicyConfig configures a Policy. Times are Unix seconds.
type PolicyConfig struct {
	ID  nicid.ID
	Key PublicKey // of this NIC

	Bound map[nicid.ID]PublicKey // ids that the configuration ties to keys
	// If there are Authorities, every peer needs a certificate from one of them.
	Authorities []CAPublic
	Revocations [][]byte // encoded lists, the newest that this NIC knew
	// Grants are those of NICs that the configuration names. An empty entry allows nothing.
	Grants  map[nicid.ID]Roles
	Default Role   // for NICs without certificate and without grant
	User    string // the user of this NIC; Default covers its processes
}

// Policy decides what one NIC believes about others, and what it allows them. It is not safe for
// concurrent use.
type Policy struct {
	cfg   PolicyConfig
	lists map[CAID]*RevocationList // the newest of each authority
}

// NewPolicy returns a policy. It refuses contradictory configurations, and revocation lists that
// no authority has signed.
func NewPolicy(cfg PolicyConfig) (*Policy, error) {
	if n := len(cfg.Authorities); n > limits.CertificateAuthorities {
		return nil, fmt.Errorf("%d certificate authorities; expected at most %d", n, limits.CertificateAuthorities)
	}
	if len(cfg.Revocations) > 0 && len(cfg.Authorities) == 0 {
		return nil, errors.New(
			"a revocation list without a certificate authority; name the authority, or remove the list")
	}
	for id, roles := range cfg.Grants {
		if err := roles.check(); err != nil {
			return nil, fmt.Errorf("grants to NIC %v: %w", id, err)
		}
	}
	cfg.Bound, cfg.Grants = maps.Clone(cfg.Bound), maps.Clone(cfg.Grants)
	cfg.Authorities = slices.Clone(cfg.Authorities)
	p := &Policy{cfg: cfg, lists: make(map[CAID]*RevocationList)}
	for _, b := range cfg.Revocations {
		if _, err := p.Revoke(b); err != nil {
			return nil, err
		}
	}
	p.cfg.Revocations = nil
	return p, nil
}

// Check returns the peer that claims id and has proved that it holds key. certificate is encoded,
// or empty. A NIC without authorities ignores it. The error wraps one of the errors of this
// package.
func (p *Policy) Check(id nicid.ID, key PublicKey, certificate []byte, wallSeconds int64) (Peer, error) {
	if id == p.cfg.ID {
		return Peer{}, fmt.Errorf(
			"NIC %v: %w; a copied state directory needs a key of its own: remove nic.key there", id, ErrOwnID)
	}
	c, err := p.check(id, key, certificate, wallSeconds)
	if err != nil {
		return Peer{}, err
	}
	return Peer{id, key, c}, nil
}

// Bind ties an id to a key, for a node that is added to the configuration later. It fails if the
// id is tied to another key.
func (p *Policy) Bind(id nicid.ID, key PublicKey) error {
	if bound, ok := p.cfg.Bound[id]; ok && bound != key {
		return fmt.Errorf("NIC %v: %w: it is bound to %v, and not to %v; remove the node that binds it first",
			id, ErrBoundToOther, bound, key)
	}
	if p.cfg.Bound == nil {
		p.cfg.Bound = make(map[nicid.ID]PublicKey)
	}
	p.cfg.Bound[id] = key
	return nil
}

// Replace replaces the ids that the configuration ties to keys, and the grants. Revocation lists
// and authorities stay. This NIC's own id stays tied to its key. Afterwards StillGood may refuse
// known peers. If the error is not nil, nothing has changed.
func (p *Policy) Replace(bound map[nicid.ID]PublicKey, grants map[nicid.ID]Roles) error {
	for id, roles := range grants {
		if err := roles.check(); err != nil {
			return fmt.Errorf("grants to NIC %v: %w", id, err)
		}
	}
	own, isBound := p.cfg.Bound[p.cfg.ID]
	p.cfg.Bound, p.cfg.Grants = maps.Clone(bound), maps.Clone(grants)
	delete(p.cfg.Bound, p.cfg.ID)
	if isBound {
		return p.Bind(p.cfg.ID, own)
	}
	return nil
}

// CheckOwn checks at start what other NICs will check: that this NIC's id belongs to its key, and
// that its certificate is valid. certificate is encoded, or empty.
func (p *Policy) CheckOwn(certificate []byte, wallSeconds int64) (*Certificate, error) {
	return p.check(p.cfg.ID, p.cfg.Key, certificate, wallSeconds)
}

func (p *Policy) check(id nicid.ID, key PublicKey, certificate []byte, wallSeconds int64) (*Certificate, error) {
	bound, isBound := p.cfg.Bound[id]
	if isBound && bound != key {
		return nil, fmt.Errorf("NIC %v: %w: the configuration names %v, and the NIC has %v; correct [[node]] key",
			id, ErrBoundToOther, bound, key)
	}
	if len(p.cfg.Authorities) == 0 {
		if !isBound && key.ID() != id {
			return nil, fmt.Errorf(
				"NIC %v: %w: %v has the id %v; remove the configured id, or bind it by [[node]] id and key",
				id, ErrUnboundID, key, key.ID())
		}
		return nil, nil
	}
	if len(certificate) == 0 {
		return nil, fmt.Errorf("NIC %v: %w; sign one by weft fabric ca sign, and name its file in the configuration",
			id, ErrNoCertificate)
	}
	c, err := ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("NIC %v: %w; sign a new one by weft fabric ca sign", id, err)
	}
	if err := c.Verify(p.cfg.Authorities); err != nil {
		return nil, fmt.Errorf("NIC %v: %w; sign one by an authority of this fabric", id, err)
	}
	if c.NIC != id || c.Key != key {
		return nil, fmt.Errorf("NIC %v with %v: %w: it names NIC %v with %v; sign one for this NIC",
			id, key, ErrOtherHolder, c.NIC, c.Key)
	}
	return c, p.good(c, wallSeconds)
}

// StillGood returns the reason why an established peer must go: its certificate has expired or is
// revoked, or the configuration no longer ties its id to its key. It is called for all peers when
// Revoke returns true, and after Replace.
func (p *Policy) StillGood(peer Peer, wallSeconds int64) error {
	bound, isBound := p.cfg.Bound[peer.NIC]
	switch {
	case isBound && bound != peer.Key:
		return fmt.Errorf("NIC %v: %w: the configuration names %v now, and the NIC has %v; correct [[node]] key",
			peer.NIC, ErrBoundToOther, bound, peer.Key)
	case len(p.cfg.Authorities) == 0 && !isBound && peer.Key.ID() != peer.NIC:
		return fmt.Errorf("NIC %v: %w: the configuration does not bind it to %v any more; "+
			"bind it by [[node]] id and key", peer.NIC, ErrUnboundID, peer.Key)
	case len(p.cfg.Authorities) == 0:
		return nil
	case peer.Certificate == nil:
		return fmt.Errorf("NIC %v: %w; sign one by weft fabric ca sign", peer.NIC, ErrNoCertificate)
	}
	return p.good(peer.Certificate, wallSeconds)
}

func (p *Policy) good(c *Certificate, wallSeconds int64) error {
	if l := p.lists[c.CA]; l != nil && l.Revokes(c) {
		return fmt.Errorf(
			"certificate %v of NIC %v: %w by list %d; sign a new one for a new key, if the NIC is trusted again",
			SerialText(c.Serial), c.NIC, ErrRevoked, l.Number)
	}
	return c.validAt(wallSeconds)
}

// Revoke applies an encoded revocation list. It returns true if the list is newer than the
// previous one. Then StillGood may end peers, and the list should be spread. The error is
// ErrMalformed, ErrOtherFabric or ErrSignature.
func (p *Policy) Revoke(list []byte) (newer bool, err error) {
	l, err := ParseRevocationList(list)
	if err != nil {
		return false, err
	}
	if last := p.lists[l.CA]; last != nil && l.Number <= last.Number {
		return false, nil // without checking the signature: old lists are frequent and cheap
	}
	if err := l.Verify(p.cfg.Authorities); err != nil {
		return false, err
	}
	p.lists[l.CA] = l
	return true, nil
}

// Wants reports whether list number n of an authority would be newer than the policy's list.
func (p *Policy) Wants(authority CAID, n uint64) bool {
	if last := p.lists[authority]; last != nil {
		return n > last.Number
	}
	return slices.ContainsFunc(p.cfg.Authorities, func(ca CAPublic) bool { return ca.ID() == authority })
}

// Revocations returns the newest list of each authority, ordered by the authority's id. The caller
// must not change them.
func (p *Policy) Revocations() (lists []*RevocationList) {
	for _, ca := range slices.Sorted(maps.Keys(p.lists)) {
		lists = append(lists, p.lists[ca])
	}
	return lists
}

// Allows reports whether peer has the role. If the role is Program or Run, peer asks on behalf of
// user, for whom it vouches. The roles of a certificate and a grant add up. Without either,
// Default applies; its Program and Run cover only the user of this NIC.
func (p *Policy) Allows(peer Peer, role Role, user string) bool {
	grant, granted := p.cfg.Grants[peer.NIC]
	if grant.Allow(role, user) || peer.Certificate != nil && peer.Certificate.Roles.Allow(role, user) {
		return true
	}
	if granted || peer.Certificate != nil || role == 0 || p.cfg.Default&role != role {
		return false
	}
	return role&withUsers == 0 || user != "" && user != Root && user == p.cfg.User
}

// AllowsName reports whether processes of peer may have names of the application. Without
// certificates all may.
func (p *Policy) AllowsName(peer Peer, application string) bool {
	return len(p.cfg.Authorities) == 0 || peer.Certificate != nil && peer.Certificate.AllowsName(application)
}
