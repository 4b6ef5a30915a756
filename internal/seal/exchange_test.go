package seal_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

var update = flag.Bool("update", false, "rewrite docs/wire/sealed.json")

const exchangesPath = "../../docs/wire/sealed.json"

// text is bytes in hex.
type text []byte

func (x text) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(x)), nil }

func (x *text) UnmarshalText(b []byte) (err error) {
	*x, err = hex.DecodeString(string(b))
	return err
}

type exchanges struct {
	About     string     `json:"about"`
	Version   int        `json:"version"`
	Exchanges []exchange `json:"exchanges"`
}

// exchange holds all that two NICs know and send, from the first Hello to the first frames of a
// renewal.
type exchange struct {
	Name      string `json:"name"`
	Pattern   uint8  `json:"pattern"`
	AEAD      string `json:"aead"`
	FabricKey text   `json:"fabric_key"`
	MAC1Key   text   `json:"mac1_key"`
	Psk       text   `json:"psk"`
	Prologue  text   `json:"prologue"`

	Initiator party            `json:"initiator"`
	Responder party            `json:"responder"`
	Frames    []handshakeFrame `json:"frames"`
	Secrets   struct {
		ToResponder text `json:"to_responder"`
		ToInitiator text `json:"to_initiator"`
		Relay       text `json:"relay"`
	} `json:"secrets"`
	Renewal struct {
		Prologue           text `json:"prologue"`
		InitiatorEphemeral text `json:"initiator_ephemeral_private"`
		ResponderEphemeral text `json:"responder_ephemeral_private"`
		Offer              text `json:"offer"`
		Answer             text `json:"answer"`
		FreshToResponder   text `json:"fresh_to_responder"`
		FreshToInitiator   text `json:"fresh_to_initiator"`
	} `json:"renewal"`
	Keys   []phaseKey    `json:"keys"`
	Sealed []sealedFrame `json:"sealed"`
}

type party struct {
	StaticPrivate    text   `json:"static_private"`
	StaticPublic     text   `json:"static_public"`
	ID               string `json:"id"`
	EphemeralPrivate text   `json:"ephemeral_private"`
	Certificate      text   `json:"certificate"`
}

type handshakeFrame struct {
	Kind    string `json:"kind"`
	Payload text   `json:"payload"`
	Noise   text   `json:"noise_message"`
	Frame   text   `json:"frame"`
}

type phaseKey struct {
	ToInitiator bool `json:"to_initiator"`
	Phase       int  `json:"phase"`
	Secret      text `json:"secret"`
	Key         text `json:"key"`
}

type sealedFrame struct {
	Note        string `json:"note"`
	ToInitiator bool   `json:"to_initiator"`
	Phase       int    `json:"phase"`
	Counter     uint64 `json:"packet_counter"`
	Clear       int    `json:"clear"`
	Plain       text   `json:"plain"` // the frame before sealing, without tag
	Frame       text   `json:"frame"`
}

