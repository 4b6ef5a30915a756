package trust

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// CAKey is the secret Ed25519 key of a certificate authority: its seed.
type CAKey [ed25519.SeedSize]byte

// CAPublic is the public half of a CAKey. NICs that trust the authority have it.
type CAPublic [ed25519.PublicKeySize]byte

// CAID names an authority in certificates: 64 bits of the hash of its public key. It is a hint
// for choosing a key, not a proof.
type CAID uint64

// NewCAKey draws a key from a cryptographic generator.
func NewCAKey(random io.Reader) (k CAKey, err error) {
	if _, err = io.ReadFull(random, k[:]); err != nil {
		return k, fmt.Errorf("draw an authority's key: %w", err)
	}
	return k, nil
}

// Private returns the key in the form of crypto/ed25519.
func (k CAKey) Private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k[:]) }

// Public returns the public half of k.
func (k CAKey) Public() CAPublic { return CAPublic(k.Private().Public().(ed25519.PublicKey)) }

// Text returns the key in the form of key files. It is a secret.
func (k CAKey) Text() string { return toText(prefixCA, k[:]) }

// ParseCAKey parses the result of CAKey.Text.
func ParseCAKey(s string) (k CAKey, err error) {
	b, err := secretFromText(prefixCA, "authority's key", s)
	return CAKey(b), err
}

// ID returns the authority's id.
func (k CAPublic) ID() CAID {
	sum := sha256.Sum256(append([]byte("weft authority"), k[:]...))
	return CAID(binary.LittleEndian.Uint64(sum[:]))
}

// String returns the id in hexadecimal digits.
func (id CAID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// String returns the key in the form of configurations.
func (k CAPublic) String() string { return toText(prefixCAPublic, k[:]) }

// ParseCAPublic parses the result of CAPublic.String.
func ParseCAPublic(s string) (k CAPublic, err error) {
	b, err := fromText(prefixCAPublic, "authority's public key", s, len(k), len(k))
	if err != nil {
		return k, err
	}
	return CAPublic(b), nil
}

// MarshalText makes files and JSON use the text form.
func (k CAPublic) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *CAPublic) UnmarshalText(b []byte) (err error) {
	*k, err = ParseCAPublic(string(b))
	return err
}

// verify checks a signature under the name of the authority id. The error is ErrOtherFabric or
// ErrSignature.
func verify(authorities []CAPublic, id CAID, signed []byte, signature *[ed25519.SignatureSize]byte) error {
	known := false
	for _, ca := range authorities {
		if ca.ID() != id {
			continue
		}
		known = true
		if ed25519.Verify(ca[:], signed, signature[:]) {
			return nil
		}
	}
	if known {
		return ErrSignature
	}
	return fmt.Errorf("%w: it names authority %v", ErrOtherFabric, id)
}
