// Package trust says which NICs a NIC believes, and what it allows them. It is pure: it reads no file and no clock.
//
//	fabric key ──derive──► PSK of handshakes, key of mac1, key of gossip
//	static key ──hash────► NIC id
package trust

import (
	"crypto/ecdh"
	"crypto/hkdf"
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

// FabricKey is the secret that all NICs of a fabric share.
type FabricKey [KeyLen]byte

// Labels of the keys that are derived from a FabricKey. No key serves two purposes.
const (
	LabelPSK    = "weft psk"    // of the Noise handshake
	LabelMAC1   = "weft mac1"   // of the first MAC of handshake frames
	LabelCookie = "weft cookie" // of the answer to a flood
	LabelGossip = "weft gossip" // of the registry that gossips
)

// Derive returns the key for one purpose, by HKDF with SHA-256.
func (k FabricKey) Derive(label string) (d [KeyLen]byte) {
	b, err := hkdf.Key(sha256.New, k[:], nil, label, KeyLen)
	if err != nil {
		panic("trust: HKDF refuses 32 bytes: " + err.Error())
	}
	return [KeyLen]byte(b)
}
