package seal_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// noiseVector is one published handshake: lines of name=hex.
type noiseVector map[string]string

func (v noiseVector) bytes(t testing.TB, name string) []byte {
	t.Helper()
	b, err := hex.DecodeString(v[name])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

func (v noiseVector) key(t testing.TB, name string) (k [trust.KeyLen]byte) {
	t.Helper()
	if copy(k[:], v.bytes(t, name)) != len(k) {
		t.Fatalf("the vector has no %s of %d bytes", name, len(k))
	}
	return k
}

func readNoiseVectors(t testing.TB) (all []noiseVector) {
	t.Helper()
	b, err := os.ReadFile("testdata/noise_vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(b), "\n\n") {
		v := noiseVector{}
		for line := range strings.Lines(block) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
				v[name] = value
			}
		}
		if len(v) > 0 {
			all = append(all, v)
		}
	}
	return all
}

// ends makes both ends of a vector's handshake.
func (v noiseVector) ends(t testing.TB) (initiator, responder *seal.Handshake) {
	t.Helper()
	own := seal.NewIdentity(trust.PrivateKey(v.key(t, "init_static")))
	other := seal.NewIdentity(trust.PrivateKey(v.key(t, "resp_static")))
	options := func(ephemeral string) seal.Options {
		return seal.Options{
			Psk: v.key(t, "preshared_key"), Prologue: v.bytes(t, "prologue"), Random: bytes.NewReader(v.bytes(t, ephemeral)),
		}
	}
	pattern, peer := wire.PatternXX, (*trust.PublicKey)(nil)
	if strings.Contains(v["handshake"], "IKpsk2") {
		key := other.Public()
		pattern, peer = wire.PatternIK, &key
	}
	responder, err := seal.Respond(other, pattern, options("gen_resp_ephemeral"))
	if err != nil {
		t.Fatal(err)
	}
	return seal.Initiate(own, peer, options("gen_init_ephemeral")), responder
}

func TestHandshakesAreThePublishedOnes(t *testing.T) {
	patterns := map[string]int{}
	for i, v := range readNoiseVectors(t) {
		patterns[v["handshake"]]++
		t.Run(fmt.Sprint(i, " ", v["handshake"]), func(t *testing.T) { checkNoiseVector(t, v) })
	}
	if patterns["Noise_XXpsk3_25519_AESGCM_SHA256"] < 4 || patterns["Noise_IKpsk2_25519_AESGCM_SHA256"] < 4 {
		t.Errorf("vectors by pattern: %v; expected four of each", patterns)
	}
}

func checkNoiseVector(t *testing.T, v noiseVector) {
	a, b := v.ends(t)
	from, to := a, b
	n := 0
	for ; a.Secrets() == nil; n++ {
		payload := v.bytes(t, fmt.Sprintf("msg_%d_payload", n))
		message, err := from.Write(payload)
		if err != nil {
			t.Fatalf("message %d: %v", n, err)
		}
		if want := v.bytes(t, fmt.Sprintf("msg_%d_ciphertext", n)); !bytes.Equal(message, want) {
			t.Fatalf("message %d is\n%x, published is\n%x", n, message, want)
		}
		got, err := to.Read(message)
		if err != nil || !bytes.Equal(got, payload) {
			t.Fatalf("message %d carries %x, %v; wrote %x", n, got, err, payload)
		}
		from, to = to, from
	}
	if *a.Secrets() != (seal.Secrets{Send: b.Secrets().Receive, Receive: b.Secrets().Send, Relay: b.Secrets().Relay}) {
		t.Fatal("the two ends have different secrets")
	}
	from, to = a, b // the file's order, whichever end wrote last
	for ; v[fmt.Sprintf("msg_%d_ciphertext", n)] != ""; n++ {
		secrets := map[*seal.Handshake]*seal.Secrets{a: a.Secrets(), b: b.Secrets()}[from]
		want := v.bytes(t, fmt.Sprintf("msg_%d_ciphertext", n))
		got := noiseSeal(t, secrets.Send, v.bytes(t, fmt.Sprintf("msg_%d_payload", n)))
		if !bytes.Equal(got, want) {
			t.Errorf("message %d behind the handshake is\n%x, published is\n%x", n, got, want)
		}
		from, to = to, from
	}
	for _, h := range []*seal.Handshake{a, b} {
		own, peer := "init_static", "resp_static"
		if h == b {
			own, peer = peer, own
		}
		if key, ok := h.PeerKey(); !ok || key != trust.PrivateKey(v.key(t, peer)).Public() {
			t.Errorf("the peer of %s has proved %v, %v", own, key, ok)
		}
	}
}

