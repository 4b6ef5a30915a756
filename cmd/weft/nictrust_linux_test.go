package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

// nicHome is a directory with all that a NIC needs to start: a static key, a fabric key, and a
// certificate.
type nicHome struct {
	t   *testing.T
	dir string
	key trust.PrivateKey
	ca  trust.CAKey
}

func newNICHome(t *testing.T) *nicHome {
	t.Helper()
	h := &nicHome{t: t, dir: t.TempDir()}
	var err error
	if h.key, err = fabric.StaticKey(h.path("nic.state")); err != nil {
		t.Fatal(err)
	}
	if _, err := fabric.Init(h.path("fabric.key")); err != nil {
		t.Fatal(err)
	}
	if h.ca, err = trust.NewCAKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *nicHome) path(name string) string { return filepath.Join(h.dir, name) }

// write writes a file of mode 0600 with one line, and returns its path.
func (h *nicHome) write(name, text string) string {
	h.t.Helper()
	if err := os.WriteFile(h.path(name), []byte(text+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return h.path(name)
}

func (h *nicHome) chmod(name string, mode os.FileMode) {
	h.t.Helper()
	if err := os.Chmod(h.path(name), mode); err != nil {
		h.t.Fatal(err)
	}
}

// join returns the fabric key as text.
func (h *nicHome) join() string {
	h.t.Helper()
	b, err := os.ReadFile(h.path("fabric.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// certified returns the configuration lines that name a certificate of this NIC, after change
// has changed it, and the authority.
func (h *nicHome) certified(ca trust.CAKey, change func(c *trust.Certificate)) string {
	h.t.Helper()
	now := time.Now().Unix()
	c := trust.Certificate{Serial: 7, NIC: h.key.Public().ID(), Key: h.key.Public(), NotBefore: now - 3600, NotAfter: now + 3600}
	if change != nil {
		change(&c)
	}
	if err := c.Sign(ca.Private()); err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf("certificate = %q\nauthorities = [\"%v\"]\n", h.write("certificate", c.Text()), h.ca.Public())
}

// revoked writes the list of an authority that revokes the certificate.
func (h *nicHome) revoked(ca trust.CAKey) {
	h.t.Helper()
	l := trust.RevocationList{Number: 3, Serials: []uint64{7}}
	if err := l.Sign(ca.Private()); err != nil {
		h.t.Fatal(err)
	}
	if err := fabric.KeepRevocations(h.path("nic.state/revocations"), []*trust.RevocationList{&l}); err != nil {
		h.t.Fatal(err)
	}
}

// args returns the arguments of weft nic with these lines of configuration.
func (h *nicHome) args(config string) []string {
	h.t.Helper()
	file := h.write("nic.toml", "listen = \"127.0.0.1:0\"\n"+config)
	return []string{"nic", "--config", file, "--socket", h.path("nic.sock")}
}

// starts runs a command that should refuse to start, and ends it if it does start.
func (h *nicHome) starts(args []string) (status int, stderr string) {
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	var out, errs lockedBuffer
	status = run(ctx, args, &out, &errs)
	return status, errs.String()
}

func TestANICStartsWithGoodKeysAndACertificate(t *testing.T) {
	h := newNICHome(t)
	config := fmt.Sprintf("id = \"0:0:0:0:0:0:0:9\"\nkey_files = [%q]\n", h.path("fabric.key")) +
		h.certified(h.ca, func(c *trust.Certificate) { c.NIC = 9 }) + "[grants]\n\"0:0:0:0:0:0:0:8\" = [\"observe\", \"run=alice\"]\n"
	if status, stderr := h.starts(append(h.args(config), "--check")); status != 0 {
		t.Errorf("--check: %d %s", status, stderr)
	}
	startNIC(t, h.args(config)[1:]...)
}

// Both --check and the start itself find each mistake: there is no fallback to a link without
// keys.
func TestAStartWithBadKeysOrCertificatesIsRefusedWithTheCure(t *testing.T) {
	other, err := trust.NewCAKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keyFiles := func(h *nicHome, names ...string) string {
		for i, name := range names {
			names[i] = fmt.Sprintf("%q", h.path(name))
		}
		return "key_files = [" + strings.Join(names, ", ") + "]\n"
	}
	for what, c := range map[string]struct {
		spoil func(h *nicHome) (config string)
		want  []string
	}{
		"a fabric key that others can read": {func(h *nicHome) string { h.chmod("fabric.key", 0o644); return keyFiles(h, "fabric.key") },
			[]string{"line 2: key_files: fabric key: ", "has mode 0644, so other users can use it; expected 0600: run chmod 600 "}},
		"a fabric key that is not there": {func(h *nicHome) string { return keyFiles(h, "none") },
			[]string{"line 2: key_files: fabric key: open ", "no such file", "make it by weft fabric init --file "}},
		"a fabric key that is a directory": {func(h *nicHome) string { return keyFiles(h, "nic.state") },
			[]string{"is no regular file; expected one with mode 0600"}},
		"a truncated fabric key": {func(h *nicHome) string { h.write("fabric.key", h.join()[:30]); return keyFiles(h, "fabric.key") },
			[]string{"key_files: ", "fabric.key: fabric key: truncated"}},
		"a fabric key with a letter changed": {func(h *nicHome) string {
			text := []byte(h.join())
			text[20] = 'a' + (text[20]-'a'+1)%26
			h.write("fabric.key", string(text))
			return keyFiles(h, "fabric.key")
		}, []string{"key_files: ", "fabric.key: fabric key: altered"}},
		"a weak fabric key": {func(h *nicHome) string {
			h.write("fabric.key", trust.FabricKey{}.Text())
			return keyFiles(h, "fabric.key")
		},
			[]string{"key_files: ", "fabric.key: fabric key: weak"}},
		"a key of the earlier gossip": {func(h *nicHome) string {
			h.write("fabric.key", "YSBmYWJyaWMga2V5IHRoYXQgaXMgbG9uZyBlbm91Z2g=")
			return keyFiles(h, "fabric.key")
		}, []string{"fabric key: not in the expected form"}},
		"the same fabric key twice": {func(h *nicHome) string { return keyFiles(h, "fabric.key", "fabric.key") },
			[]string{"key_files: ", "keys 1 and 2 of the fabric are the same"}},
		"a static key that others can read": {func(h *nicHome) string { h.chmod("nic.state/nic.key", 0o640); return "" },
			[]string{"static key: ", "nic.key has mode 0640, so other users can use it; expected 0600: run chmod 600 "}},
		"a truncated static key": {func(h *nicHome) string { h.write("nic.state/nic.key", h.key.Text()[:40]); return "" },
			[]string{"nic.key: static key: truncated", "remove the file: the NIC draws a new key"}},
		"a weak static key": {func(h *nicHome) string { h.write("nic.state/nic.key", trust.PrivateKey{}.Text()); return "" },
			[]string{"nic.key: static key: weak"}},
		"an unknown role": {func(*nicHome) string { return "[grants]\n\"0:0:0:0:0:0:0:8\" = [\"operate\"]\n" },
			[]string{`line 3: grants.0:0:0:0:0:0:0:8: unknown role "operate": expected observe, program, run or admin; weft fabric grant writes grants`}},
		"a grant to no NIC": {func(*nicHome) string { return "[grants]\nhost-3 = [\"observe\"]\n" },
			[]string{`line 3: grants.host-3: NIC id "host-3": expected eight decimal octets`}},
		"an id that nothing binds": {func(*nicHome) string { return "id = \"0:0:0:0:0:0:0:9\"\n" },
			[]string{"NIC 0:0:0:0:0:0:0:9: the NIC id does not belong to the static key", "remove the configured id, or bind it by [[node]] id and key"}},
		"an id before there is a key": {func(h *nicHome) string {
			if err := os.Remove(h.path("nic.state/nic.key")); err != nil {
				h.t.Fatal(err)
			}
			return "id = \"0:0:0:0:0:0:0:9\"\n"
		}, []string{"id: there is no static key yet", "run weft fabric key --state-dir ", "by [[node]] id and key, or by a certificate"}},
		"an id that is bound to another key": {func(h *nicHome) string {
			return fmt.Sprintf("id = \"0:0:0:0:0:0:0:9\"\n[[node]]\naddress = \"127.0.0.1:1\"\nid = \"0:0:0:0:0:0:0:9\"\nkey = \"%v\"\n", trust.PublicKey{3})
		}, []string{"the NIC id is bound to another static key", "correct [[node]] key"}},
		"a malformed key of a node": {func(*nicHome) string { return "[[node]]\naddress = \"127.0.0.1:1\"\nkey = \"weftpub1-x\"\n" },
			[]string{"line 2: node 127.0.0.1:1: key: ", "weft fabric key prints it on its host"}},
		"a certificate of another fabric": {func(h *nicHome) string { return h.certified(other, nil) },
			[]string{"this NIC would be refused by others: ", "the certificate is of another fabric", "sign one by an authority of this fabric"}},
		"a clock before the certificate's begin": {func(h *nicHome) string {
			return h.certified(h.ca, func(c *trust.Certificate) { c.NotBefore = time.Now().Unix() + 1800 })
		}, []string{"this NIC would be refused by others: ", "the certificate is not yet valid", "clock"}},
		"an expired certificate": {func(h *nicHome) string {
			return h.certified(h.ca, func(c *trust.Certificate) { c.NotBefore, c.NotAfter = 1000, 2000 })
		}, []string{"this NIC would be refused by others: ", "the certificate has expired", "sign"}},
		"another NIC's certificate": {func(h *nicHome) string {
			return h.certified(h.ca, func(c *trust.Certificate) { c.Key = trust.PublicKey{3} })
		}, []string{"the certificate is another NIC's", "sign one for this NIC"}},
		"a revoked certificate": {func(h *nicHome) string { h.revoked(h.ca); return h.certified(h.ca, nil) },
			[]string{"is revoked by list 3"}},
		"a revocation list of another authority": {func(h *nicHome) string { h.revoked(other); return h.certified(h.ca, nil) },
			[]string{"revocation list 3: the certificate authority is unknown"}},
		"no certificate beside an authority": {func(h *nicHome) string { return fmt.Sprintf("authorities = [\"%v\"]\n", h.ca.Public()) },
			[]string{"the certificate is missing; sign one by weft fabric ca sign"}},
		"a certificate without an authority": {func(h *nicHome) string {
			config, _, _ := strings.Cut(h.certified(h.ca, nil), "authorities")
			return config
		}, []string{"line 2: certificate: no authority is named; expected authorities with the public key that weft fabric ca show prints"}},
		"a file of an authority that is none": {func(h *nicHome) string { return fmt.Sprintf("authorities = [%q]\n", h.write("authority", "x")) },
			[]string{"line 2: authorities: ", "authority's public key: not in the expected form", "weft fabric ca show prints it"}},
		"a key_file of the gossip": {func(h *nicHome) string { return fmt.Sprintf("[gossip]\nkey_file = %q\n", h.path("fabric.key")) },
			[]string{"line 3: gossip.key_file: ", "remove key_file, run weft fabric show on one host", "weft fabric join"}},
	} {
		t.Run(what, func(t *testing.T) {
			h := newNICHome(t)
			args := h.args(c.spoil(h))
			for _, args := range [][]string{append(args[:len(args):len(args)], "--check"), args} {
				status, stderr := h.starts(args)
				if status != exitUsage {
					t.Errorf("weft %v: status %d; want %d", args, status, exitUsage)
				}
				for _, w := range c.want {
					if !strings.Contains(stderr, w) {
						t.Errorf("weft %v says %q; want %q", args, stderr, w)
					}
				}
				if strings.Contains(stderr, "NIC is up") || strings.Contains(stderr, h.key.Text()[10:]) {
					t.Errorf("weft %v says %q", args, stderr)
				}
			}
		})
	}
}

func TestAFabricKeyThatTheUserCannotReadIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to run a process of another user")
	}
	dir, err := os.MkdirTemp("", "weft") // not the test's own, which another user cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "fabric.key")
	if _, err := fabric.Init(key); err != nil {
		t.Fatal(err)
	}
	x := exec.CommandContext(t.Context(), "/proc/self/exe", "nic", "--listen", "127.0.0.1:0", "--socket", filepath.Join(dir, "nic.sock"))
	x.Env = append(os.Environ(), asWeft+"=1", fabric.FileVariable+"="+key)
	x.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := x.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("another user cannot run the test's binary")
	}
	if x.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "permission denied; expected a file of user 65534 with mode 0600") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestToolsMarkPlainLinks(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	_, log := startNIC(t, "--listen", "127.0.0.1:0", "--socket", a, "--plain")
	_, address, _ := strings.Cut(log.String(), "address=")
	address, _, _ = strings.Cut(address, " ")
	startNIC(t, "--listen", "127.0.0.1:0", "--socket", b, "--plain", "--node", address)
	if status, _, stderr := weft("nodes", "--check", "--socket", b); status != 0 {
		t.Fatalf("weft nodes --check: %d %q", status, stderr)
	}
	if out := must(t, "nodes", "--socket", b); !strings.Contains(out, "  GUARD  ID BY\n") || !strings.Contains(out, "  PLAIN  -\n") {
		t.Errorf("weft nodes says %s", out)
	}
	for _, args := range [][]string{{"stat", "--socket", b}, {"stat", "--socket", b, "--nic", nicIDAt(t, a)}} {
		if out := must(t, args...); !strings.Contains(out, "over udp (PLAIN: neither encrypted nor authenticated), ") {
			t.Errorf("weft %v says %s", args, out)
		}
	}
}

// A daemon reads the grants that weft fabric grant writes.
func TestADaemonReadsGrantsAsTheToolWritesThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nic.toml")
	if err := os.WriteFile(file, []byte("listen = \"127.0.0.1:0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "fabric", "grant", "1:2:3:4:5:6:7:8", "observe", "program", "run=alice,bob", "--config", file)
	must(t, "fabric", "grant", "8:2:3:4:5:6:7:8", "admin", "--config", file)
	if status, _, stderr := weft("nic", "--config", file, "--socket", filepath.Join(t.TempDir(), "nic.sock"), "--check"); status != 0 {
		t.Errorf("weft nic --check: %d %s", status, stderr)
	}
	c, err := daemon.Load(file)
	if err != nil || len(c.Grants) != 2 || strings.Join(c.Grants["1:2:3:4:5:6:7:8"], " ") != "observe program run=alice,bob" {
		t.Errorf("the daemon reads %v, %v", c.Grants, err)
	}
}
