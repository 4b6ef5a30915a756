package weft_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

// certified returns the configuration of a NIC with a certificate for names of an application.
func certified(t *testing.T, ca trust.CAKey, application string, serial uint64) weft.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := weft.Config{Key: filepath.Join(dir, "nic.key"), Certificate: filepath.Join(dir, "certificate"), Authorities: []string{ca.Public().String()}}
	key, err := fabric.StaticKeyFile(cfg.Key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	c := trust.Certificate{Serial: serial, NIC: key.Public().ID(), Key: key.Public(), NotBefore: now - 60, NotAfter: now + 3600, Applications: []string{application}}
	if err := errors.Join(c.Sign(ca.Private()), os.WriteFile(cfg.Certificate, []byte(c.Text()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestNICsWithCertificatesTalkAndOthersStayOut(t *testing.T) {
	ca, err := trust.NewCAKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(cfg weft.Config, name weft.Name) *weft.Process {
		t.Helper()
		cfg.Name = name
		p, err := weft.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	a := open(certified(t, ca, "a", 1), weft.Name{App: "a"})
	at := []weft.Node{{Addr: a.NIC().Addr()}}
	with := certified(t, ca, "b", 2)
	with.Nodes = at
	b := open(with, weft.Name{App: "b"})
	if _, err := b.WaitName(ctx, a.Name()); err != nil {
		t.Fatal(err)
	}
	if err := b.Send(ctx, a.Name(), 1, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	open(weft.Config{Nodes: at}, weft.Name{App: "c"}) // holds only the fabric key
	if p, err := weft.Open(ctx, func() weft.Config { c := certified(t, ca, "d", 3); c.Name = weft.Name{App: "e"}; return c }()); err == nil {
		p.Close()
		t.Error("a process has a name that its NIC's certificate does not allow")
	}
	nodes, err := a.NIC().Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Up && n.ID != b.NIC().ID() {
			t.Errorf("a NIC without certificate is up: %+v", n)
		}
	}
}

func TestAnEmbeddedNICWithABadCertificateIsNotOpened(t *testing.T) {
	ca, err := trust.NewCAKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := trust.NewCAKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(c *weft.Config){
		"Config.Certificate: certificate: open ":                  func(c *weft.Config) { c.Certificate += "x" },
		"Config.Certificate: no authority is named":               func(c *weft.Config) { c.Authorities = nil },
		"Config.Certificate: the NIC has no key of its own":       func(c *weft.Config) { c.Key = "" },
		"Config.Authorities: authority: open /no/such/file":       func(c *weft.Config) { c.Authorities = []string{"/no/such/file"} },
		"the certificate is another NIC's":                        func(c *weft.Config) { c.Key += ".other" },
		"the certificate is of another fabric":                    func(c *weft.Config) { c.Authorities = []string{other.Public().String()} },
		"the certificate is missing; sign one by weft fabric ca ": func(c *weft.Config) { c.Certificate = "" },
	} {
		c := certified(t, ca, "*", 1)
		spoil(&c)
		n, err := weft.OpenNIC(t.Context(), c)
		if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		if err == nil {
			n.Close()
		}
	}
}