// noiseSeal uses a key after a handshake as Noise itself does: AES-256-GCM with nonce 0.
func noiseSeal(t *testing.T, key seal.Secret, payload []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	a, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return a.Seal(nil, make([]byte, 12), payload, nil)
}

// handshakes makes the two ends of a handshake. change alters the options of the responder.
func handshakes(pattern uint8, change func(o *seal.Options)) (a, b *seal.Handshake) {
	own, other := seal.NewIdentity(trust.PrivateKey{1}), seal.NewIdentity(trust.PrivateKey{2})
	options := seal.Options{Psk: [trust.KeyLen]byte{7}, Prologue: []byte("weft"), Random: source(1)}
	var peer *trust.PublicKey
	if pattern == wire.PatternIK {
		key := other.Public()
		peer = &key
	}
	a = seal.Initiate(own, peer, options)
	if change != nil {
		change(&options)
	}
	b, err := seal.Respond(other, pattern, options)
	if err != nil {
		panic(err)
	}
	return a, b
}

func TestEveryAlteredByteOfAHandshakeIsRefused(t *testing.T) {
	for _, pattern := range []uint8{wire.PatternXX, wire.PatternIK} {
		for message := range 4 - int(pattern) {
			for at := 0; ; at++ {
				from, to := handshakes(pattern, nil)
				for range message {
					m, err := from.Write([]byte("payload"))
					if err == nil {
						_, err = to.Read(m)
					}
					if err != nil {
						t.Fatal(err)
					}
					from, to = to, from
				}
				m, err := from.Write([]byte("payload"))
				if err != nil {
					t.Fatal(err)
				}
				if at == len(m) {
					break
				}
				m[at] ^= 1
				if _, err := to.Read(m); err == nil {
					t.Errorf("pattern %d, message %d: byte %d was altered, and the message is taken", pattern, message+1, at)
				}
				if to.Secrets() != nil {
					t.Errorf("pattern %d, message %d: byte %d was altered, and there are secrets", pattern, message+1, at)
				}
			}
		}
	}
}

func TestAnotherFabricKeyOrPrologueFinishesNoHandshake(t *testing.T) {
	for name, change := range map[string]func(o *seal.Options){
		"psk": func(o *seal.Options) { o.Psk[0]++ }, "prologue": func(o *seal.Options) { o.Prologue = []byte("weft renewal") },
	} {
		for _, pattern := range []uint8{wire.PatternXX, wire.PatternIK} {
			from, to := handshakes(pattern, change)
			a, b := from, to
			for range 3 {
				m, err := from.Write(nil)
				if err == nil {
					_, err = to.Read(m)
				}
				if err != nil {
					break
				}
				from, to = to, from
			}
			if a.Secrets() != nil && b.Secrets() != nil {
				t.Errorf("another %s, pattern %d: both ends have secrets", name, pattern)
			}
		}
	}
}

// The pre-shared key enters with the last message, so the first message of XX may hold no secret
// (docs/security.md).
func TestTheFirstMessageOfXXIsReadWithoutTheFabricKey(t *testing.T) {
	for pattern, readable := range map[uint8]bool{wire.PatternXX: true, wire.PatternIK: false} {
		a, _ := handshakes(pattern, nil)
		m, err := a.Write([]byte("hello"))
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := seal.Respond(seal.NewIdentity(trust.PrivateKey{99}), pattern, seal.Options{
			Psk: [trust.KeyLen]byte{99}, Prologue: []byte("weft"), Random: source(1),
		})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := stranger.Read(m); (err == nil && string(b) == "hello") != readable {
			t.Errorf("pattern %d: a stranger reads %q, %v", pattern, b, err)
		}
	}
}

func TestMessagesOutOfTurnAreRefused(t *testing.T) {
	for _, pattern := range []uint8{wire.PatternXX, wire.PatternIK} {
		a, b := handshakes(pattern, nil)
		if _, err := b.Write(nil); err == nil {
			t.Error("the responder wrote the first message")
		}
		if _, err := a.Read(make([]byte, 200)); err == nil {
			t.Error("the initiator read before it wrote")
		}
		m, err := a.Write(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write(nil); err == nil {
			t.Error("the initiator wrote two messages in a row")
		}
		if _, err := b.Read(m); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(m); err == nil {
			t.Error("the responder read one message twice")
		}
	}
	if _, err := seal.Respond(seal.NewIdentity(trust.PrivateKey{1}), wire.PatternNone, seal.Options{}); err == nil {
		t.Error("a handshake without pattern began")
	}
}
