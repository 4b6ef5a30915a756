package trust

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
)

// Certificate is an authority's statement about one NIC. Numbers are little-endian:
//
//	 0   4  magic "WFC1"
//	 4   8  id of the authority
//	12   8  serial number, not 0
//	20   8  NIC id
//	28  32  static key
//	60   8  not before, Unix seconds
//	68   8  not after, Unix seconds
//	76   1  roles, a bit set
//	77      users of program; users of run; patterns: each a count of 1 byte, then for each text
//	        a length of 1 byte and the text, in ascending order
//	    64  Ed25519 signature over all bytes before it
//
// A certificate has one spelling, and at most MaxCertificateLen bytes.
type Certificate struct {
	CA        CAID
	Serial    uint64
	NIC       nicid.ID
	Key       PublicKey
	NotBefore int64 // valid from this time on, in Unix seconds
	NotAfter  int64 // expired from this time on, in Unix seconds
	Roles     Roles
	// Applications are patterns for names of applications, in the syntax of path.Match; sorted.
	// None allow no name.
	Applications []string

	signature [ed25519.SignatureSize]byte
}

// MaxCertificateLen bounds an encoded certificate, in bytes.
const MaxCertificateLen = limits.CertificateBytes

const (
	certificateMagic = "WFC1"
	leastCertificate = 77 + 3 + ed25519.SignatureSize // without users and patterns
)

// Sign sets c.CA, sorts the lists and signs c. It refuses everything that a decoder would refuse,
// above all a certificate of more than MaxCertificateLen bytes.
func (c *Certificate) Sign(ca ed25519.PrivateKey) error {
	if len(ca) != ed25519.PrivateKeySize {
		return fmt.Errorf("sign a certificate: the authority's key has %d bytes; expected %d",
			len(ca), ed25519.PrivateKeySize)
	}
	c.CA = CAPublic(ca.Public().(ed25519.PublicKey)).ID()
	for _, list := range []*[]string{&c.Roles.ProgramUsers, &c.Roles.RunUsers, &c.Applications} {
		sorted := slices.Clone(*list)
		slices.Sort(sorted)
		*list = slices.Compact(sorted)
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("sign a certificate for NIC %v: %w", c.NIC, err)
	}
	body := c.appendBody(nil)
	if n := len(body) + ed25519.SignatureSize; n > MaxCertificateLen {
		return fmt.Errorf(
			"sign a certificate for NIC %v: it would have %d bytes; expected at most %d; name fewer users and patterns",
			c.NIC, n, MaxCertificateLen)
	}
	c.signature = [ed25519.SignatureSize]byte(ed25519.Sign(ca, body))
	return nil
}

// Verify checks the signature against the authorities. The error is ErrOtherFabric or ErrSignature.
func (c *Certificate) Verify(authorities []CAPublic) error {
	if err := verify(authorities, c.CA, c.appendBody(nil), &c.signature); err != nil {
		return fmt.Errorf("certificate %v of NIC %v: %w", SerialText(c.Serial), c.NIC, err)
	}
	return nil
}

// Append appends the encoded certificate.
func (c *Certificate) Append(b []byte) []byte { return append(c.appendBody(b), c.signature[:]...) }

func (c *Certificate) appendBody(b []byte) []byte {
	b = append(b, certificateMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.CA))
	b = binary.LittleEndian.AppendUint64(b, c.Serial)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.NIC))
	b = append(b, c.Key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.NotBefore))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.NotAfter))
	b = append(b, byte(c.Roles.Set))
	for _, list := range [][]string{c.Roles.ProgramUsers, c.Roles.RunUsers, c.Applications} {
		b = append(b, byte(len(list)))
		for _, s := range list {
			b = append(b, byte(len(s)))
			b = append(b, s...)
		}
	}
	return b
}

