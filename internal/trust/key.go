// Package trust decides which NICs a NIC trusts, and what it allows them. It is pure: it reads no
// file and no clock.
//
//	fabric key ──derive──► PSK of handshakes, key of mac1, key of gossip
//	static key ──hash────► NIC id
package trust

import (
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/weftnet/weft/internal/nicid"
)

// KeyLen is the length of each key, in bytes.
const KeyLen = 32

// PrivateKey is the static X25519 key of a NIC.
type PrivateKey [KeyLen]byte

// PublicKey is the public half of a PrivateKey.
type PublicKey [KeyLen]byte

// Text returns the key in the form of key files. It is a secret.
func (k PrivateKey) Text() string { return toText(prefixPrivate, k[:]) }

// ParsePrivateKey parses the result of PrivateKey.Text.
func ParsePrivateKey(s string) (k PrivateKey, err error) {
	b, err := secretFromText(prefixPrivate, "static key", s)
	return PrivateKey(b), err
}

// Check returns an error for a key that was not drawn at random.
func (k PrivateKey) Check() error { return checkStrength("static key", (*[KeyLen]byte)(&k)) }

// String returns the key in the form of configurations and certificates.
func (k PublicKey) String() string { return toText(prefixPublic, k[:]) }

// ParsePublicKey parses the result of PublicKey.String.
func ParsePublicKey(s string) (k PublicKey, err error) {
	b, err := fromText(prefixPublic, "public key", s, KeyLen, KeyLen)
	if err != nil {
		return k, err
	}
	return PublicKey(b), nil
}

// MarshalText and UnmarshalText make files and JSON use the text form.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *PublicKey) UnmarshalText(b []byte) (err error) {
	*k, err = ParsePublicKey(string(b))
	return err
}

// NewPrivateKey draws a key from a cryptographic generator.
func NewPrivateKey(random io.Reader) (k PrivateKey, err error) {
	if _, err = io.ReadFull(random, k[:]); err != nil {
		return k, fmt.Errorf("draw a static key: %w", err)
	}
	return k, nil
}

// Public returns the public half of k.
func (k PrivateKey) Public() PublicKey {
	p, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		panic("trust: X25519 refuses 32 bytes: " + err.Error())
	}
	return PublicKey(p.PublicKey().Bytes())
}

// ID returns the id of the NIC whose static key k is: 64 bits of its hash, never 0.
func (k PublicKey) ID() nicid.ID {
	sum := sha256.Sum256(append([]byte("weft nic id"), k[:]...))
	return nicid.ID(max(binary.BigEndian.Uint64(sum[:]), 1))
}
