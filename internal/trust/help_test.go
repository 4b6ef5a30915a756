package trust_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
)

// drawn returns a static key and an authority's key from a seed.
func drawn(t testing.TB, seed uint64) (trust.PublicKey, trust.CAKey) {
	t.Helper()
	r := secret.Seeded(seed).Reader(secret.StaticKey)
	k, err := trust.NewPrivateKey(r)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := trust.NewCAKey(r)
	if err != nil {
		t.Fatal(err)
	}
	return k.Public(), ca
}

const (
	day   = 24 * 60 * 60
	start = 1_700_000_000 // Unix seconds
)

// certified returns a signed certificate of the NIC with the key. The functions in change alter
// it before it is signed.
func certified(t testing.TB, key trust.PublicKey, ca trust.CAKey, change ...func(*trust.Certificate)) *trust.Certificate {
	t.Helper()
	c := &trust.Certificate{
		Serial: 7, NIC: nicid.ID(0x60dd7fff8c), Key: key, NotBefore: start, NotAfter: start + day,
		Roles: roles(t, "observe", "program=bob,alice", "run"), Applications: []string{"web", "app*"},
	}
	for _, f := range change {
		f(c)
	}
	if err := c.Sign(ca.Private()); err != nil {
		t.Fatal(err)
	}
	return c
}

func roles(t testing.TB, texts ...string) trust.Roles {
	t.Helper()
	r, err := trust.ParseRoles(texts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func revoking(t testing.TB, ca trust.CAKey, l trust.RevocationList) *trust.RevocationList {
	t.Helper()
	if err := l.Sign(ca.Private()); err != nil {
		t.Fatal(err)
	}
	return &l
}

// shows reports whether text contains a secret in any of the forms in which it might leak.
func shows(text string, secret []byte, form string) bool {
	return strings.Contains(text, form) || strings.Contains(strings.ToLower(text), hex.EncodeToString(secret[:4]))
}
