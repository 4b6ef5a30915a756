package trust_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

func TestACertificateIsReadAsItWasSigned(t *testing.T) {
	key, ca := drawn(t, 1)
	c := certified(t, key, ca)
	got, err := trust.ParseCertificate(c.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, got, cmpopts.IgnoreUnexported(trust.Certificate{})); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(got.Append(nil), c.Append(nil)) {
		t.Error("the certificate has another spelling")
	}
	if err := got.Verify([]trust.CAPublic{ca.Public()}); err != nil {
		t.Error(err)
	}
	if again, err := trust.CertificateFromText(c.Text() + "\n"); err != nil || again.Serial != c.Serial {
		t.Errorf("text form: %v", err)
	}
	if want := []string{"app*", "web"}; !cmp.Equal(c.Applications, want) {
		t.Errorf("patterns %q; want %q", c.Applications, want)
	}
}

func TestEachTruncatedCertificateIsRefused(t *testing.T) {
	key, ca := drawn(t, 1)
	b := certified(t, key, ca).Append(nil)
	for n := range b {
		if _, err := trust.ParseCertificate(b[:n]); !errors.Is(err, trust.ErrMalformed) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := trust.ParseCertificate(append(b, 0)); !errors.Is(err, trust.ErrMalformed) {
		t.Errorf("one byte more: %v", err)
	}
	if _, err := trust.ParseCertificate(make([]byte, 1<<20)); !errors.Is(err, trust.ErrMalformed) {
		t.Errorf("a mebibyte: %v", err)
	}
}

func TestEachAlteredBitOfACertificateIsNoticed(t *testing.T) {
	key, ca := drawn(t, 1)
	b := certified(t, key, ca).Append(nil)
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		c, err := trust.ParseCertificate(b)
		if err == nil {
			err = c.Verify([]trust.CAPublic{ca.Public()})
		}
		if err == nil {
			t.Errorf("bit %d of byte %d altered: accepted", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func TestACertificateOfAnotherAuthorityIsOfAnotherFabric(t *testing.T) {
	key, ca := drawn(t, 1)
	_, other := drawn(t, 2)
	c := certified(t, key, ca)
	if err := c.Verify([]trust.CAPublic{other.Public()}); !errors.Is(err, trust.ErrOtherFabric) {
		t.Errorf("unknown authority: %v", err)
	}
	if err := c.Verify([]trust.CAPublic{other.Public(), ca.Public()}); err != nil {
		t.Errorf("second of two authorities: %v", err)
	}
}

func TestWhatNoCertificateMayHoldIsNotSigned(t *testing.T) {
	key, ca := drawn(t, 1)
	for want, change := range map[string]func(*trust.Certificate){
		"serial number 0":                    func(c *trust.Certificate) { c.Serial = 0 },
		"NIC id 0":                           func(c *trust.Certificate) { c.NIC = 0 },
		"no static key":                      func(c *trust.Certificate) { c.Key = trust.PublicKey{} },
		"expected a period after 1970":       func(c *trust.Certificate) { c.NotAfter = c.NotBefore },
		"not before 1969-12-31 23:59:59 UTC": func(c *trust.Certificate) { c.NotBefore = -1 },
		"unknown roles 0x10":                 func(c *trust.Certificate) { c.Roles.Set |= 16 },
		"users for the role run, which is no": func(c *trust.Certificate) {
			c.Roles.Set = 0
			c.Roles.ProgramUsers = nil
			c.Roles.RunUsers = []string{"a"}
		},
		`user "a b"`:   func(c *trust.Certificate) { c.Roles.RunUsers = []string{"a b"} },
		`pattern "[a"`: func(c *trust.Certificate) { c.Applications = []string{"[a"} },
		`pattern ""`:   func(c *trust.Certificate) { c.Applications = []string{""} },
		`pattern "A"`:  func(c *trust.Certificate) { c.Applications = []string{"A"} },
		"256 patterns; expected at most 255": func(c *trust.Certificate) {
			for i := range 256 {
				c.Applications = append(c.Applications, fmt.Sprint("q", i))
			}
			c.Applications = c.Applications[2:]
		},
		"expected at most 640; name fewer users and patterns": func(c *trust.Certificate) {
			for i := range 60 {
				c.Applications = append(c.Applications, fmt.Sprint("application", i))
			}
		},
	} {
		c := certified(t, key, ca)
		change(c)
		if err := c.Sign(ca.Private()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if err := certified(t, key, ca).Sign(nil); err == nil {
		t.Error("no key signs")
	}
}

func TestALargestCertificateIsAccepted(t *testing.T) {
	key, ca := drawn(t, 1)
	c := certified(t, key, ca, func(c *trust.Certificate) { c.Roles, c.Applications = trust.Roles{}, nil })
	room := trust.MaxCertificateLen - len(c.Append(nil))
	// patterns of 20 bytes and one that fills the rest, each with its length
	for i := 0; room > 0; i++ {
		n := min(20, room-1)
		if left := room - 1 - n; left == 1 {
			n--
		}
		c.Applications = append(c.Applications, fmt.Sprintf("%02d%s", i, strings.Repeat("x", n))[:n])
		room -= 1 + n
	}
	if err := c.Sign(ca.Private()); err != nil || len(c.Append(nil)) != trust.MaxCertificateLen {
		t.Fatalf("%d bytes, %v", len(c.Append(nil)), err)
	}
	if _, err := trust.ParseCertificate(c.Append(nil)); err != nil {
		t.Error(err)
	}
}

func TestPatternsMatchWholeNames(t *testing.T) {
	c := trust.Certificate{Applications: []string{"app*", "db-[0-9]", "x?"}}
	for name, want := range map[string]bool{
		"app": true, "app3": true, "myapp": false, "db-7": true, "db-77": false, "x": false, "xy": true, "": false,
	} {
		if got := c.AllowsName(name); got != want {
			t.Errorf("%q: %v; want %v", name, got, want)
		}
	}
	if (&trust.Certificate{}).AllowsName("app") {
		t.Error("a certificate without patterns allows a name")
	}
}

func FuzzCertificate(f *testing.F) {
	key, ca := drawn(f, 1)
	f.Add(certified(f, key, ca).Append(nil))
	f.Add(certified(f, key, ca, func(c *trust.Certificate) { c.Roles, c.Applications = trust.Roles{}, nil }).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := trust.ParseCertificate(b)
		if err != nil {
			if !errors.Is(err, trust.ErrMalformed) {
				t.Errorf("another error: %v", err)
			}
			return
		}
		if !bytes.Equal(c.Append(nil), b) {
			t.Errorf("%x is written as %x", b, c.Append(nil))
		}
		if c.NIC == 0 || c.Serial == 0 {
			t.Error("a certificate of no NIC or without number was accepted")
		}
		if c.NIC != nicid.ID(0x60dd7fff8c) && c.Verify([]trust.CAPublic{ca.Public()}) == nil {
			t.Error("the fuzzer has forged a signature")
		}
		if again, err := trust.CertificateFromText(c.Text()); err != nil || again.Text() != c.Text() {
			t.Errorf("text form: %v", err)
		}
	})
}
