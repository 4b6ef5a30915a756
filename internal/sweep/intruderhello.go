package sweep

import (
	"bytes"

	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// thief has the fabric key, like each member of a fabric, and a static key that belongs to no
// NIC. It begins and finishes handshakes in the names of others, from its own address and from
// theirs. A stranger has neither key.
type thief struct {
	x        *intruder
	secrets  *secret.Source
	own      *seal.Identity
	gate     *seal.Gate // of the fabric
	foreign  *seal.Gate // of the stranger
	psk      [2][trust.KeyLen]byte
	index    uint32 // of the last Hello
	attempts map[uint32]*theft
	cookies  map[uint32]uint64 // of sessions, by index; Hellos show them to every reader
	made     int               // handshakes
	guesses  [][]byte          // Hellos of the stranger, which are slow to make
}

// theft is a handshake in the name of another NIC.
type theft struct {
	hs       *seal.Handshake
	from, to int // from: the host from which it comes
}

const (
	mostThefts  = 12 // handshakes in a run
	mostGuesses = 3  // different Hellos of the stranger
	// Hellos in a flood: more than a NIC handles for addresses that have proved nothing.
	floodSize = 112
)

func newThief(x *intruder) *thief {
	t := &thief{x: x, secrets: secret.Seeded(x.rng.Uint64()), index: 0x7ff0_0000, attempts: map[uint32]*theft{},
		cookies: map[uint32]uint64{}}
	t.own = seal.NewIdentity(trust.PrivateKey{'t', 'h', 'i', 'e', 'f', 31: 1})
	t.gate = seal.NewGate([]trust.FabricKey{intruderFabric}, t.secrets)
	t.foreign = seal.NewGate([]trust.FabricKey{{'g', 'u', 'e', 's', 's', 'e', 'd'}}, t.secrets)
	t.psk = [2][trust.KeyLen]byte{t.gate.Psk(0), t.foreign.Psk(0)}
	return t
}

// options returns the options of a handshake with the fabric key, or with the stranger's key.
func (t *thief) options(stranger bool) seal.Options {
	key := 0
	if stranger {
		key = 1
	}
	return seal.Options{Psk: t.psk[key], Prologue: []byte("weft"), Random: t.secrets.Reader(secret.Handshake)}
}

// frame returns a Hello with Noise message 1.
func (t *thief) frame(h wire.Hello, hs *seal.Handshake, gate *seal.Gate, length int) []byte {
	payload := make([]byte, wire.HelloLen)
	h.Put(payload)
	message, err := hs.Write(payload)
	if err != nil {
		panic("sweep: the first message of a handshake fails: " + err.Error())
	}
	body := wire.Handshake{Pattern: hs.Pattern, Message: 1, Index: h.Index, MinVersion: 1, MaxVersion: 1,
		Noise: message}
	o := wire.Outer{Kind: wire.KindHello, Flags: wire.FlagSealed, Counter: h.EchoCounter}
	return sign(o, &body, gate, length)
}

// sign completes a frame of a handshake.
func sign(o wire.Outer, h *wire.Handshake, gate *seal.Gate, length int) []byte {
	n := max(wire.OuterLen+h.Len(), length-2*wire.MACLen)
	b := make([]byte, n+2*wire.MACLen)
	o.Put(b)
	h.Put(b[wire.OuterLen:], n-wire.OuterLen)
	return b[:gate.Sign(b, n, 0, nil)]
}

// strangerHello sends a Hello in the name of a NIC. Only the fabric key is missing.
func (x *intruder) strangerHello() {
	t := x.thief
	to := x.rng.IntN(intruderHonest)
	if len(t.guesses) < mostGuesses {
		hs := seal.Initiate(t.own, nil, t.options(true))
		t.guesses = append(t.guesses, t.frame(x.boast(len(t.guesses)%intruderHonest), hs, t.foreign, 1200))
	}
	b := bytes.Clone(pick(x.rng, t.guesses...))
	if x.rng.IntN(2) == 0 { // one bit of the MAC for the fabric key is wrong
		t.gate.Sign(b, len(b)-2*wire.MACLen, 0, nil)
		b[len(b)-2*wire.MACLen+x.rng.IntN(wire.MACLen)] ^= 1 << x.rng.IntN(8)
	}
	x.attacks.Strangers++
	x.inject(hostStranger, to, b)
}

// hello begins a handshake in the name of an honest NIC.
func (t *thief) hello() {
	x := t.x
	if t.made++; t.made > mostThefts {
		return
	}
	as := x.rng.IntN(intruderHonest)
	to := (as + x.rng.IntN(intruderHonest)) % intruderHonest // sometimes the NIC's own name
	var known *trust.PublicKey
	if x.rng.IntN(3) == 0 { // static keys are no secrets
		key := x.keys[to].Public()
		known = &key
	}
	h := x.boast(as)
	hs := seal.Initiate(t.own, known, t.options(false))
	from := pick(x.rng, hostThief, hostThief, as)
	if from == to {
		from = hostThief
	}
	t.attempts[h.Index] = &theft{hs, from, to}
	b := t.frame(h, hs, t.gate, pick(x.rng, 0, 1200))
	x.attacks.Thieves++
	x.inject(from, to, b)
	if x.rng.IntN(3) == 0 {
		x.inject(from, to, b)
	}
}

// hears finishes a handshake of the thief when it is answered.
func (t *thief) hears(from, _ int, frame []byte) {
	o, _, err := wire.ParseOuter(frame)
	if err != nil || o.Kind != wire.KindHelloAck {
		return
	}
	a := t.attempts[o.Index]
	_, rest, ok := t.gate.Verify(frame)
	if a == nil || !ok || from != a.to {
		return
	}
	delete(t.attempts, o.Index)
	h, err := wire.ParseHandshake(rest[wire.OuterLen:])
	if err != nil || h.Pattern != wire.PatternXX {
		return
	}
	if _, err := a.hs.Read(bytes.Clone(h.Noise)); err != nil {
		return
	}
	// The certificate of another NIC, if the fabric has certificates.
	message, err := a.hs.Write(t.x.members.certificate(hostMember))
	if err != nil {
		return
	}
	finish := wire.Handshake{Pattern: wire.PatternXX, Message: 3, Index: o.Index, MinVersion: 1, MaxVersion: 1,
		Noise: message}
	b := sign(wire.Outer{Kind: wire.KindFinish, Flags: wire.FlagSealed, Index: h.Index, Counter: 1}, &finish, t.gate, 0)
	t.x.inject(a.from, a.to, b)
}

// overhears reads the first message of a handshake. Every observer can read it, because no secret
// seals its payload.
func (t *thief) overhears(_, _ int, o wire.Outer, frame []byte) {
	if o.Kind != wire.KindHello || len(frame) < wire.HandshakeLeast {
		return
	}
	h, err := wire.ParseHandshake(frame[wire.OuterLen : len(frame)-2*wire.MACLen])
	if err != nil || h.Pattern != wire.PatternXX {
		return
	}
	reader, err := seal.Respond(t.own, h.Pattern, t.options(true))
	if err != nil {
		return
	}
	payload, err := reader.Read(bytes.Clone(h.Noise))
	if err != nil || len(payload) < wire.HelloLen {
		return
	}
	if hello, err := wire.ParseHello(payload[:wire.HelloLen]); err == nil {
		t.cookies[hello.Index] = hello.Cookie
	}
}

// flood sends many Hellos with the fabric key, in the names of NICs that do not exist.
func (t *thief) flood() {
	x := t.x
	for range floodSize {
		h := x.boast(0)
		h.NIC = x.rng.Uint64() | 1
		b := t.frame(h, seal.Initiate(t.own, nil, t.options(false)), t.gate, 0)
		x.attacks.Flood++
		x.inject(hostThief, 0, b)
	}
}
