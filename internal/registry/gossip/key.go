package gossip

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
)

// KeyLen is the length of a Key in bytes: AES-256 seals what members tell one another.
const KeyLen = 32

// Key seals the gossip of one fabric.
type Key [KeyLen]byte

// ErrKey is wrapped by errors about the fabric key.
var ErrKey = errors.New("fabric key")

// leastSecret is how many bytes a fabric key has at least; the base64 text of 24 random bytes is so long.
const leastSecret = 32

// purpose keeps this key apart from others that are made from the same fabric key.
const purpose = "weft gossip v1"

// LoadKey reads the fabric key from a file that only its owner may read, and derives the key of the gossip from it by
// HKDF with SHA-256. The file holds at least 32 bytes of any kind; white space around them does not count. Errors wrap
// ErrKey.
func LoadKey(path string) (Key, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	if !st.Mode().IsRegular() {
		return Key{}, fmt.Errorf("%w: %s is not a file", ErrKey, path)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return Key{}, fmt.Errorf("%w: %s has mode %#o, so that others can read it; expected 0600", ErrKey, path, st.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	k, err := DeriveKey(b)
	if err != nil {
		return Key{}, fmt.Errorf("%w, in %s", err, path)
	}
	return k, nil
}

// DeriveKey makes the key of the gossip from the fabric key. Errors wrap ErrKey.
func DeriveKey(secret []byte) (k Key, err error) {
	secret = bytes.TrimSpace(secret)
	if len(secret) < leastSecret {
		return Key{}, fmt.Errorf("%w: %d bytes; expected at least %d, such as `openssl rand -base64 32` prints", ErrKey, len(secret), leastSecret)
	}
	b, err := hkdf.Key(sha256.New, secret, nil, purpose, KeyLen)
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return Key(b), nil
}
