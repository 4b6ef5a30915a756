package trust_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

// fabric is the keys of two NICs and of two authorities.
type fabric struct {
	own, peer trust.PublicKey
	ca, other trust.CAKey
}

func newFabric(t *testing.T) (f fabric) {
	f.own, f.ca = drawn(t, 1)
	f.peer, f.other = drawn(t, 2)
	return f
}

// policy returns the policy of the NIC with the key own.
func (f fabric) policy(t *testing.T, change func(*trust.PolicyConfig)) *trust.Policy {
	t.Helper()
	cfg := trust.PolicyConfig{ID: f.own.ID(), Key: f.own}
	if change != nil {
		change(&cfg)
	}
	p, err := trust.NewPolicy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const configured = nicid.ID(0x0102030405060708)

func TestAnIDMustBelongToItsKey(t *testing.T) {
	f := newFabric(t)
	third, _ := drawn(t, 3)
	bound := func(c *trust.PolicyConfig) {
		c.Bound = map[nicid.ID]trust.PublicKey{configured: f.peer, third.ID(): f.peer}
	}
	for name, c := range map[string]struct {
		change func(*trust.PolicyConfig)
		id     nicid.ID
		key    trust.PublicKey
		want   error
	}{
		"derived":                   {nil, f.peer.ID(), f.peer, nil},
		"configured, not bound":     {nil, configured, f.peer, trust.ErrUnboundID},
		"configured and bound":      {bound, configured, f.peer, nil},
		"bound to another":          {bound, configured, third, trust.ErrBoundToOther},
		"derived, bound to another": {bound, third.ID(), third, trust.ErrBoundToOther},
		"another's":                 {nil, third.ID(), f.peer, trust.ErrUnboundID},
		"this NIC's":                {nil, f.own.ID(), f.peer, trust.ErrOwnID},
		"this NIC's, with its key":  {nil, f.own.ID(), f.own, trust.ErrOwnID},
		"none":                      {nil, 0, f.peer, trust.ErrUnboundID},
	} {
		got, err := f.policy(t, c.change).Check(c.id, c.key, nil, start)
		if !errors.Is(err, c.want) || (err == nil) != (got == trust.Peer{NIC: c.id, Key: c.key}) {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestACertificateIsCheckedInEachPart(t *testing.T) {
	f := newFabric(t)
	third, _ := drawn(t, 3)
	const id = nicid.ID(0x60dd7fff8c)
	sign := func(ca trust.CAKey, change ...func(*trust.Certificate)) []byte {
		return certified(t, f.peer, ca, change...).Append(nil)
	}
	forged := sign(f.ca)
	forged[len(forged)-1] ^= 1
	withKey := revoking(t, f.ca, trust.RevocationList{Number: 1, Keys: []trust.PublicKey{f.peer}})
	withSerial := revoking(t, f.ca, trust.RevocationList{Number: 1, Serials: []uint64{7}})
	others := revoking(t, f.other, trust.RevocationList{Number: 1, Serials: []uint64{7}, Keys: []trust.PublicKey{f.peer}})
	for name, c := range map[string]struct {
		certificate []byte
		id          nicid.ID
		key         trust.PublicKey
		wall        int64
		list        *trust.RevocationList
		want        error
		says        string
	}{
		"good":                     {sign(f.ca), id, f.peer, start, nil, nil, ""},
		"last second":              {sign(f.ca), id, f.peer, start + day - 1, nil, nil, ""},
		"revoked by another":       {sign(f.ca), id, f.peer, start, others, nil, ""},
		"missing":                  {nil, id, f.peer, start, nil, trust.ErrNoCertificate, "weft fabric ca sign"},
		"missing, id derived":      {nil, f.peer.ID(), f.peer, start, nil, trust.ErrNoCertificate, "weft fabric ca sign"},
		"garbage":                  {[]byte("hello"), id, f.peer, start, nil, trust.ErrMalformed, `sign a new one`},
		"forged":                   {forged, id, f.peer, start, nil, trust.ErrSignature, ""},
		"early":                    {sign(f.ca), id, f.peer, start - 1, nil, trust.ErrNotYetValid, "clock says 2023-11-14 22:13:19 UTC"},
		"late":                     {sign(f.ca), id, f.peer, start + day, nil, trust.ErrExpired, "at 2023-11-15 22:13:20 UTC"},
		"serial revoked":           {sign(f.ca), id, f.peer, start, withSerial, trust.ErrRevoked, "list 1"},
		"key revoked":              {sign(f.ca), id, f.peer, start, withKey, trust.ErrRevoked, "new key"},
		"of another id":            {sign(f.ca), f.peer.ID(), f.peer, start, nil, trust.ErrOtherHolder, "it names NIC 0:0:0:96"},
		"of another key":           {sign(f.ca), id, third, start, nil, trust.ErrOtherHolder, third.String()},
		"of an unknown authority":  {certified(t, f.peer, trust.CAKey(third)).Append(nil), id, f.peer, start, nil, trust.ErrOtherFabric, "authority of this fabric"},
		"of the second authority":  {sign(f.other), id, f.peer, start, nil, nil, ""},
		"for this NIC's id":        {sign(f.ca), f.own.ID(), f.peer, start, nil, trust.ErrOwnID, ""},
		"for another's id in turn": {sign(f.ca, func(c *trust.Certificate) { c.NIC = configured }), configured, f.peer, start, nil, trust.ErrBoundToOther, ""},
	} {
		p := f.policy(t, func(cfg *trust.PolicyConfig) {
			cfg.Authorities = []trust.CAPublic{f.ca.Public(), f.other.Public()}
			cfg.Bound = map[nicid.ID]trust.PublicKey{configured: third}
			if c.list != nil {
				cfg.Revocations = [][]byte{c.list.Append(nil)}
			}
		})
		got, err := p.Check(c.id, c.key, c.certificate, c.wall)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v that says %q", name, err, c.want, c.says)
		}
		if (got.Certificate != nil) != (c.want == nil) || (got.NIC != 0) != (c.want == nil) {
			t.Errorf("%s: peer %+v", name, got)
		}
	}
}

func TestANICWithoutAuthoritiesIgnoresCertificates(t *testing.T) {
	f := newFabric(t)
	c := certified(t, f.peer, f.ca, func(c *trust.Certificate) { c.NIC, c.Roles = f.peer.ID(), roles(t, "admin") })
	p := f.policy(t, nil)
	peer, err := p.Check(f.peer.ID(), f.peer, c.Append(nil), start+2*day)
	if err != nil || peer.Certificate != nil || p.Allows(peer, trust.Admin, "") || !p.AllowsName(peer, "anything") {
		t.Errorf("%+v, %v", peer, err)
	}
	if err := p.StillGood(peer, start+9*day); err != nil {
		t.Error(err)
	}
	if _, err := p.Check(configured, f.peer, c.Append(nil), start); !errors.Is(err, trust.ErrUnboundID) {
		t.Errorf("an id that only an unknown authority binds: %v", err)
	}
}

func TestANewerListRevokesAndAnOlderOneDoesNot(t *testing.T) {
	f := newFabric(t)
	p := f.policy(t, func(cfg *trust.PolicyConfig) { cfg.Authorities = []trust.CAPublic{f.ca.Public(), f.other.Public()} })
	c := certified(t, f.peer, f.ca)
	peer, err := p.Check(c.NIC, f.peer, c.Append(nil), start)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger := drawn(t, 9)
	forged := revoking(t, f.ca, trust.RevocationList{Number: 99}).Append(nil)
	forged[len(forged)-1] ^= 1
	for _, s := range []struct {
		what  string
		list  []byte
		newer bool
		err   error
		after error // result of StillGood
	}{
		{"first", revoking(t, f.ca, trust.RevocationList{Number: 2, Serials: []uint64{8}}).Append(nil), true, nil, nil},
		{"forged", forged, false, trust.ErrSignature, nil},
		{"garbage", []byte("x"), false, trust.ErrMalformed, nil},
		{"a stranger's", revoking(t, stranger, trust.RevocationList{Number: 99}).Append(nil), false, trust.ErrOtherFabric, nil},
		{"older", revoking(t, f.ca, trust.RevocationList{Number: 1, Serials: []uint64{7}}).Append(nil), false, nil, nil},
		{"same number", revoking(t, f.ca, trust.RevocationList{Number: 2, Serials: []uint64{7}}).Append(nil), false, nil, nil},
		{"newer", revoking(t, f.ca, trust.RevocationList{Number: 3, Serials: []uint64{7, 8}}).Append(nil), true, nil, trust.ErrRevoked},
		{"of the other authority", revoking(t, f.other, trust.RevocationList{Number: 9}).Append(nil), true, nil, trust.ErrRevoked},
		{"old again", revoking(t, f.ca, trust.RevocationList{Number: 2}).Append(nil), false, nil, trust.ErrRevoked},
	} {
		newer, err := p.Revoke(s.list)
		if newer != s.newer || !errors.Is(err, s.err) {
			t.Errorf("%s: %v, %v; want %v, %v", s.what, newer, err, s.newer, s.err)
		}
		if err := p.StillGood(peer, start); !errors.Is(err, s.after) {
			t.Errorf("after %s: %v; want %v", s.what, err, s.after)
		}
	}
	if lists := p.Revocations(); len(lists) != 2 || lists[0].Number+lists[1].Number != 12 {
		t.Errorf("the policy keeps %+v", lists)
	}
}

func TestAnEstablishedPeerEndsWithItsCertificate(t *testing.T) {
	f := newFabric(t)
	p := f.policy(t, func(cfg *trust.PolicyConfig) { cfg.Authorities = []trust.CAPublic{f.ca.Public()} })
	peer := trust.Peer{NIC: 1, Key: f.peer, Certificate: certified(t, f.peer, f.ca)}
	if err := p.StillGood(peer, start+day-1); err != nil {
		t.Error(err)
	}
	if err := p.StillGood(peer, start+day); !errors.Is(err, trust.ErrExpired) {
		t.Errorf("a day later: %v", err)
	}
	if err := p.StillGood(trust.Peer{NIC: 1, Key: f.peer}, start); !errors.Is(err, trust.ErrNoCertificate) {
		t.Errorf("without certificate: %v", err)
	}
}

func TestAuthorityComesFromCertificateGrantAndDefault(t *testing.T) {
	f := newFabric(t)
	const granted, bare = nicid.ID(5), nicid.ID(6)
	grants := map[nicid.ID]trust.Roles{granted: roles(t, "observe", "run=carol"), bare: {}}
	users := f.policy(t, func(c *trust.PolicyConfig) { c.Grants, c.Default, c.User = grants, trust.AllRoles, "alice" })
	roots := f.policy(t, func(c *trust.PolicyConfig) { c.Grants, c.User = grants, "root" })
	asRoot := f.policy(t, func(c *trust.PolicyConfig) { c.Default, c.User = trust.AllRoles, "root" })
	nameless := f.policy(t, func(c *trust.PolicyConfig) { c.Default = trust.AllRoles })
	holder := trust.Peer{NIC: 9}
	certificate := certified(t, f.peer, f.ca)
	for name, c := range map[string]struct {
		p    *trust.Policy
		peer trust.Peer
		role trust.Role
		user string
		want bool
	}{
		"a user's daemon runs for its user":            {users, holder, trust.Run, "alice", true},
		"a user's daemon runs for no other":            {users, holder, trust.Run, "bob", false},
		"a user's daemon runs for no root":             {users, holder, trust.Run, "root", false},
		"a user's daemon is observed":                  {users, holder, trust.Observe, "", true},
		"a user's daemon is stopped":                   {users, holder, trust.Admin, "bob", true},
		"a user's daemon, no role asked for":           {users, holder, 0, "alice", false},
		"root's daemon grants nothing by default":      {roots, holder, trust.Observe, "", false},
		"root's daemon runs nothing by default":        {roots, holder, trust.Run, "alice", false},
		"root by default runs nothing":                 {asRoot, holder, trust.Run, "root", false},
		"no user by default runs nothing":              {nameless, holder, trust.Run, "", false},
		"a grant gives":                                {roots, trust.Peer{NIC: granted}, trust.Run, "carol", true},
		"a grant gives no other role":                  {roots, trust.Peer{NIC: granted}, trust.Program, "carol", false},
		"a grant takes the place of the default":       {users, trust.Peer{NIC: granted}, trust.Run, "alice", false},
		"an empty grant takes the default away":        {users, trust.Peer{NIC: bare}, trust.Observe, "", false},
		"a certificate gives":                          {roots, trust.Peer{NIC: 9, Certificate: certificate}, trust.Program, "alice", true},
		"a certificate gives no other user":            {roots, trust.Peer{NIC: 9, Certificate: certificate}, trust.Program, "carol", false},
		"a certificate takes the place of the default": {users, trust.Peer{NIC: 9, Certificate: certificate}, trust.Admin, "", false},
		"a certificate and a grant add up":             {roots, trust.Peer{NIC: granted, Certificate: certificate}, trust.Run, "carol", true},
	} {
		if got := c.p.Allows(c.peer, c.role, c.user); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}

func TestNamesAreCheckedAgainstTheCertificate(t *testing.T) {
	f := newFabric(t)
	p := f.policy(t, func(cfg *trust.PolicyConfig) { cfg.Authorities = []trust.CAPublic{f.ca.Public()} })
	peer := trust.Peer{NIC: 1, Certificate: certified(t, f.peer, f.ca)}
	for name, want := range map[string]bool{"app": true, "app7": true, "web": true, "web2": false, "db": false} {
		if got := p.AllowsName(peer, name); got != want {
			t.Errorf("%q: %v; want %v", name, got, want)
		}
	}
	if p.AllowsName(trust.Peer{NIC: 1}, "app") {
		t.Error("a peer without the certificate that is asked for has a name")
	}
}

func TestANICChecksItselfAtStart(t *testing.T) {
	f := newFabric(t)
	if _, err := f.policy(t, nil).CheckOwn(nil, start); err != nil {
		t.Errorf("derived id: %v", err)
	}
	set := func(c *trust.PolicyConfig) { c.ID = configured }
	if _, err := f.policy(t, set).CheckOwn(nil, start); !errors.Is(err, trust.ErrUnboundID) {
		t.Errorf("configured id: %v", err)
	}
	p := f.policy(t, func(c *trust.PolicyConfig) { c.ID, c.Authorities = configured, []trust.CAPublic{f.ca.Public()} })
	c := certified(t, f.own, f.ca, func(c *trust.Certificate) { c.NIC = configured })
	if _, err := p.CheckOwn(c.Append(nil), start); err != nil {
		t.Errorf("configured id with a certificate: %v", err)
	}
	if _, err := p.CheckOwn(c.Append(nil), start-1); !errors.Is(err, trust.ErrNotYetValid) {
		t.Errorf("clock before not-before: %v", err)
	}
}

func TestAPolicyThatContradictsItselfIsRefused(t *testing.T) {
	f := newFabric(t)
	list := revoking(t, f.ca, trust.RevocationList{Number: 1}).Append(nil)
	for want, cfg := range map[string]trust.PolicyConfig{
		"5 certificate authorities; expected at most 4": {Authorities: make([]trust.CAPublic, 5)},
		"without a certificate authority":               {Revocations: [][]byte{list}},
		"the authority is unknown":                      {Revocations: [][]byte{list}, Authorities: []trust.CAPublic{f.other.Public()}},
		"grants to NIC 0:0:0:0:0:0:0:5: unknown roles":  {Grants: map[nicid.ID]trust.Roles{5: {Set: 64}}},
	} {
		want = strings.Replace(want, "the authority is", "the certificate authority is", 1)
		if _, err := trust.NewPolicy(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestAReplacedConfigurationDecidesAboutPeersFromThenOn(t *testing.T) {
	f := newFabric(t)
	third, _ := drawn(t, 3)
	p := f.policy(t, func(c *trust.PolicyConfig) {
		c.ID = configured
		c.Bound = map[nicid.ID]trust.PublicKey{configured: f.own, 7: f.peer}
		c.Grants = map[nicid.ID]trust.Roles{7: roles(t, "observe")}
	})
	bound, err := p.Check(7, f.peer, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	derived, err := p.Check(f.peer.ID(), f.peer, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Replace(nil, map[nicid.ID]trust.Roles{7: {Set: 1 << 7}}); err == nil {
		t.Error("an unknown role is taken")
	}
	if err := p.StillGood(bound, start); err != nil || !p.Allows(bound, trust.Observe, "") {
		t.Errorf("a refused change has an effect: %v", err)
	}
	if err := p.Replace(map[nicid.ID]trust.PublicKey{7: third}, map[nicid.ID]trust.Roles{f.peer.ID(): roles(t, "admin")}); err != nil {
		t.Fatal(err)
	}
	if err := p.StillGood(bound, start); !errors.Is(err, trust.ErrBoundToOther) {
		t.Errorf("a peer whose id is bound to another key: %v", err)
	}
	if err := p.StillGood(derived, start); err != nil || !p.Allows(derived, trust.Admin, "") || p.Allows(bound, trust.Observe, "") {
		t.Errorf("a peer whose id is made from its key: %v", err)
	}
	if err := p.Replace(nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.StillGood(bound, start); !errors.Is(err, trust.ErrUnboundID) {
		t.Errorf("a peer whose id is bound no more: %v", err)
	}
	if _, err := p.CheckOwn(nil, start); err != nil {
		t.Errorf("the id of the NIC itself: %v", err)
	}
}
