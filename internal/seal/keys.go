// Package seal protects the frames of a pair of NICs: a Noise handshake proves both and gives a
// secret to each direction, an AEAD seals frames with keys made of it, and MACs keep strangers and
// floods away from the handshake.
//
//	fabric key ─► psk ──► Noise XX or IK ─► Secrets ─► Direction: phase 0 ─► phase 1 ─► …
//	           └► mac1 ─► Gate                 └─► relay key
//
// It is pure: randomness comes from a reader in Config, time is an argument.
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
	ChaCha              // ChaCha20-Poly1305, where a processor has no AES
)

func (s Suite) String() string { return [...]string{"AES-128-GCM", "ChaCha20-Poly1305"}[s] }

// SecretLen is the length of a secret, in bytes.
const SecretLen = 32

// Secret is what the keys of one direction are made of, phase by phase.
type Secret [SecretLen]byte

// Labels of what is made of a secret.
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

// Next returns the secret of the phase after s. s does not follow from it.
func (s *Secret) Next() Secret { return Secret(s.expand(labelNext, SecretLen)) }

// Fresh returns the secret of the phase after s when a handshake has given fresh: it takes both to
// know it.
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
	nonce [nonceLen]byte // here, since what is passed to an interface escapes
}

// NewKey returns the key of a phase.
func NewKey(suite Suite, s *Secret) *Key { return &Key{aead: s.Aead(suite)} }

func (k *Key) at(counter uint64) []byte {
	binary.BigEndian.PutUint64(k.nonce[nonceLen-8:], counter)
	return k.nonce[:]
}

// Seal completes the frame in b, whose outer header has the counter: the first clear bytes stay as
// they are, and are covered by the tag; what follows in b[clear:n], and then from, is encrypted. If
// from is not empty, n must be clear: then the bytes are read once, from where they lie. It returns
// the length of the frame.
func (k *Key) Seal(b []byte, clear, n int, from []byte, counter uint64) int {
	plain := b[clear:n]
	if len(from) > 0 {
		plain = from
	}
	_ = b[:clear+len(plain)+wire.TagLen] // else the ciphertext would go elsewhere, and the plaintext would stay
	k.aead.Seal(b[clear:clear], k.at(counter), plain, b[:clear])
	return clear + len(plain) + wire.TagLen
}

// Open decrypts what is behind the first clear bytes of a frame to to, and reports whether its tag
// is good. to has the length of the frame less clear and the tag; it may be that part of the frame
// itself, and must not overlap it else. If the tag is bad, to is zeros afterwards.
func (k *Key) Open(to, frame []byte, clear int, counter uint64) bool {
	_, err := k.aead.Open(to[:0], k.at(counter), frame[clear:], frame[:clear])
	return err == nil
}