// ParseCertificate decodes a certificate. It does not check the signature: Verify does. The error
// wraps ErrMalformed.
func ParseCertificate(b []byte) (*Certificate, error) {
	if len(b) > MaxCertificateLen {
		return nil, fmt.Errorf("certificate: %w: it has %d bytes; expected at most %d",
			ErrMalformed, len(b), MaxCertificateLen)
	}
	r := reader{rest: b}
	r.magic(certificateMagic)
	c := &Certificate{CA: CAID(r.uint64()), Serial: r.uint64(), NIC: nicid.ID(r.uint64())}
	copy(c.Key[:], r.take(KeyLen))
	c.NotBefore, c.NotAfter = int64(r.uint64()), int64(r.uint64())
	c.Roles.Set = Role(r.byte())
	c.Roles.ProgramUsers = r.list()
	c.Roles.RunUsers = r.list()
	c.Applications = r.list()
	copy(c.signature[:], r.take(ed25519.SignatureSize))
	err := r.end()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("certificate: %w: %w", ErrMalformed, err)
	}
	return c, nil
}

// check returns an error for fields that no certificate may have.
func (c *Certificate) check() error {
	switch {
	case c.Serial == 0:
		return errors.New("serial number 0; expected another")
	case c.NIC == 0:
		return errors.New("NIC id 0; expected another")
	case c.Key == PublicKey{}:
		return errors.New("no static key")
	case c.NotBefore < 0 || c.NotAfter <= c.NotBefore:
		return fmt.Errorf("not before %s and not after %s; expected a period after 1970",
			dateText(c.NotBefore), dateText(c.NotAfter))
	case len(c.Applications) > limits.Patterns:
		return fmt.Errorf("%d patterns; expected at most %d", len(c.Applications), limits.Patterns)
	}
	for i, p := range c.Applications {
		if err := CheckPattern(p); err != nil {
			return err
		}
		if i > 0 && c.Applications[i-1] >= p {
			return fmt.Errorf("patterns %q and %q are not in order", c.Applications[i-1], p)
		}
	}
	return c.Roles.check()
}

// CheckPattern returns an error if p is not a pattern for names of applications: 1 to 48 bytes of
// the characters of a name (a-z, 0-9, '.', '_', '-'), '*', '?', and classes such as [a-f] and
// [^0-9].
func CheckPattern(p string) error {
	bad := p == "" || len(p) > limits.PatternBytes
	for _, c := range []byte(p) {
		bad = bad || !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("._-*?[]^", c) >= 0)
	}
	if _, err := path.Match(p, ""); err != nil || bad {
		return fmt.Errorf(
			"pattern %.60q: expected 1 to %d bytes of a-z, 0-9, '.', '_', '-', '*', '?' and classes such as [a-f]",
			p, limits.PatternBytes)
	}
	return nil
}

// AllowsName reports whether a pattern matches the name of an application.
func (c *Certificate) AllowsName(application string) bool {
	return slices.ContainsFunc(c.Applications, func(p string) bool {
		ok, err := path.Match(p, application)
		return ok && err == nil
	})
}

// validAt checks the period. The error is ErrNotYetValid or ErrExpired.
func (c *Certificate) validAt(wallSeconds int64) error {
	switch {
	case wallSeconds < c.NotBefore:
		return fmt.Errorf(
			"certificate %v of NIC %v: %w: it is valid from %s on, and this host's clock says %s; set the clock, "+
				"or sign an earlier start",
			SerialText(c.Serial), c.NIC, ErrNotYetValid, dateText(c.NotBefore), dateText(wallSeconds))
	case wallSeconds >= c.NotAfter:
		return fmt.Errorf(
			"certificate %v of NIC %v: %w at %s, and this host's clock says %s; sign a new one, or set the clock",
			SerialText(c.Serial), c.NIC, ErrExpired, dateText(c.NotAfter), dateText(wallSeconds))
	}
	return nil
}

// SerialText returns a serial number in the form that tools print and read.
func SerialText(serial uint64) string { return fmt.Sprintf("%016x", serial) }

// Text returns the certificate in the form of certificate files.
func (c *Certificate) Text() string { return toText(prefixCert, c.Append(nil)) }

// CertificateFromText parses the result of Certificate.Text.
func CertificateFromText(s string) (*Certificate, error) {
	b, err := fromText(prefixCert, "certificate", s, leastCertificate, MaxCertificateLen)
	if err != nil {
		return nil, err
	}
	return ParseCertificate(b)
}
