// Package seal protects the frames of a pair of NICs. A Noise handshake proves both NICs and
// gives each direction a secret. An AEAD seals frames with keys derived from it. MACs keep
// strangers and floods away from the handshake.
//
//	fabric key ─► psk ──► Noise XX or IK ─► Secrets ─► Direction: phase 0 ─► phase 1 ─► …
//	           └► mac1 ─► Gate                 └─► relay key
//
// The package is pure: randomness comes from a reader in Options, and time is an argument.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/weftnet/weft/internal/wire"
)

// Suite is an AEAD for frames.
type Suite uint8

// Suites. Both have nonces of 12 bytes and tags of 16.
const (
	AES    Suite = iota // AES-128-GCM
	ChaCha              // ChaCha20-Poly1305, for processors without AES
)

func (s Suite) String() string { return [...]string{"AES-128-GCM", "ChaCha20-Poly1305"}[s] }

// SecretLen is the length of a secret, in bytes.
const SecretLen = 32

// Secret is the source of the keys of one direction, phase by phase.
type Secret [SecretLen]byte

// Labels of values derived from a secret.
const (
	labelKey   = "weft key"
	labelNext  = "weft next"
	labelFresh = "weft fresh"
	labelRelay = "weft relay"
)

// expand returns n bytes for one purpose.
func (s *Secret) expand(label string, n int) []byte {
	b, err := hkdf.Expand(sha256.New, s[:], label, n)
	if err != nil {
		panic("seal: HKDF refuses " + label + ": " + err.Error())
	}
	return b
}

// Next returns the secret of the phase after s. s cannot be computed from it.
func (s *Secret) Next() Secret { return Secret(s.expand(labelNext, SecretLen)) }

// Fresh returns the secret of the phase after s when a handshake has given fresh. Only the holder
// of both secrets can compute it.
func (s *Secret) Fresh(fresh *Secret) Secret { return s.with(fresh, labelFresh) }

// with makes a secret of two, in this order.
func (s *Secret) with(other *Secret, label string) Secret {
	b, err := hkdf.Key(sha256.New, append(s[:len(s):len(s)], other[:]...), nil, label, SecretLen)
	if err != nil {
		panic("seal: HKDF refuses " + label + ": " + err.Error())
	}
	return Secret(b)
}

// key returns the key of a phase.
func (s *Secret) key(suite Suite) []byte { return s.expand(labelKey, suite.KeyLen()) }

// Aead returns the AEAD of a phase.
func (s *Secret) Aead(suite Suite) cipher.AEAD {
	a, err := suite.aead(s.key(suite))
	if err != nil {
		panic(fmt.Sprintf("seal: %v refuses its key: %v", suite, err))
	}
	return a
}

// aead returns the AEAD that has a key of the suite's length.
func (s Suite) aead(key []byte) (cipher.AEAD, error) {
	if s == ChaCha {
		return chacha20poly1305.New(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// nonceLen is the length of a nonce, in bytes: zeros, and the packet counter in the last eight.
const nonceLen = 12

// Key seals or opens the frames of one phase. It belongs to one goroutine.
type Key struct {
	aead  cipher.AEAD
	nonce [nonceLen]byte // a field, since a slice passed to an interface escapes
}

// NewKey returns the key of a phase.
func NewKey(suite Suite, s *Secret) *Key { return &Key{aead: s.Aead(suite)} }

func (k *Key) at(counter uint64) []byte {
	binary.BigEndian.PutUint64(k.nonce[nonceLen-8:], counter)
	return k.nonce[:]
}

// Seal completes the frame in b, whose outer header has the counter. The first clear bytes are
// unchanged and covered by the tag. The bytes in b[clear:n], or those of from, are encrypted. If
// from is not empty, n must be equal to clear: then the bytes are read only once, from their
// place. Seal returns the length of the frame.
func (k *Key) Seal(b []byte, clear, n int, from []byte, counter uint64) int {
	plain := b[clear:n]
	if len(from) > 0 {
		plain = from
	}
	// Without enough room, the ciphertext would go elsewhere, and the plaintext would stay.
	_ = b[:clear+len(plain)+wire.TagLen]
	k.aead.Seal(b[clear:clear], k.at(counter), plain, b[:clear])
	return clear + len(plain) + wire.TagLen
}

// Open decrypts the bytes behind the first clear bytes of a frame to to, and reports whether its
// tag is good. to has the length of the frame less clear and the tag. It may be that part of the
// frame itself, and must not overlap the frame otherwise. If the tag is bad, to is zeros
// afterwards.
func (k *Key) Open(to, frame []byte, clear int, counter uint64) bool {
	_, err := k.aead.Open(to[:0], k.at(counter), frame[clear:], frame[:clear])
	return err == nil
}
