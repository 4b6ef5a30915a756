package daemon

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

// identity is a directory with the secrets of a NIC: a fabric key, a static key in the directory
// state, and a certificate of that key by an authority.
type identity struct {
	dir string
	ca  trust.CAKey
	key trust.PrivateKey
}

func newIdentity(t *testing.T, id nicid.ID) *identity {
	t.Helper()
	i := &identity{dir: t.TempDir()}
	var err, err2, err3, err4 error
	i.ca, err = trust.NewCAKey(rand.Reader)
	_, err2 = fabric.Init(filepath.Join(i.dir, "fabric.key"))
	err3 = os.Mkdir(filepath.Join(i.dir, "state"), 0o700)
	i.key, err4 = fabric.StaticKey(filepath.Join(i.dir, "state"))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	i.write(t, "authority", i.ca.Public().String())
	i.sign(t, &trust.Certificate{NIC: id})
	l := &trust.RevocationList{Number: 1}
	if err := l.Sign(i.ca.Private()); err != nil {
		t.Fatal(err)
	}
	i.write(t, "revocations", l.Text())
	return i
}

// sign writes a certificate of the static key, valid now unless c has times.
func (i *identity) sign(t *testing.T, c *trust.Certificate) {
	t.Helper()
	c.Serial, c.Key = 1, i.key.Public()
	if c.NotBefore == 0 {
		c.NotBefore, c.NotAfter = time.Now().Unix()-3600, time.Now().Unix()+3600
	}
	if err := c.Sign(i.ca.Private()); err != nil {
		t.Fatal(err)
	}
	i.write(t, "certificate", c.Text())
}

func (i *identity) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(i.dir, name)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (i *identity) public(t *testing.T) trust.PublicKey {
	t.Helper()
	return i.key.Public()
}
