package authority_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/fabric/authority"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
)

const (
	now = 1_700_000_000 // Unix seconds
	day = 24 * 60 * 60
)

func create(t *testing.T) (*authority.Authority, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	a, err := authority.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a, dir
}

// sign signs a certificate, valid for one day, for a NIC whose key comes from the seed.
func sign(t *testing.T, a *authority.Authority, seed uint64) *trust.Certificate {
	t.Helper()
	k, err := trust.NewPrivateKey(secret.Seeded(seed).Reader(secret.StaticKey))
	if err != nil {
		t.Fatal(err)
	}
	c := &trust.Certificate{Key: k.Public(), NIC: k.Public().ID(), NotBefore: now, NotAfter: now + day, Applications: []string{"*"}}
	if err := a.Sign(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnAuthorityIsMadeOnceAndUsedByOneProcess(t *testing.T) {
	a, dir := create(t)
	if _, err := authority.Create(dir); err == nil || !strings.Contains(err.Error(), "has a certificate authority already") {
		t.Errorf("made again: %v", err)
	}
	if _, err := authority.Open(dir); err == nil || !strings.Contains(err.Error(), "holds") {
		t.Errorf("used by two: %v", err)
	}
	public := a.Public()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := authority.Open(dir)
	if err != nil || b.Public() != public {
		t.Fatalf("opened again: %v", err)
	}
	defer b.Close()
	if st, err := os.Stat(filepath.Join(dir, "ca.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := authority.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "weft fabric ca init") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestWhatIsSignedIsWrittenDown(t *testing.T) {
	a, _ := create(t)
	one, two := sign(t, a, 1), sign(t, a, 2)
	all, err := a.Issued()
	if err != nil || len(all) != 2 || all[0].Text() != one.Text() || all[1].Text() != two.Text() || one.Serial == two.Serial {
		t.Errorf("%d certificates, %v", len(all), err)
	}
	if err := one.Verify([]trust.CAPublic{a.Public()}); err != nil {
		t.Error(err)
	}
	if err := a.Sign(&trust.Certificate{}); err == nil {
		t.Error("an empty certificate is signed")
	}
	if all, err := a.Issued(); err != nil || len(all) != 2 {
		t.Errorf("a refused one is written down: %d, %v", len(all), err)
	}
}

func TestEachRevocationListHoldsTheLastAndDropsWhatEndedLongAgo(t *testing.T) {
	a, dir := create(t)
	one, two := sign(t, a, 1), sign(t, a, 2)
	const unknown = 77 // serial number of a certificate that was signed elsewhere
	for _, step := range []struct {
		what    string
		serials []uint64
		keys    []trust.PublicKey
		at      int64
		want    []uint64
		wantKey int
	}{
		{"first", []uint64{one.Serial}, nil, now, []uint64{one.Serial}, 0},
		{"second", []uint64{unknown}, []trust.PublicKey{two.Key}, now, []uint64{one.Serial, unknown}, 1},
		{"clock set back", []uint64{two.Serial}, nil, now - 9*day, []uint64{one.Serial, two.Serial, unknown}, 1},
		{"soon after their end", nil, nil, now + 30*day, []uint64{one.Serial, two.Serial, unknown}, 1},
		{"long after their end", nil, nil, now + 32*day, []uint64{unknown}, 1},
	} {
		last, err := a.List()
		if err != nil {
			t.Fatal(err)
		}
		l, err := a.Revoke(step.serials, step.keys, step.at)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		slices.Sort(step.want)
		if !slices.Equal(l.Serials, step.want) || len(l.Keys) != step.wantKey {
			t.Errorf("%s: %x and %d keys; want %x and %d", step.what, l.Serials, len(l.Keys), step.want, step.wantKey)
		}
		if last != nil && l.Number <= last.Number {
			t.Errorf("%s: number %d after %d", step.what, l.Number, last.Number)
		}
		if kept, err := a.List(); err != nil || kept.Text() != l.Text() {
			t.Errorf("%s: another list is kept: %v", step.what, err)
		}
	}
	last, _ := a.List()
	if err := os.Remove(filepath.Join(dir, "revoked")); err != nil {
		t.Fatal(err)
	}
	if l, err := a.Revoke(nil, nil, now+33*day); err != nil || l.Number <= last.Number {
		t.Errorf("after the loss of the list: %+v, %v; want a number above %d", l, err, last.Number)
	}
}

func TestAListOfAnotherAuthorityIsRefused(t *testing.T) {
	a, dir := create(t)
	other, _ := create(t)
	l, err := other.Revoke([]uint64{1}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "revoked"), []byte(l.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Revoke([]uint64{2}, nil, now); err == nil || !strings.Contains(err.Error(), "restore the file") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "issued"), []byte("\nx"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Issued(); err == nil || !strings.Contains(err.Error(), "line 1: ") {
		t.Error(err)
	}
}
