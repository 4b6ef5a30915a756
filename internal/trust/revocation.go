package trust

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
)

// RevocationList names certificates that an authority revokes, by serial number. It also names
// static keys; all certificates for them are revoked. The list with the largest number counts.
// Numbers are little-endian:
//
//	 0   4  magic "WFR1"
//	 4   8  id of the authority
//	12   8  number of the list, not 0
//	20   2  count of serial numbers, then 8 bytes each, ascending
//	     2  count of static keys, then 32 bytes each, ascending
//	    64  Ed25519 signature over all bytes before it
type RevocationList struct {
	CA      CAID
	Number  uint64
	Serials []uint64    // sorted and distinct
	Keys    []PublicKey // sorted and distinct

	signature [ed25519.SignatureSize]byte
}

// MaxRevocationLen bounds an encoded list, in bytes.
const MaxRevocationLen = limits.RevocationBytes

const (
	revocationMagic = "WFR1"
	leastRevocation = 20 + 2 + 2 + ed25519.SignatureSize
)

func compareKeys(a, b PublicKey) int { return bytes.Compare(a[:], b[:]) }

// Sign sets l.CA, sorts the list and signs it. It refuses a list of more than MaxRevocationLen
// bytes.
func (l *RevocationList) Sign(ca ed25519.PrivateKey) error {
	if len(ca) != ed25519.PrivateKeySize {
		return fmt.Errorf("sign a revocation list: the authority's key has %d bytes; expected %d",
			len(ca), ed25519.PrivateKeySize)
	}
	l.CA = CAPublic(ca.Public().(ed25519.PublicKey)).ID()
	l.Serials, l.Keys = slices.Clone(l.Serials), slices.Clone(l.Keys)
	slices.Sort(l.Serials)
	slices.SortFunc(l.Keys, compareKeys)
	l.Serials, l.Keys = slices.Compact(l.Serials), slices.Compact(l.Keys)
	if n := leastRevocation + 8*len(l.Serials) + KeyLen*len(l.Keys); n > MaxRevocationLen {
		return fmt.Errorf("sign a revocation list: it would have %d bytes; expected at most %d; drop what has expired",
			n, MaxRevocationLen)
	}
	if err := l.check(); err != nil {
		return fmt.Errorf("sign a revocation list: %w", err)
	}
	l.signature = [ed25519.SignatureSize]byte(ed25519.Sign(ca, l.appendBody(nil)))
	return nil
}

// Verify checks the signature against the authorities. The error is ErrOtherFabric or ErrSignature.
func (l *RevocationList) Verify(authorities []CAPublic) error {
	if err := verify(authorities, l.CA, l.appendBody(nil), &l.signature); err != nil {
		return fmt.Errorf("revocation list %d: %w", l.Number, err)
	}
	return nil
}

// Append appends the encoded list.
func (l *RevocationList) Append(b []byte) []byte { return append(l.appendBody(b), l.signature[:]...) }

func (l *RevocationList) appendBody(b []byte) []byte {
	b = append(b, revocationMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(l.CA))
	b = binary.LittleEndian.AppendUint64(b, l.Number)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(l.Serials)))
	for _, s := range l.Serials {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(l.Keys)))
	for _, k := range l.Keys {
		b = append(b, k[:]...)
	}
	return b
}

// ParseRevocationList decodes a list. It does not check the signature: Verify does. The error wraps
// ErrMalformed.
func ParseRevocationList(b []byte) (*RevocationList, error) {
	if len(b) > MaxRevocationLen {
		return nil, fmt.Errorf("revocation list: %w: it has %d bytes; expected at most %d",
			ErrMalformed, len(b), MaxRevocationLen)
	}
	r := reader{rest: b}
	r.magic(revocationMagic)
	l := &RevocationList{CA: CAID(r.uint64()), Number: r.uint64()}
	if serials := r.take(8 * int(r.uint16())); len(serials) > 0 {
		l.Serials = make([]uint64, len(serials)/8)
		for i := range l.Serials {
			l.Serials[i] = binary.LittleEndian.Uint64(serials[8*i:])
		}
	}
	if keys := r.take(KeyLen * int(r.uint16())); len(keys) > 0 {
		l.Keys = make([]PublicKey, len(keys)/KeyLen)
		for i := range l.Keys {
			copy(l.Keys[i][:], keys[KeyLen*i:])
		}
	}
	copy(l.signature[:], r.take(ed25519.SignatureSize))
	err := r.end()
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, fmt.Errorf("revocation list: %w: %w", ErrMalformed, err)
	}
	return l, nil
}

func (l *RevocationList) check() error {
	if l.Number == 0 {
		return errors.New("its number is 0; expected another")
	}
	for i := 1; i < len(l.Serials); i++ {
		if l.Serials[i-1] >= l.Serials[i] {
			return errors.New("its serial numbers are not in order")
		}
	}
	for i := 1; i < len(l.Keys); i++ {
		if compareKeys(l.Keys[i-1], l.Keys[i]) >= 0 {
			return errors.New("its keys are not in order")
		}
	}
	return nil
}

// Revokes reports whether the list revokes c. Both must be of the same authority.
func (l *RevocationList) Revokes(c *Certificate) bool {
	if l.CA != c.CA {
		return false
	}
	_, bySerial := slices.BinarySearch(l.Serials, c.Serial)
	_, byKey := slices.BinarySearchFunc(l.Keys, c.Key, compareKeys)
	return bySerial || byKey
}

// Text returns the list in the form of files.
func (l *RevocationList) Text() string { return toText(prefixRevocation, l.Append(nil)) }

// RevocationListFromText parses the result of RevocationList.Text.
func RevocationListFromText(s string) (*RevocationList, error) {
	b, err := fromText(prefixRevocation, "revocation list", s, leastRevocation, MaxRevocationLen)
	if err != nil {
		return nil, err
	}
	return ParseRevocationList(b)
}
