package fabric_test

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

func TestAStaticKeyIsMadeOnceAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	k, err := fabric.StaticKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := fabric.StaticKeyFile(filepath.Join(dir, "nic.key"))
	if err != nil || again != k || k.Public().ID() == 0 {
		t.Errorf("another key: %v", err)
	}
	if st, err := os.Stat(filepath.Join(dir, "nic.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	other, err := fabric.StaticKey(t.TempDir())
	if err != nil || other == k {
		t.Errorf("two directories have one key: %v", err)
	}
}

// inPEM writes a key in the older form of daemons.
func inPEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestTheKeyOfAnOlderDaemonStaysUsable(t *testing.T) {
	old, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := inPEM(t, old)
	path := write(t, text)
	k, err := fabric.StaticKeyFile(path)
	if err != nil || k.Public() != trust.PublicKey(old.PublicKey().Bytes()) {
		t.Errorf("public key %v, %v; want that of the file", k.Public(), err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != text {
		t.Errorf("the file has changed: %v", err)
	}
}

func TestABadStaticKeyIsRefused(t *testing.T) {
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	zero, err := ecdh.X25519().NewPrivateKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	good := trust.PrivateKey(key(t, 1)).Text()
	loose := write(t, good)
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string]string{
		"mode 0644":                            loose,
		"static key: truncated":                write(t, good[:30]),
		"this is a fabric key":                 write(t, key(t, 1).Text()),
		"static key: weak":                     write(t, trust.PrivateKey{}.Text()),
		"weak: it has 1 distinct bytes":        write(t, inPEM(t, zero)),
		"the PEM block holds no X25519 key":    write(t, inPEM(t, signing)),
		"expected one PEM block":               write(t, "-----BEGIN PRIVATE KEY-----\nx"),
		"or remove the file: the NIC draws a ": write(t, ""),
	} {
		if _, err := fabric.StaticKeyFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if _, err := fabric.StaticKey(write(t, "no directory")); err == nil {
		t.Error("a state directory that is a file is accepted")
	}
}
