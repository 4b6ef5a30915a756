package seal_test

import (
	"bytes"
	"crypto/aes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/crypto/chacha20"
	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/wire"
)

func source(seed uint64) io.Reader { return secret.Seeded(seed).Reader(secret.Handshake) }

// The functions below are a second implementation of the keys and AEADs of docs/wire.md. They are
// slow and short.

func dumbHMAC(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// dumbExpand is HKDF-Expand for at most 32 bytes.
func dumbExpand(secret []byte, label string, n int) []byte {
	return dumbHMAC(secret, []byte(label), []byte{1})[:n]
}

// dumbMix is HKDF of two secrets, with an empty salt.
func dumbMix(a, b seal.Secret, label string) (s seal.Secret) {
	copy(s[:], dumbExpand(dumbHMAC(make([]byte, 32), a[:], b[:]), label, 32))
	return s
}

// gfTimes multiplies in the field of GCM, whose bit 0 is the highest bit of byte 0.
func gfTimes(x, y [16]byte) (z [16]byte) {
	for i := range 128 {
		if x[i/8]>>(7-i%8)&1 != 0 {
			for j := range z {
				z[j] ^= y[j]
			}
		}
		carry := y[15] & 1
		for j := 15; j > 0; j-- {
			y[j] = y[j]>>1 | y[j-1]<<7
		}
		y[0] >>= 1
		if carry != 0 {
			y[0] ^= 0xe1
		}
	}
	return z
}

// pad16 pads each part to a multiple of 16 bytes, and appends their lengths.
func pad16(aad, text []byte, length func([]byte, uint64) []byte, unit uint64) (b []byte) {
	for _, p := range [][]byte{aad, text} {
		b = append(b, p...)
		b = append(b, make([]byte, -len(p)&15)...)
	}
	return length(length(b, unit*uint64(len(aad))), unit*uint64(len(text)))
}

func dumbGCM(t testing.TB, key, nonce, plain, aad []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	encrypt := func(n uint32) (out [16]byte) {
		var in [16]byte
		copy(in[:], nonce)
		binary.BigEndian.PutUint32(in[12:], n)
		block.Encrypt(out[:], in[:])
		return out
	}
	text := bytes.Clone(plain)
	for i := range text {
		pad := encrypt(uint32(2 + i/16))
		text[i] ^= pad[i%16]
	}
	var h, sum [16]byte
	block.Encrypt(h[:], h[:])
	for part := range slices.Chunk(pad16(aad, text, binary.BigEndian.AppendUint64, 8), 16) {
		for i := range sum {
			sum[i] ^= part[i]
		}
		sum = gfTimes(sum, h)
	}
	mask := encrypt(1)
	for i := range sum {
		sum[i] ^= mask[i]
	}
	return append(text, sum[:]...)
}

func number(le []byte) *big.Int {
	be := bytes.Clone(le)
	slices.Reverse(be)
	return new(big.Int).SetBytes(be)
}

func dumbChaCha(t testing.TB, key, nonce, plain, aad []byte) []byte {
	c, err := chacha20.NewUnauthenticatedCipher(key, nonce)
	if err != nil {
		t.Fatal(err)
	}
	once := make([]byte, 64)
	c.XORKeyStream(once, once)
	text := make([]byte, len(plain))
	c.XORKeyStream(text, plain)
	for _, i := range []int{3, 7, 11, 15} {
		once[i] &= 15
	}
	for _, i := range []int{4, 8, 12} {
		once[i] &= 252
	}
	r, s, sum := number(once[:16]), number(once[16:32]), new(big.Int)
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 130), big.NewInt(5))
	for part := range slices.Chunk(pad16(aad, text, binary.LittleEndian.AppendUint64, 1), 16) {
		sum.Mod(sum.Mul(sum.Add(sum, number(append(bytes.Clone(part), 1))), r), prime)
	}
	tag := sum.Add(sum, s).FillBytes(make([]byte, 18))
	slices.Reverse(tag)
	return append(text, tag[:16]...)
}

// dumbSeal returns a frame sealed by the second implementation.
func dumbSeal(t testing.TB, suite seal.Suite, s seal.Secret, frame []byte, clear int, counter uint64) []byte {
	nonce := binary.BigEndian.AppendUint64(make([]byte, 4), counter)
	if suite == seal.AES {
		return append(bytes.Clone(frame[:clear]), dumbGCM(t, dumbExpand(s[:], "weft key", 16), nonce, frame[clear:], frame[:clear])...)
	}
	return append(bytes.Clone(frame[:clear]), dumbChaCha(t, dumbExpand(s[:], "weft key", 32), nonce, frame[clear:], frame[:clear])...)
}

