package trust

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"github.com/weftnet/weft/internal/limits"
)

// FabricKey is the secret that all NICs of a fabric share.
type FabricKey [KeyLen]byte

// Labels of the keys that are derived from a FabricKey. No key serves two purposes.
const (
	LabelPSK    = "weft psk"    // of the Noise handshake
	LabelMAC1   = "weft mac1"   // of the first MAC of handshake frames
	LabelCookie = "weft cookie" // of the answer to a flood
	LabelGossip = "weft gossip" // of the registry that gossips
)

// NewFabricKey draws a key from a cryptographic generator.
func NewFabricKey(random io.Reader) (k FabricKey, err error) {
	if _, err = io.ReadFull(random, k[:]); err != nil {
		return k, fmt.Errorf("draw a fabric key: %w", err)
	}
	return k, nil
}

// Derive returns the key for one purpose, by HKDF with SHA-256.
func (k FabricKey) Derive(label string) (d [KeyLen]byte) {
	b, err := hkdf.Key(sha256.New, k[:], nil, label, KeyLen)
	if err != nil {
		panic("trust: HKDF refuses 32 bytes: " + err.Error())
	}
	return [KeyLen]byte(b)
}

// Text returns the join string of the key: one line, and a secret.
func (k FabricKey) Text() string { return toText(prefixFabric, k[:]) }

// ParseFabricKey parses the result of FabricKey.Text. The error is ErrNotAKey, ErrTruncated,
// ErrAltered or ErrWeak.
func ParseFabricKey(s string) (k FabricKey, err error) {
	b, err := secretFromText(prefixFabric, "fabric key", s)
	return FabricKey(b), err
}

// Check returns ErrWeak for a key that was not drawn at random.
func (k FabricKey) Check() error { return checkStrength("fabric key", (*[KeyLen]byte)(&k)) }

// Fingerprint returns a name of the key for logs and reports. It reveals nothing of the key
// itself.
func (k FabricKey) Fingerprint() string {
	d := k.Derive("weft fingerprint")
	return base32Text.EncodeToString(d[:5])
}

// Fabric holds the keys by which NICs of one fabric know one another. A NIC calls with the first
// key, and answers to all keys. The zero value has no key and belongs to no fabric.
type Fabric struct{ keys []FabricKey }

// NewFabric returns the fabric of 1 to 4 keys, the newest first. It refuses weak and repeated
// keys.
func NewFabric(keys ...FabricKey) (Fabric, error) {
	if len(keys) == 0 || len(keys) > limits.FabricKeys {
		return Fabric{}, fmt.Errorf("a fabric with %d keys: expected 1 to %d; remove the oldest",
			len(keys), limits.FabricKeys)
	}
	for i, k := range keys {
		if err := k.Check(); err != nil {
			return Fabric{}, fmt.Errorf("key %d of the fabric: %w", i+1, err)
		}
		if first := slices.Index(keys, k); first < i {
			return Fabric{}, fmt.Errorf("keys %d and %d of the fabric are the same; name each key once", first+1, i+1)
		}
	}
	return Fabric{slices.Clone(keys)}, nil
}

// Keys returns the keys. The caller must not change them.
func (f Fabric) Keys() []FabricKey { return f.keys }
