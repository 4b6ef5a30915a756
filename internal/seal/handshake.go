package seal

import (
	"errors"
	"fmt"
	"io"

	"github.com/flynn/noise"

	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// The handshakes of two NICs (decision 13). The pre-shared key is derived from the fabric key, so
// a NIC of another fabric cannot finish either of them:
//
//	XXpsk3   → e               ← e, ee, s, es        → s, se, psk     the peer's key is not known
//	IKpsk2   → e, es, s, ss    ← e, ee, se, psk                       it is
//
// An XX initiator proves itself in message 3, an IK initiator in message 1, and every responder
// in message 2.

var suite = noise.NewCipherSuite(noise.DH25519, noise.CipherAESGCM, noise.HashSHA256)

// Errors of handshakes.
var (
	// ErrHandshake says that a message does not verify: it was altered, is meant for another key,
	// or its sender has another fabric key.
	ErrHandshake = errors.New("seal: handshake message does not verify")

	// ErrOrder says that a message is out of turn.
	ErrOrder = errors.New("seal: handshake message out of turn")
)

// Identity is the static key pair of a NIC, in the form that handshakes use.
type Identity struct{ pair noise.DHKey }

// NewIdentity returns the key pair of a private key.
func NewIdentity(k trust.PrivateKey) *Identity {
	p := k.Public()
	return &Identity{noise.DHKey{Private: append([]byte(nil), k[:]...), Public: append([]byte(nil), p[:]...)}}
}

// Public returns the public half.
func (id *Identity) Public() trust.PublicKey { return trust.PublicKey(id.pair.Public) }

// Handshake is one handshake at one of its ends.
type Handshake struct {
	Pattern uint8 // wire.PatternXX or wire.PatternIK

	state     *noise.HandshakeState
	initiator bool
	message   uint8 // number of the last one written or read
	psk       [trust.KeyLen]byte
	secrets   *Secrets
}

// Secrets holds the results of a finished handshake for one of its ends.
type Secrets struct {
	Send, Receive Secret
	Relay         Secret // the same at both ends
}

// Options holds the options of a handshake. They must be equal at both ends, except for the
// random numbers.
type Options struct {
	Psk      [trust.KeyLen]byte
	Prologue []byte
	Random   io.Reader
}

// Initiate begins a handshake: IK if the peer's key is known, XX if peer is nil.
func Initiate(own *Identity, peer *trust.PublicKey, o Options) *Handshake {
	c := o.config(own)
	c.Initiator = true
	if peer == nil {
		return begin(wire.PatternXX, c, o)
	}
	c.PeerStatic = append([]byte(nil), peer[:]...)
	return begin(wire.PatternIK, c, o)
}

// Respond begins the other end of a handshake, with the pattern that the initiator names.
func Respond(own *Identity, pattern uint8, o Options) (*Handshake, error) {
	if pattern != wire.PatternXX && pattern != wire.PatternIK {
		return nil, fmt.Errorf("%w: pattern %d", ErrHandshake, pattern)
	}
	return begin(pattern, o.config(own), o), nil
}

func (o *Options) config(own *Identity) noise.Config {
	return noise.Config{CipherSuite: suite, Random: o.Random, Prologue: o.Prologue, StaticKeypair: own.pair}
}

func begin(pattern uint8, c noise.Config, o Options) *Handshake {
	c.Pattern, c.PresharedKeyPlacement, c.PresharedKey = noise.HandshakeXX, 3, o.Psk[:]
	if pattern == wire.PatternIK {
		c.Pattern, c.PresharedKeyPlacement = noise.HandshakeIK, 2
	}
	state, err := noise.NewHandshakeState(c)
	if err != nil {
		panic("seal: the configuration of a handshake is refused: " + err.Error())
	}
	return &Handshake{Pattern: pattern, state: state, initiator: c.Initiator, psk: o.Psk}
}

// last returns the number of the handshake's last message.
func (h *Handshake) last() uint8 {
	if h.Pattern == wire.PatternXX {
		return 3
	}
	return 2
}

// Write returns the next message, which carries payload. Secrets are available after the last
// message.
func (h *Handshake) Write(payload []byte) ([]byte, error) {
	if h.message >= h.last() || h.initiator != (h.message%2 == 0) {
		return nil, fmt.Errorf("%w: cannot write message %d", ErrOrder, h.message+1)
	}
	m, a, b, err := h.state.WriteMessage(nil, payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	h.message++
	h.split(a, b)
	return m, nil
}

// Read reads the peer's next message and returns its payload. After an error in message 3 the
// true message can still arrive. After any other error the handshake is useless.
func (h *Handshake) Read(message []byte) (payload []byte, err error) {
	if h.message >= h.last() || h.initiator == (h.message%2 == 0) {
		return nil, fmt.Errorf("%w: cannot read message %d", ErrOrder, h.message+1)
	}
	before := *h.state
	payload, a, b, err := h.state.ReadMessage(nil, message)
	if err != nil && h.message == 2 {
		*h.state = before // the library has undone its hashing; this restores the rest
		return nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	if err != nil {
		h.message = h.last() // the library's state after an error is not reliable
		return nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	h.message++
	h.split(a, b)
	return payload, nil
}

// split keeps the secrets of a finished handshake.
func (h *Handshake) split(a, b *noise.CipherState) {
	if a == nil {
		return
	}
	of := func(c *noise.CipherState) Secret { return Secret(c.UnsafeKey()) }
	s := &Secrets{Send: of(a), Receive: of(b)}
	s.Relay = s.Send.with(&s.Receive, labelRelay)
	if !h.initiator {
		s.Send, s.Receive = s.Receive, s.Send
	}
	h.secrets = s
}

// Secrets returns the results of the handshake; nil before its last message.
func (h *Handshake) Secrets() *Secrets { return h.secrets }

// Psk returns the pre-shared key of the handshake.
func (h *Handshake) Psk() [trust.KeyLen]byte { return h.psk }

// PeerKey returns the peer's static key. The peer has proved it, unless it is only the claim in
// an IK initiator's first message. That claim is proved by the first frame that the secrets open.
// ok is false if the key is not known yet.
func (h *Handshake) PeerKey() (k trust.PublicKey, ok bool) {
	s := h.state.PeerStatic()
	if len(s) != trust.KeyLen {
		return k, false
	}
	return trust.PublicKey(s), true
}