func drawSecret(t *rapid.T, what string) (s seal.Secret) {
	copy(s[:], rapid.SliceOfN(rapid.Byte(), len(s), len(s)).Draw(t, what))
	return s
}

func TestFramesAreSealedAsASecondImplementationSealsThem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		suite := rapid.SampledFrom([]seal.Suite{seal.AES, seal.ChaCha}).Draw(rt, "suite")
		s := drawSecret(rt, "secret")
		clear := rapid.SampledFrom([]int{wire.OuterLen, wire.ClearLen}).Draw(rt, "clear")
		plain := rapid.SliceOfN(rapid.Byte(), clear, 200).Draw(rt, "frame")
		counter := rapid.Uint64Min(1).Draw(rt, "counter")
		want := dumbSeal(t, suite, s, plain, clear, counter)

		key := seal.NewKey(suite, &s)
		for _, apart := range []bool{false, true} {
			frame, n, from := make([]byte, len(plain)+wire.TagLen), len(plain), []byte(nil)
			copy(frame, plain)
			if apart && len(plain) > clear {
				from = bytes.Clone(plain[clear:])
				n = clear
				copy(frame[clear:], bytes.Repeat([]byte{0xaa}, len(frame)-clear))
			}
			if got := frame[:key.Seal(frame, clear, n, from, counter)]; !bytes.Equal(got, want) {
				rt.Fatalf("%v, payload apart %v: sealed\n%x, the second implementation\n%x", suite, apart, got, want)
			}
		}
		to := make([]byte, len(plain)-clear)
		if !key.Open(to, want, clear, counter) || !bytes.Equal(to, plain[clear:]) {
			rt.Fatalf("%v: opened %x, sealed %x", suite, to, plain[clear:])
		}
		if key.Open(to, want, clear, counter+1) {
			rt.Fatal("the frame opens under another counter")
		}
		forged := bytes.Clone(want)
		forged[rapid.IntRange(0, len(forged)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		copy(to, bytes.Repeat([]byte{1}, len(to)))
		if key.Open(to, forged, clear, counter) {
			rt.Fatal("a forged frame opens")
		}
		if !bytes.Equal(to, make([]byte, len(to))) {
			rt.Fatalf("%x is left where a forged frame was opened; expected zeros", to)
		}
	})
}

func TestSecretsFollowFromOneAnotherAsTheDocumentSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, fresh := drawSecret(t, "secret"), drawSecret(t, "fresh")
		if next := s.Next(); !bytes.Equal(next[:], dumbExpand(s[:], "weft next", 32)) {
			t.Fatal("the next secret is another one")
		}
		if s.Fresh(&fresh) != dumbMix(s, fresh, "weft fresh") {
			t.Fatal("the fresh secret is another one")
		}
	})
}

func TestSealingAndOpeningAllocateNothing(t *testing.T) {
	g, frame := newGate(1), make([]byte, 1400)
	signed := g.Sign(frame, 1200, 0, nil)
	for _, suite := range []seal.Suite{seal.AES, seal.ChaCha} {
		s := seal.Secret{1}
		key, sealed, payload := seal.NewKey(suite, &s), make([]byte, 1400), make([]byte, 1000)
		counter := uint64(0)
		for what, f := range map[string]func(){
			"seal and open in place": func() {
				counter++
				n := key.Seal(sealed, wire.OuterLen, 1000, nil, counter)
				if !key.Open(sealed[wire.OuterLen:n-wire.TagLen], sealed[:n], wire.OuterLen, counter) {
					t.Fatal("the frame does not open")
				}
			},
			"seal from elsewhere": func() { counter++; key.Seal(sealed, wire.ClearLen, wire.ClearLen, payload, counter) },
			"refuse": func() {
				if key.Open(sealed[wire.OuterLen:500], sealed[:500+wire.TagLen], wire.OuterLen, counter+1) {
					t.Fatal("a forged frame opens")
				}
			},
			"verify mac1": func() {
				if _, _, ok := g.Verify(frame[:signed]); !ok {
					t.Fatal("mac1 does not verify")
				}
			},
			"refuse mac1": func() {
				if _, _, ok := g.Verify(frame[:signed-1]); ok {
					t.Fatal("mac1 of a shorter frame verifies")
				}
			},
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%v, %s: %v allocations", suite, what, n)
			}
		}
	}
}

func randomBytes(seed uint64, n int) []byte {
	r, b := rand.New(rand.NewPCG(seed, 1)), make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
