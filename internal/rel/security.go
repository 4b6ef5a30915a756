package rel

import (
	"cmp"
	"errors"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/trust"
)

// Security makes the sessions of a Module sealed: a handshake proves both NICs, and frames carry
// AEAD tags. Over a Checked link the handshake runs, and frames stay as they are.
type Security struct {
	Key         trust.PrivateKey  // static; the NIC's id is made of it, or bound to it
	Fabric      []trust.FabricKey // the first is used to call, each is accepted
	Certificate []byte            // of this NIC, encoded; nil without one
	NoAES       bool              // the processor has no instructions for AES, so that ChaCha20 is faster

	Pace Pace // of fresh keys; the zero value is the default

	// PlainResident admits datagrams of programs in drivers, which cannot seal: they have a
	// checksum and a cookie alone.
	PlainResident bool

	// Keys, if set, is told of each key when a session begins to use it. Whoever has a key can read
	// and forge the frames of its phase: no key may go elsewhere.
	Keys func(seal.KeyLog)

	// Witness, for tests, is told of each use of a key: no key may be used twice with one counter.
	Witness func(key any, counter uint64)
}

// Pace says how long keys are used.
type Pace struct {
	Phase      seal.Pace
	RenewAfter time.Duration // age of a handshake at which another one follows; 0 = limits.RenewAfter
}

// security is what a Module makes of its Security.
type security struct {
	Security
	identity *seal.Identity
	gate     *seal.Gate
	suite    seal.Suite

	load    load
	cookies []cookieAnswer // owed to flooding addresses, at most maxRefusals
	scratch []byte         // where frames are opened that must stay as they are
}

// Reasons for Handler.Stranger.
var (
	ErrFabric = errors.New("rel: mac1 of a NIC's frame does not verify: its fabric key may be another one")
	ErrPlain  = errors.New("rel: a NIC sends frames that are not sealed, and this link is sealed")
	ErrSealed = errors.New("rel: a NIC sends sealed frames, and this link is plain")
)

// ErrIdentity is a reason for Handler.Down: the peer has proved a key that is not trusted, or is
// trusted no more.
var ErrIdentity = errors.New("rel: peer NIC is not trusted")

func newSecurity(m *Module, c *Security) *security {
	if c == nil {
		return nil
	}
	y := &security{Security: *c, identity: seal.NewIdentity(c.Key), gate: seal.NewGate(c.Fabric, m.cfg.Secrets)}
	if c.NoAES {
		y.suite = seal.ChaCha
	}
	y.Pace.Phase = y.Pace.Phase.OrDefault()
	y.Pace.RenewAfter = cmp.Or(y.Pace.RenewAfter, limits.RenewAfter)
	y.scratch = make([]byte, m.cfg.MTU)
	return y
}

// Sealed reports whether the open session's frames are sealed.
func (e *Endpoint) Sealed() bool { return e.live != nil && e.live.sealed != nil }

// Suite names the AEAD of the open session's frames; empty unless they are sealed.
func (e *Endpoint) Suite() string {
	if !e.Sealed() {
		return ""
	}
	return e.live.sealed.suite.String()
}

// Key returns the static key that the peer has proved, and the certificate with it; ok is false on
// a plain link, and before the first session.
func (e *Endpoint) Key() (key trust.PublicKey, certificate []byte, ok bool) {
	return e.key, e.certificate, e.keyKnown
}

// Know tells the endpoint the peer's static key, so that the first handshake can use it.
func (e *Endpoint) Know(key trust.PublicKey) {
	if !e.keyKnown {
		e.key, e.keyKnown = key, true
	}
}
