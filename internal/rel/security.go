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
// AEAD tags. Over a Checked link the handshake runs, but frames carry no tags.
type Security struct {
	Key         trust.PrivateKey  // static; the NIC's id is derived from it, or bound to it
	Fabric      []trust.FabricKey // the first is used for our handshakes, each is accepted
	Certificate []byte            // of this NIC, encoded; nil if there is none
	NoAES       bool              // the processor lacks AES instructions, so ChaCha20 is faster

	Pace Pace // of fresh keys; the zero value is the default

	// PlainResident admits datagrams of programs in drivers, which cannot seal: they have only a
	// checksum and a cookie.
	PlainResident bool

	// Keys, if set, is called with each key when a session begins to use it. With a key one can
	// read and forge the frames of its phase: no key may go elsewhere.
	Keys func(seal.KeyLog)

	// Witness, for tests, is called for each use of a key: no key may be used twice with one
	// counter.
	Witness func(key any, counter uint64)
}

// Pace says how long keys are used.
type Pace struct {
	Phase      seal.Pace
	RenewAfter time.Duration // age of a handshake at which the next begins; 0 = limits.RenewAfter
}

// security is a Module's own form of its Security.
type security struct {
	Security
	identity *seal.Identity
	gate     *seal.Gate
	suite    seal.Suite

	load    load
	cookies []cookieAnswer // owed to flooding addresses, at most maxRefusals
	scratch []byte         // memory to open frames that must stay unchanged
}

// Reasons for Handler.Stranger.
var (
	ErrFabric = errors.New("rel: mac1 of a NIC's frame does not verify: its fabric key may be another one")
	ErrPlain  = errors.New("rel: a NIC sends frames that are not sealed, and this link is sealed")
	ErrSealed = errors.New("rel: a NIC sends sealed frames, and this link is plain")
)

// ErrIdentity is a reason for Handler.Down: the peer has proved a key that is not trusted, or no
// longer trusted.
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

// Key returns the static key that the peer has proved, and its certificate. ok is false on a
// plain link, and before the first session.
func (e *Endpoint) Key() (key trust.PublicKey, certificate []byte, ok bool) {
	return e.key, e.certificate, e.keyKnown
}

// Know gives the endpoint the peer's static key, so that the first handshake can use it.
func (e *Endpoint) Know(key trust.PublicKey) {
	if !e.keyKnown {
		e.key, e.keyKnown = key, true
	}
}
