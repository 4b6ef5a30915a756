package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math/bits"
	"strings"
)

// The text forms. Each is one line without spaces: a prefix that names the kind, then the bytes
// and a checksum of 4 bytes in lower-case base32.
//
//	weft1-…         fabric key: the join string
//	weftkey1-…      static key of a NIC
//	weftpub1-…      its public half
//	weftca1-…       key of a certificate authority
//	weftcapub1-…    its public half
//	weftcert1-…     certificate
//	weftrevoked1-…  revocation list
const (
	prefixFabric     = "weft1-"
	prefixPrivate    = "weftkey1-"
	prefixPublic     = "weftpub1-"
	prefixCA         = "weftca1-"
	prefixCAPublic   = "weftcapub1-"
	prefixCert       = "weftcert1-"
	prefixRevocation = "weftrevoked1-"
)

// checksumLen lets one altered text in 2^32 pass. It only guards against typing errors.
const checksumLen = 4

var base32Text = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func checksum(prefix string, b []byte) []byte {
	sum := sha256.Sum256(append([]byte(prefix), b...))
	return sum[:checksumLen]
}

func toText(prefix string, b []byte) string {
	return prefix + base32Text.EncodeToString(append(bytes.Clone(b), checksum(prefix, b)...))
}

// fromText is the inverse of toText. what names the kind of text in errors. least and most bound
// the number of bytes. White space around the text is ignored, as files end with a newline.
func fromText(prefix, what, s string, least, most int) ([]byte, error) {
	s = strings.TrimSpace(s)
	body, ok := strings.CutPrefix(s, prefix)
	switch {
	case s == "":
		return nil, fmt.Errorf("%s: %w: the text is empty; expected one line that begins with %s",
			what, ErrNotAKey, prefix)
	case !ok && strings.HasPrefix(prefix, s):
		return nil, fmt.Errorf("%s: %w after %d characters; copy the whole line", what, ErrTruncated, len(s))
	case !ok:
		return nil, fmt.Errorf("%s: %w: expected one line that begins with %s%s", what, ErrNotAKey, prefix, kindOf(s))
	case len(body) > base32Text.EncodedLen(most+checksumLen):
		return nil, fmt.Errorf("%s: %w: it has %d characters; expected at most %d; copy the line alone",
			what, ErrAltered, len(s), len(prefix)+base32Text.EncodedLen(most+checksumLen))
	}
	if i := strings.IndexFunc(body, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '2' && r <= '7')
	}); i >= 0 {
		return nil, fmt.Errorf("%s: %w: character %d is not one of a-z and 2-7; copy the line again",
			what, ErrAltered, len(prefix)+i+1)
	}
	if len(body) < base32Text.EncodedLen(least+checksumLen) {
		return nil, fmt.Errorf("%s: %w: it has %d characters; expected at least %d; copy the whole line",
			what, ErrTruncated, len(s), len(prefix)+base32Text.EncodedLen(least+checksumLen))
	}
	b, err := base32Text.DecodeString(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %d characters are no whole number of bytes; copy the whole line",
			what, ErrTruncated, len(s))
	}
	if n := len(b) - checksumLen; !bytes.Equal(checksum(prefix, b[:n]), b[n:]) || toText(prefix, b[:n]) != s {
		return nil, fmt.Errorf("%s: %w: the checksum is wrong; copy the line again", what, ErrAltered)
	}
	return b[:len(b)-checksumLen], nil
}

// kindOf names the kind of text that was given in place of the expected one.
func kindOf(s string) string {
	for _, k := range []struct{ prefix, kind string }{
		{prefixFabric, "a fabric key"}, {prefixPrivate, "a NIC's static key"}, {prefixPublic, "a NIC's public key"},
		{prefixCA, "an authority's secret key"}, {prefixCAPublic, "an authority's public key"},
		{prefixCert, "a certificate"}, {prefixRevocation, "a revocation list"},
	} {
		if strings.HasPrefix(s, k.prefix) {
			return "; this is " + k.kind
		}
	}
	return ""
}

// leastDistinct is the least number of distinct bytes in a secret. A drawn key has fewer with a
// probability below 2^-100.
const leastDistinct = 8

// checkStrength refuses secrets that were not drawn at random: zeros, one letter repeated, a
// short word repeated.
func checkStrength(what string, key *[KeyLen]byte) error {
	var seen [4]uint64
	for _, b := range key {
		seen[b>>6] |= 1 << (b & 63)
	}
	distinct := 0
	for _, w := range seen {
		distinct += bits.OnesCount64(w)
	}
	if distinct < leastDistinct {
		return fmt.Errorf("%s: %w: it has %d distinct bytes; expected at least %d; draw a new one",
			what, ErrWeak, distinct, leastDistinct)
	}
	return nil
}

// secretFromText parses a secret of KeyLen bytes.
func secretFromText(prefix, what, s string) (key [KeyLen]byte, err error) {
	b, err := fromText(prefix, what, s, KeyLen, KeyLen)
	if err != nil {
		return key, err
	}
	if err := checkStrength(what, (*[KeyLen]byte)(b)); err != nil {
		return key, err
	}
	return [KeyLen]byte(b), nil
}