// counting returns n bytes, each one more than the one before.
func counting(from byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

func newParty(from byte, certificate string) (p party) {
	private := trust.PrivateKey(counting(from, trust.KeyLen))
	public := private.Public()
	return party{private[:], public[:], public.ID().String(), counting(from+0x60, trust.KeyLen), []byte(certificate)}
}

// hello returns a party's Hello.
func (p *party) hello(index uint32, suite seal.Suite) wire.Hello {
	h := wire.Hello{
		MinVersion: 1, MaxVersion: 1, Index: index, NIC: uint64(trust.PublicKey(p.StaticPublic).ID()), Incarnation: 5, Cookie: 0xaabbccdd,
		MTUCommand: 1472, MTUData: 8972, WinCommand: 4096, WinData: 4096, ReceiveCapacity: 212992, AckDelayMicros: 50, FirstCommand: 0xfffffff0, FirstData: 1,
	}
	if suite == seal.AES {
		h.Capabilities = wire.CapAES
	}
	return h
}

func body(h wire.Hello, certificate text) []byte {
	b := make([]byte, wire.HelloLen)
	h.Put(b)
	return append(b, certificate...)
}

// makeExchange runs one exchange.
func makeExchange(t *testing.T, name string, pattern uint8, suite seal.Suite) (x exchange) {
	fabric := trust.FabricKey(counting(0x40, trust.KeyLen))
	mac1 := fabric.Derive(trust.LabelMAC1)
	gate := seal.NewGate([]trust.FabricKey{fabric}, secret.Seeded(1))
	psk := gate.Psk(0)
	x = exchange{Name: name, Pattern: pattern, AEAD: suite.String(), FabricKey: fabric[:], MAC1Key: mac1[:], Psk: psk[:], Prologue: []byte("weft")}
	x.Initiator, x.Responder = newParty(0x01, "a certificate stands here"), newParty(0x21, "")
	a, b := x.handshake(t, x.Prologue, pattern, x.Initiator.EphemeralPrivate, x.Responder.EphemeralPrivate)

	first, second := x.Initiator.hello(17, suite), x.Responder.hello(42, suite)
	first.EchoCounter = 1
	second.EchoIncarnation, second.EchoCounter = first.Incarnation, 1
	payloads := [][]byte{body(first, x.Initiator.Certificate), body(second, x.Responder.Certificate)}
	if pattern == wire.PatternXX {
		payloads[0], payloads = payloads[0][:wire.HelloLen], append(payloads, x.Initiator.Certificate)
	}
	outers := []wire.Outer{{Kind: wire.KindHello, Counter: 1}, {Kind: wire.KindHelloAck, Index: 17, Counter: 1}, {Kind: wire.KindFinish, Index: 42, Counter: 1}}
	from, to := a, b
	for i, payload := range payloads {
		noise, err := from.Write(payload)
		if err == nil {
			_, err = to.Read(noise)
		}
		if err != nil {
			t.Fatal(err)
		}
		h := wire.Handshake{Pattern: pattern, Message: uint8(i + 1), Index: []uint32{17, 42, 17}[i], MinVersion: 1, MaxVersion: 1, Noise: noise}
		n := h.Len()
		if i == 0 {
			n = max(n, wire.HandshakeHead+32+48+wire.HelloLen+16) // as long as the answer
		}
		f := make([]byte, wire.OuterLen+n+2*wire.MACLen)
		outers[i].Flags = wire.FlagSealed
		outers[i].Put(f)
		h.Put(f[wire.OuterLen:], n)
		gate.Sign(f, wire.OuterLen+n, 0, nil)
		x.Frames = append(x.Frames, handshakeFrame{outers[i].Kind.String(), payload, noise, f})
		from, to = to, from
	}
	s := a.Secrets()
	x.Secrets.ToResponder, x.Secrets.ToInitiator, x.Secrets.Relay = s.Send[:], s.Receive[:], s.Relay[:]
	x.renew(t, s)
	x.seal(suite, s)
	return x
}

// handshake makes both ends of a handshake between the parties.
func (x *exchange) handshake(t *testing.T, prologue []byte, pattern uint8, initiator, responder text) (a, b *seal.Handshake) {
	options := func(ephemeral text) seal.Options {
		return seal.Options{Psk: [trust.KeyLen]byte(x.Psk), Prologue: prologue, Random: bytes.NewReader(ephemeral)}
	}
	var peer *trust.PublicKey
	if pattern == wire.PatternIK {
		key := trust.PublicKey(x.Responder.StaticPublic)
		peer = &key
	}
	a = seal.Initiate(seal.NewIdentity(trust.PrivateKey(x.Initiator.StaticPrivate)), peer, options(initiator))
	b, err := seal.Respond(seal.NewIdentity(trust.PrivateKey(x.Responder.StaticPrivate)), pattern, options(responder))
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// renew runs the handshake for fresh keys, which the initiator of the session offers here.
func (x *exchange) renew(t *testing.T, s *seal.Secrets) {
	r := &x.Renewal
	r.Prologue = append([]byte("weft renewal"), s.Relay[:]...)
	r.InitiatorEphemeral, r.ResponderEphemeral = counting(0xa0, trust.KeyLen), counting(0xc0, trust.KeyLen)
	a, b := x.handshake(t, r.Prologue, wire.PatternIK, r.InitiatorEphemeral, r.ResponderEphemeral)
	put := func(message uint8, noise []byte) text {
		b := make([]byte, wire.RekeyHead+len(noise))
		k := wire.Rekey{Message: message, Number: 1, Noise: noise}
		k.Put(b)
		return b
	}
	offer, err := a.Write(x.Initiator.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = b.Read(offer); err != nil {
		t.Fatal(err)
	}
	answer, err := b.Write(x.Responder.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = a.Read(answer); err != nil {
		t.Fatal(err)
	}
	r.Offer, r.Answer = put(1, offer), put(2, answer)
	fresh := a.Secrets()
	r.FreshToResponder, r.FreshToInitiator = fresh.Send[:], fresh.Receive[:]
}

// seal seals frames of three phases in both directions: that of the handshake, the next one, and
// one made of fresh keys.
func (x *exchange) seal(suite seal.Suite, s *seal.Secrets) {
	for _, back := range []bool{false, true} {
		now, fresh, index := s.Send, seal.Secret(x.Renewal.FreshToResponder), uint32(42)
		if back {
			now, fresh, index = s.Receive, seal.Secret(x.Renewal.FreshToInitiator), 17
		}
		next := now.Next()
		for phase, secret := range []seal.Secret{now, next, next.Fresh(&fresh)} {
			n := 16
			if suite == seal.ChaCha {
				n = 32
			}
			x.Keys = append(x.Keys, phaseKey{back, phase, secret[:], dumbExpand(secret[:], "weft key", n)})
			x.sealPhase(seal.NewKey(suite, &secret), back, phase, index)
		}
	}
}

func (x *exchange) sealPhase(key *seal.Key, back bool, phase int, index uint32) {
	flags := wire.FlagSealed
	if phase%2 == 1 {
		flags |= wire.FlagPhase
	}
	add := func(note string, o wire.Outer, clear int, rest ...[]byte) {
		o.Index = index
		plain := make([]byte, wire.OuterLen)
		o.Put(plain)
		plain = append(plain, bytes.Join(rest, nil)...)
		f := append(bytes.Clone(plain), make([]byte, wire.TagLen)...)
		key.Seal(f, clear, len(plain), nil, o.Counter)
		x.Sealed = append(x.Sealed, sealedFrame{note, back, phase, o.Counter, clear, plain, f})
	}
	counter := uint64(1000*phase + 2)
	inner, frag, chunk, probe := make([]byte, wire.InnerLen), make([]byte, wire.FragLen), make([]byte, wire.ChunkLen), make([]byte, wire.ProbeLen)
	h := wire.Inner{Space: wire.Command, Flags: wire.AckCommand, Seq: 101, Ack: [wire.Spaces]wire.Seq{200, 0}}
	h.Put(inner)
	wire.PutFrag(frag, &wire.Envelope{DstSlot: 3, SrcSlot: 5, DstGen: 1, SrcGen: 2, Number: 9, Tag: 0xdeadbeef}, 5)
	wire.Probe{ID: 7, Size: wire.ProbeLen}.Put(probe)
	add("data: one frag", wire.Outer{Kind: wire.KindData, Flags: flags, Counter: counter}, wire.OuterLen, inner, frag, []byte("hello"))
	h = wire.Inner{Space: wire.Data, Flags: wire.AckCommand | wire.AckData, Seq: 1, Ack: [wire.Spaces]wire.Seq{200, 300}}
	h.Put(inner)
	wire.PutChunk(chunk, 0, 4101, 1<<32, 40)
	add("data: one chunk, whose headers are in the clear", wire.Outer{Kind: wire.KindData, Flags: flags | wire.FlagClear, Counter: counter + 1},
		wire.ClearLen, inner, chunk, counting(0x30, 40))
	add("probe", wire.Outer{Kind: wire.KindProbe, Flags: flags, Counter: counter + 2}, wire.OuterLen, probe)
	add("goodbye: nothing is encrypted", wire.Outer{Kind: wire.KindGoodbye, Flags: flags, Counter: counter + 3}, wire.OuterLen)
}

func makeExchanges(t *testing.T) exchanges {
	all := exchanges{About: "Sealed exchanges of Weft; docs/wire.md tells how to read them. Written by go test ./internal/seal -run TestExchanges -update.", Version: wire.Version}
	for _, p := range []struct {
		name    string
		pattern uint8
	}{{"XX", wire.PatternXX}, {"IK", wire.PatternIK}} {
		for _, suite := range []seal.Suite{seal.AES, seal.ChaCha} {
			all.Exchanges = append(all.Exchanges, makeExchange(t, p.name+", "+suite.String(), p.pattern, suite))
		}
	}
	return all
}

func TestExchangesAreWhatTheCodeWrites(t *testing.T) {
	b, err := json.MarshalIndent(makeExchanges(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := string(b) + "\n"
	if *update {
		if err := os.WriteFile(exchangesPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(exchangesPath)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("%s is not what the code writes; if the format was meant to change, run this test with -update:\n%s", exchangesPath, d)
	}
}

// Another implementation has only the file and docs/wire.md. So the second implementation in this
// package's tests reads the keys and frames back.
func TestExchangesAreReadBackByASecondImplementation(t *testing.T) {
	b, err := os.ReadFile(exchangesPath)
	if err != nil {
		t.Fatal(err)
	}
	var all exchanges
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Exchanges) != 4 {
		t.Fatalf("the file has %d exchanges", len(all.Exchanges))
	}
	for _, x := range all.Exchanges {
		t.Run(x.Name, func(t *testing.T) { x.check(t) })
	}
}

func (x *exchange) check(t *testing.T) {
	extract := dumbHMAC(make([]byte, 32), x.FabricKey)
	if !bytes.Equal(dumbExpand(extract, "weft mac1", 32), x.MAC1Key) || !bytes.Equal(dumbExpand(extract, "weft psk", 32), x.Psk) {
		t.Error("the keys of the fabric are others")
	}
	gate := seal.NewGate([]trust.FabricKey{trust.FabricKey(x.FabricKey)}, secret.Seeded(2))
	_, responder := x.handshake(t, x.Prologue, x.Pattern, x.Initiator.EphemeralPrivate, x.Responder.EphemeralPrivate)
	for i, f := range x.Frames {
		_, rest, ok := gate.Verify(f.Frame)
		if !ok {
			t.Fatalf("mac1 of frame %d does not verify", i)
		}
		h, err := wire.ParseHandshake(rest[wire.OuterLen:])
		if err != nil || !bytes.Equal(h.Noise, f.Noise) || h.Pattern != x.Pattern || int(h.Message) != i+1 {
			t.Fatalf("frame %d: %+v, %v", i, h, err)
		}
		if i%2 == 1 {
			if got, err := responder.Write(f.Payload); err != nil || !bytes.Equal(got, f.Noise) {
				t.Errorf("the responder writes message %d as %x, %v", i+1, got, err)
			}
		} else if got, err := responder.Read(f.Noise); err != nil || !bytes.Equal(got, f.Payload) {
			t.Errorf("the responder reads message %d as %x, %v", i+1, got, err)
		}
	}
	if len(x.Frames[0].Frame) < len(x.Frames[1].Frame) {
		t.Errorf("the Hello has %d bytes, its answer %d", len(x.Frames[0].Frame), len(x.Frames[1].Frame))
	}
	s := responder.Secrets()
	if !bytes.Equal(s.Receive[:], x.Secrets.ToResponder) || !bytes.Equal(s.Send[:], x.Secrets.ToInitiator) {
		t.Error("the responder has other secrets")
	}
	relay := dumbMix(seal.Secret(x.Secrets.ToResponder), seal.Secret(x.Secrets.ToInitiator), "weft relay")
	if !bytes.Equal(relay[:], x.Secrets.Relay) || !bytes.Equal(append([]byte("weft renewal"), relay[:]...), x.Renewal.Prologue) {
		t.Error("the relay secret or the prologue of renewals is another one")
	}
	x.checkSealed(t)
}

func (x *exchange) checkSealed(t *testing.T) {
	suite, n := seal.AES, 16
	if x.AEAD == seal.ChaCha.String() {
		suite, n = seal.ChaCha, 32
	}
	for _, back := range []bool{false, true} {
		s, fresh := seal.Secret(x.Secrets.ToResponder), seal.Secret(x.Renewal.FreshToResponder)
		if back {
			s, fresh = seal.Secret(x.Secrets.ToInitiator), seal.Secret(x.Renewal.FreshToInitiator)
		}
		next := seal.Secret(dumbExpand(s[:], "weft next", 32))
		phases := []seal.Secret{s, next, dumbMix(next, fresh, "weft fresh")}
		for _, k := range x.Keys {
			if p := phases[k.Phase]; k.ToInitiator == back && (!bytes.Equal(p[:], k.Secret) || !bytes.Equal(dumbExpand(p[:], "weft key", n), k.Key)) {
				t.Errorf("phase %d, to the initiator %v: the key is another one", k.Phase, back)
			}
		}
		for _, f := range x.Sealed {
			if f.ToInitiator != back {
				continue
			}
			if got := dumbSeal(t, suite, phases[f.Phase], f.Plain, f.Clear, f.Counter); !bytes.Equal(got, f.Frame) {
				t.Errorf("%s of phase %d, to the initiator %v: sealed\n%x, the file says\n%x", f.Note, f.Phase, back, got, f.Frame)
			}
			o, _, err := wire.ParseOuter(f.Frame)
			if err != nil || o.Counter != f.Counter || (o.Flags&wire.FlagPhase != 0) != (f.Phase%2 == 1) || (o.Flags&wire.FlagClear != 0) != (f.Clear == wire.ClearLen) {
				t.Errorf("%s of phase %d: %+v, %v", f.Note, f.Phase, o, err)
			}
		}
	}
}
