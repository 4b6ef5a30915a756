package fabric_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

func TestRevocationListsAreKeptAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "revoked")
	if lists, err := fabric.ReadRevocations(path); err != nil || lists != nil {
		t.Errorf("no file: %d lists, %v", len(lists), err)
	}
	var kept []*trust.RevocationList
	for seed := range uint64(4) { // lists of the greatest length
		l := &trust.RevocationList{Number: 1 + seed}
		for i := range uint64(2036) {
			l.Serials = append(l.Serials, i+1)
		}
		if err := l.Sign(trust.CAKey(key(t, seed)).Private()); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, l)
	}
	if err := fabric.KeepRevocations(path, kept); err != nil {
		t.Fatal(err)
	}
	lists, err := fabric.ReadRevocations(path)
	if err != nil || len(lists) != 4 || !bytes.Equal(lists[3], kept[3].Append(nil)) {
		t.Errorf("%d lists, %v", len(lists), err)
	}
	for want, text := range map[string]string{
		"revocation list: altered":    kept[0].Text() + "x",
		"this is a fabric key":        key(t, 1).Text(),
		"has more than 131072 bytes;": strings.Repeat("x", 131073),
	} {
		if _, err := fabric.ReadRevocations(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestACertificateIsReadFromItsFile(t *testing.T) {
	public := trust.PrivateKey(key(t, 1)).Public()
	c := &trust.Certificate{Serial: 1, NIC: public.ID(), Key: public, NotAfter: 1}
	if err := c.Sign(trust.CAKey(key(t, 2)).Private()); err != nil {
		t.Fatal(err)
	}
	if got, err := fabric.ReadCertificate(write(t, c.Text()+"\n")); err != nil || got.Text() != c.Text() {
		t.Errorf("%v", err)
	}
	for want, path := range map[string]string{
		"certificate: truncated": write(t, c.Text()[:90]),
		"certificate: open ":     filepath.Join(t.TempDir(), "none"),
	} {
		if _, err := fabric.ReadCertificate(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
