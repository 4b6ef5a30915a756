package trust_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftnet/weft/internal/trust"
)

func TestARevocationListIsReadAsItWasSigned(t *testing.T) {
	key, ca := drawn(t, 1)
	second, _ := drawn(t, 2)
	l := revoking(t, ca, trust.RevocationList{Number: 3, Serials: []uint64{9, 2, 9}, Keys: []trust.PublicKey{key, second}})
	got, err := trust.ParseRevocationList(l.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(l, got, cmpopts.IgnoreUnexported(trust.RevocationList{})); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(got.Append(nil), l.Append(nil)) || len(got.Serials) != 2 {
		t.Errorf("the list has another spelling, or %d serial numbers", len(got.Serials))
	}
	if err := got.Verify([]trust.CAPublic{ca.Public()}); err != nil {
		t.Error(err)
	}
	if again, err := trust.RevocationListFromText(l.Text()); err != nil || again.Number != 3 {
		t.Errorf("text form: %v", err)
	}
}

func TestEachTruncatedOrAlteredListIsRefused(t *testing.T) {
	key, ca := drawn(t, 1)
	b := revoking(t, ca, trust.RevocationList{Number: 3, Serials: []uint64{9, 2}, Keys: []trust.PublicKey{key}}).Append(nil)
	for n := range b {
		if _, err := trust.ParseRevocationList(b[:n]); !errors.Is(err, trust.ErrMalformed) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	for _, long := range [][]byte{append(bytes.Clone(b), 0), make([]byte, trust.MaxRevocationLen+1)} {
		if _, err := trust.ParseRevocationList(long); !errors.Is(err, trust.ErrMalformed) {
			t.Errorf("%d bytes: %v", len(long), err)
		}
	}
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		l, err := trust.ParseRevocationList(b)
		if err == nil {
			err = l.Verify([]trust.CAPublic{ca.Public()})
		}
		if err == nil {
			t.Errorf("bit %d of byte %d altered: accepted", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func TestAListIsSignedUpToItsBound(t *testing.T) {
	_, ca := drawn(t, 1)
	l := trust.RevocationList{Number: 1}
	for i := range uint64((trust.MaxRevocationLen - 88) / 8) {
		l.Serials = append(l.Serials, i+1)
	}
	full := revoking(t, ca, l)
	if got, err := trust.ParseRevocationList(full.Append(nil)); err != nil || len(got.Serials) != len(l.Serials) {
		t.Errorf("%d serial numbers: %v", len(l.Serials), err)
	}
	if text, err := trust.RevocationListFromText(full.Text()); err != nil || text.Number != 1 {
		t.Errorf("its text: %v", err)
	}
	l.Serials = append(l.Serials, 1<<40)
	if err := l.Sign(ca.Private()); err == nil || !strings.Contains(err.Error(), "drop what has expired") {
		t.Errorf("one more: %v", err)
	}
	if err := (&trust.RevocationList{}).Sign(ca.Private()); err == nil {
		t.Error("a list without a number is signed")
	}
}

// A certificate must not be accepted as a list, nor a list as a certificate: one key signs both.
func TestASignatureCountsForOneKindOnly(t *testing.T) {
	key, ca := drawn(t, 1)
	if _, err := trust.ParseRevocationList(certified(t, key, ca).Append(nil)); !errors.Is(err, trust.ErrMalformed) {
		t.Errorf("certificate as a list: %v", err)
	}
	l := revoking(t, ca, trust.RevocationList{Number: 1, Serials: make([]uint64, 1)})
	if _, err := trust.ParseCertificate(l.Append(nil)); !errors.Is(err, trust.ErrMalformed) {
		t.Errorf("list as a certificate: %v", err)
	}
}

func FuzzRevocationList(f *testing.F) {
	key, ca := drawn(f, 1)
	f.Add(revoking(f, ca, trust.RevocationList{Number: 3, Serials: []uint64{9, 2}, Keys: []trust.PublicKey{key}}).Append(nil))
	f.Add(revoking(f, ca, trust.RevocationList{Number: 1}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := trust.ParseRevocationList(b)
		if err != nil {
			if !errors.Is(err, trust.ErrMalformed) {
				t.Errorf("another error: %v", err)
			}
			return
		}
		if !bytes.Equal(l.Append(nil), b) {
			t.Errorf("%x is written as %x", b, l.Append(nil))
		}
	})
}
