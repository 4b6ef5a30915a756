package daemon_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/internal/trust"
)

// written is a configuration that a test changes while a daemon runs.
type written struct {
	mu     sync.Mutex
	config daemon.Config
	err    error
}

// rereading runs a daemon that can read its configuration anew.
func rereading(t *testing.T, c daemon.Config) (*written, *logWriter) {
	t.Helper()
	w := &written{config: c}
	c.Reread = func() (daemon.Config, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.config, w.err
	}
	return w, run(t, c)
}

// reload changes the configuration and returns the report of a reload.
func (w *written) reload(t *testing.T, change func(c *daemon.Config)) (applied, restart string, err error) {
	t.Helper()
	w.mu.Lock()
	change(&w.config)
	w.mu.Unlock()
	return reloads(t, w.config, false)
}

func reloads(t *testing.T, c daemon.Config, check bool) (applied, restart string, err error) {
	t.Helper()
	r, err := dial(t, c.Socket, "").Reload(t.Context(), check)
	if err != nil {
		return "", "", err
	}
	return joined(r.Applied), joined(r.Restart), nil
}

func joined(changes []ctl.Change) string {
	var l []string
	for _, c := range changes {
		l = append(l, c.String())
	}
	return strings.Join(l, "\n")
}

// up waits until the only peer of a daemon is up.
func up(t *testing.T, c daemon.Config) {
	t.Helper()
	becomes(t, "the peer is up", func() bool {
		n := peers(t, c)
		return len(n) == 1 && n[0].State == "up"
	})
}

func TestAReloadAddsAndRemovesNodesAndChangesTheLogLevel(t *testing.T) {
	c := configs(t, 2)
	both := c[0].Nodes
	c[0].Nodes, c[1].Nodes, c[0].Log = nil, nil, "error"
	w, log := rereading(t, c[0])
	run(t, c[1])
	applied, restart, err := w.reload(t, func(c *daemon.Config) { c.Nodes, c.Log = both, "info" })
	if want := "log: error → info\nnode: not set → " + c[0].Listen + "\nnode: not set → " + c[1].Listen; err != nil || applied != want || restart != "" {
		t.Fatalf("applied\n%s\nrestart\n%s\n%v; expected\n%s", applied, restart, err, want)
	}
	says(t, log, "level=INFO", "configuration reloaded", "applied=3", "after_a_restart=0")
	up(t, c[0])
	mustAttach(t, c[1], "there/0")
	wait(t, mustAttach(t, c[0], "here/0"), "there/0")
	if applied, restart, err = w.reload(t, func(*daemon.Config) {}); applied+restart != "" || err != nil {
		t.Errorf("an unchanged configuration changes\n%s\n%s\n%v", applied, restart, err)
	}
	if _, _, err = w.reload(t, func(c *daemon.Config) { c.Nodes = nil }); err != nil {
		t.Fatal(err)
	}
	says(t, log, "node is gone", c[1].Listen)
	if n := peers(t, c[0]); len(n) != 1 || n[0].State != "up" {
		t.Errorf("a NIC that lives is lost with its node: %+v", n)
	}
}

func TestABrokenConfigurationIsRefusedWithTheCauseAndTheNICIsUntouched(t *testing.T) {
	c := configs(t, 1)
	c[0].Nodes = nil
	w, log := rereading(t, c[0])
	for _, r := range []struct {
		change func(*daemon.Config)
		err    error
		says   string
	}{
		{func(c *daemon.Config) { c.MTU = 99 }, nil, "mtu: 99; expected 0, or 548 to 65507 bytes"},
		{func(c *daemon.Config) { c.MTU, c.KeyFiles = 0, []string{"/nonexistent/key"} }, nil, "make it by weft fabric init"},
		{func(c *daemon.Config) { c.KeyFiles = nil }, errors.New("line 3: no such key"), "line 3: no such key; the NIC goes on with its configuration"},
	} {
		w.err = r.err
		_, _, err := w.reload(t, func(c *daemon.Config) {
			r.change(c)
			c.Log, c.AllowUIDs = "debug", []int{7}
			c.Nodes = []file.Entry{{Address: "127.0.0.9:1"}}
		})
		if err == nil || !strings.Contains(err.Error(), r.says) {
			t.Errorf("the reload ends with %v; expected %q", err, r.says)
		}
		says(t, log, "level=ERROR", "configuration not reloaded", strings.ReplaceAll(r.says, `"`, `\"`))
	}
	if st, err := os.Stat(c[0].Socket); err != nil || st.Mode().Perm() != 0o600 || len(peers(t, c[0])) != 0 {
		t.Errorf("mode %v, %v; nodes %+v", st.Mode(), err, peers(t, c[0]))
	}
	if strings.Contains(log.String(), "level=DEBUG") {
		t.Error("the log level has changed")
	}
}

func TestAReloadTellsWhatNeedsARestartUntilThereIsOne(t *testing.T) {
	c := configs(t, 1)
	w, log := rereading(t, c[0])
	for range 2 {
		_, restart, err := w.reload(t, func(c *daemon.Config) { c.MTU, c.MaxProcesses, c.Static = 1400, 7, true })
		if want := "max_processes: not set → 7\nmtu: not set → 1400\nstatic: false → true"; err != nil || restart != want {
			t.Errorf("%v; a restart is needed for\n%s\nexpected\n%s", err, restart, want)
		}
	}
	says(t, log, "level=WARN", "needs a restart", "mtu: not set → 1400")
	if _, restart, err := reloads(t, w.config, true); err != nil || !strings.Contains(restart, "mtu") {
		t.Errorf("a check tells %q, %v", restart, err)
	}
}

func TestACheckOfAReloadChangesNothing(t *testing.T) {
	c := configs(t, 1)
	c[0].Nodes = nil
	w, _ := rereading(t, c[0])
	w.mu.Lock()
	w.config.Nodes = []file.Entry{{Address: "127.0.0.9:1"}}
	w.mu.Unlock()
	for range 2 {
		if applied, _, err := reloads(t, w.config, true); err != nil || applied != "node: not set → 127.0.0.9:1" {
			t.Errorf("the check tells %q, %v", applied, err)
		}
	}
	if n := peers(t, c[0]); len(n) != 0 {
		t.Errorf("the daemon knows %+v", n)
	}
}

func TestAReloadChangesEachLinkAndNamesItForKeysOfTheLink(t *testing.T) {
	c := twoLinks(t, 1)[0]
	w, _ := rereading(t, c)
	applied, restart, err := w.reload(t, func(c *daemon.Config) {
		c.Named = maps.Clone(c.Named)
		slow := c.Named["slow0"]
		slow.MTU, slow.Nodes = 1400, append(slices.Clone(slow.Nodes), file.Entry{Address: "127.0.0.9:1"})
		c.Named["slow0"] = slow
		c.Slots, c.MaxProcesses = new(int), 9
	})
	if want := "slots: not set → 0\nlink slow0: node: not set → 127.0.0.9:1"; err != nil || applied != want {
		t.Errorf("applied\n%s\n%v; expected\n%s", applied, err, want)
	}
	if want := "max_processes: not set → 9\nlink slow0: mtu: not set → 1400"; restart != want {
		t.Errorf("a restart is needed for\n%s\nexpected\n%s", restart, want)
	}
	for link, want := range map[string]int{"fast0": 0, "slow0": 1} {
		becomes(t, "the node is known on its link alone", func() bool {
			n, err := dial(t, c.Socket, link).Nodes(t.Context())
			return err == nil && len(n) == want
		})
	}
}

// A key such as allow_uids counts for all links. A reload that applied it to some of them, or to
// none, would leave a removed user in.
func TestAReloadWithOtherLinksIsRefusedAndChangesNothing(t *testing.T) {
	c := twoLinks(t, 1)[0]
	w, log := rereading(t, c)
	for _, links := range []string{"fast0", "slow0", "slow0,fast0", "udp"} {
		change := func(c *daemon.Config) { c.Link, c.Slots = links, new(int) }
		if _, _, err := w.reload(t, change); err == nil || !strings.Contains(err.Error(), "the daemon runs fast0, slow0; restart it") {
			t.Errorf("link = %q: %v", links, err)
		}
		if _, _, err := reloads(t, w.config, true); err == nil {
			t.Errorf("link = %q: a check says that it would be applied", links)
		}
	}
	says(t, log, "level=ERROR", "configuration not reloaded")
	applied, restart, err := w.reload(t, func(c *daemon.Config) { c.Link = "fast0,slow0" })
	if err != nil || applied != "slots: not set → 0" || restart != "" {
		t.Errorf("with its links again: applied %q, restart %q, %v", applied, restart, err)
	}
}

// A random key in place of the fabric key would cut the NIC off from all others.
func TestAReloadWithoutItsFabricKeyIsRefusedWhyeverTheFileCannotBeRead(t *testing.T) {
	c := configs(t, 1)
	t.Setenv(fabric.FileVariable, "")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "config"))
	c[0].StateDir = t.TempDir()
	path := filepath.Join(c[0].StateDir, fabric.FileName)
	if os.Geteuid() != 0 {
		var err error
		if path, err = fabric.DefaultFile(); err != nil {
			t.Fatal(err)
		}
	}
	w, _ := rereading(t, c[0])
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	for cause, lead := range map[string]string{
		"no such file or directory": filepath.Join(filepath.Dir(path), "none"), "not a directory": filepath.Join(path+".away", "below")} {
		if err := os.Symlink(lead, path); err != nil {
			t.Fatal(err)
		}
		applied, _, err := w.reload(t, func(*daemon.Config) {})
		if err == nil || !strings.Contains(err.Error(), "fabric key: ") || !strings.Contains(err.Error(), cause+"; put the file back") {
			t.Errorf("%s: applied %q, %v", cause, applied, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if applied, _, err := w.reload(t, func(*daemon.Config) {}); applied != "" || err != nil {
		t.Errorf("with its file again: applied %q, %v", applied, err)
	}
}

// write writes a file that only this user can read.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newAuthority returns the public key of another authority.
func newAuthority(t *testing.T) trust.CAPublic {
	t.Helper()
	k, err := trust.NewCAKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k.Public()
}

func TestAReloadTellsOfOtherContentsOfFilesThatCountAtTheStart(t *testing.T) {
	c := configs(t, 1)
	ca := certified(t, c)
	dir := t.TempDir()
	token, authorities := filepath.Join(dir, "token"), filepath.Join(dir, "authorities")
	c[0].Metrics, c[0].MetricsTokenFile = testenv.Loopback(t), write(t, token, "0123456789abcdef0\n")
	c[0].Authorities = []string{write(t, authorities, ca.Public().String())}
	w, _ := rereading(t, c[0])
	if applied, restart, err := w.reload(t, func(*daemon.Config) {}); applied+restart != "" || err != nil {
		t.Fatalf("applied %q, restart %q, %v", applied, restart, err)
	}
	other := newAuthority(t)
	write(t, token, "0123456789abcdef1\n")
	write(t, authorities, ca.Public().String()+"\n"+other.String())
	want := fmt.Sprintf("keys of authorities: %v → %v, %v\ntoken of metrics: the present one → another one", ca.Public().ID(), ca.Public().ID(), other.ID())
	for range 2 {
		if applied, restart, err := w.reload(t, func(*daemon.Config) {}); applied != "" || restart != want || err != nil {
			t.Errorf("applied %q, restart %q, %v; expected %q", applied, restart, err, want)
		}
	}
}

// Such keys were listed as applied, and were not in effect.
func TestReloadableKeysNeedARestartBesideAKeyOnWhichTheyDepend(t *testing.T) {
	c := configs(t, 1)
	certified(t, c)
	key := filepath.Join(t.TempDir(), "key")
	if _, err := fabric.Init(key); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c[0].Certificate)
	if err != nil {
		t.Fatal(err)
	}
	before := c[0]
	elsewhere := write(t, key+".certificate", string(text))
	both := append(slices.Clone(before.Authorities), newAuthority(t).String())
	w, _ := rereading(t, c[0])
	for range 2 {
		applied, restart, err := w.reload(t, func(c *daemon.Config) {
			c.Authorities, c.Revocations, c.Certificate = both, key+".lists", elsewhere
			c.KeyFiles, c.Plain = []string{key}, true
		})
		var keys []string
		for line := range strings.Lines(restart) {
			name, _, _ := strings.Cut(line, ": ")
			keys = append(keys, name)
		}
		if want := []string{"authorities", "certificate", "key_files", "plain", "revocations"}; err != nil || applied != "" || !slices.Equal(keys, want) {
			t.Errorf("%v: applied %q; a restart is needed for %q; expected %q", err, applied, keys, want)
		}
	}
	if applied, restart, err := w.reload(t, func(c *daemon.Config) { *c = before }); applied+restart != "" || err != nil {
		t.Errorf("the configuration of the start: applied %q, restart %q, %v", applied, restart, err)
	}
}

// The running NIC keeps its static key, and would show other NICs the certificate of another.
func TestACertificateForAnotherStaticKeyWaitsForARestart(t *testing.T) {
	c := configs(t, 1)
	ca := certified(t, c)
	next := c[0]
	next.StateDir = filepath.Join(t.TempDir(), "state")
	key := staticKey(t, next).Public()
	cert := trust.Certificate{Serial: 77, NIC: key.ID(), Key: key, NotBefore: time.Now().Unix() - 60, NotAfter: time.Now().Unix() + 86400,
		Applications: []string{"app*"}}
	if err := cert.Sign(ca.Private()); err != nil {
		t.Fatal(err)
	}
	next.Certificate = write(t, filepath.Join(next.StateDir, "certificate"), cert.Text())
	w, _ := rereading(t, c[0])
	for range 2 {
		applied, restart, err := w.reload(t, func(c *daemon.Config) { *c = next })
		if err != nil || applied != "" || !strings.Contains(restart, "certificate: "+c[0].Certificate) ||
			!strings.Contains(restart, "certificate of this NIC: serial "+trust.SerialText(1)+" → serial "+trust.SerialText(77)) {
			t.Errorf("applied %q, restart %q, %v", applied, restart, err)
		}
	}
}

func TestAReloadThatFailsInPartSaysSoAndTheNextOneTriesAgain(t *testing.T) {
	c := configs(t, 1)
	w, log := rereading(t, c[0])
	conn := dial(t, c[0].Socket, "")
	if err := os.Rename(c[0].Socket, c[0].Socket+".away"); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.config.AllowUIDs, w.config.Slots = []int{outsiderUID}, new(int)
	w.mu.Unlock()
	if _, err := conn.Reload(t.Context(), false); err == nil || !strings.Contains(err.Error(), "no such file") ||
		!strings.Contains(err.Error(), "the other changes have been applied") {
		t.Errorf("without its socket: %v", err)
	}
	says(t, log, "level=ERROR", "configuration reloaded in part", "no such file")
	says(t, log, "the configuration has changed", "slots")
	if text := log.String(); strings.Contains(text, "not reloaded") || strings.Contains(text, `msg="configuration reloaded"`) {
		t.Error("the log says that nothing, or that everything was reloaded")
	}
	if err := os.Rename(c[0].Socket+".away", c[0].Socket); err != nil {
		t.Fatal(err)
	}
	if r, err := conn.Reload(t.Context(), false); err != nil || len(r.Applied)+len(r.Restart) != 0 {
		t.Errorf("with its socket again: %+v, %v", r, err)
	}
	if st, err := os.Stat(c[0].Socket); err != nil || st.Mode().Perm() != 0o666 {
		t.Errorf("%v: the socket has mode %v; expected 0666", err, st.Mode())
	}
}

// A session outlives all three steps of a rotation. A NIC that knows only the new key is heard
// after the second.
func TestAFabricKeyIsRotatedByReloadsWhileASessionStays(t *testing.T) {
	c := configs(t, 3)
	var files []string
	for _, name := range []string{"old", "new"} {
		files = append(files, filepath.Join(t.TempDir(), name))
		if _, err := fabric.Init(files[len(files)-1]); err != nil {
			t.Fatal(err)
		}
	}
	nodes := c[0].Nodes
	for i := range c {
		c[i].KeyFiles = files[:1]
		c[i].Nodes = slices.Clone(nodes[:2])
	}
	var w []*written
	for i := range 2 {
		one, _ := rereading(t, c[i])
		w = append(w, one)
	}
	up(t, c[0])
	sessions := counter(t, c[0], "rel_up_sessions")
	swapped := []string{files[1], files[0]}
	for _, step := range [][]string{files, swapped, files[1:]} {
		for i := range w {
			applied, restart, err := w[i].reload(t, func(c *daemon.Config) { c.KeyFiles = step })
			if err != nil || restart != "" || !strings.Contains(applied, "fabric keys: ") {
				t.Fatalf("%v: applied %q, restart %q, %v", step, applied, restart, err)
			}
			if strings.Contains(applied, "weft1-") {
				t.Errorf("the report has a key: %s", applied)
			}
		}
	}
	if n := peers(t, c[0]); n[0].State != "up" || counter(t, c[0], "rel_up_sessions") != sessions {
		t.Errorf("the session has ended: %+v", n)
	}
	c[2].KeyFiles = files[1:]
	run(t, c[2])
	becomes(t, "a NIC with the new key alone has sessions with both", func() bool {
		n := peers(t, c[2])
		return len(n) == 2 && n[0].State == "up" && n[1].State == "up"
	})
}

func TestAReloadTakesTheRevocationListOfItsFile(t *testing.T) {
	c := configs(t, 1)
	ca := certified(t, c)
	w, log := rereading(t, c[0])
	l := trust.RevocationList{Number: 4, Serials: []uint64{9}}
	if err := l.Sign(ca.Private()); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "lists")
	if err := fabric.KeepRevocations(elsewhere, []*trust.RevocationList{&l}); err != nil {
		t.Fatal(err)
	}
	applied, restart, err := w.reload(t, func(c *daemon.Config) { c.Revocations = elsewhere })
	if want := fmt.Sprintf("revocations: not set → %s\nrevocation list of authority %v: not set → number 4", elsewhere, ca.Public().ID()); err != nil || restart != "" || applied != want {
		t.Fatalf("applied %q, restart %q, %v; expected %q", applied, restart, err, want)
	}
	says(t, log, "a newer revocation list", "number=4")
}

// If the new configuration binds the id of a NIC to another key, the NIC loses the id.
func TestAReloadEndsTheSessionOfANICWhoseIDIsBoundToAnotherKeyNow(t *testing.T) {
	c := configs(t, 2)
	bind(t, c, 1, "0:0:0:0:0:0:0:7")
	w, log := rereading(t, c[0])
	run(t, c[1])
	up(t, c[0])
	at := slices.IndexFunc(c[0].Nodes, func(e file.Entry) bool { return e.Address == c[1].Listen })
	other := staticKey(t, daemon.Config{StateDir: t.TempDir()}).Public().String()
	_, restart, err := w.reload(t, func(c *daemon.Config) {
		c.Nodes = slices.Clone(c.Nodes)
		c.Nodes[at].Key = other
	})
	if err != nil || restart != "" {
		t.Fatal(restart, err)
	}
	says(t, log, "level=WARN", "a NIC is refused, which is not trusted", "nic=0:0:0:0:0:0:0:7", "bound to another static key")
	becomes(t, "the session has ended", func() bool {
		return !slices.ContainsFunc(peers(t, c[0]), func(n ctl.Node) bool { return n.State == "up" })
	})
}

func TestNodesAreAddedToARunningNICAndRemovedFromIt(t *testing.T) {
	c := configs(t, 2)
	c[0].Nodes, c[1].Nodes = nil, nil
	w, log := rereading(t, c[0])
	run(t, c[1])
	conn := dial(t, c[0].Socket, "")
	ctx := t.Context()
	if err := conn.AddNode(ctx, c[1].Listen); err != nil {
		t.Fatal(err)
	}
	up(t, c[0])
	for node, want := range map[string]error{c[1].Listen: ctl.ErrInUse, c[0].Listen: ctl.ErrBadRequest, "a b": ctl.ErrBadRequest, "7@127.0.0.1": ctl.ErrBadRequest} {
		if err := conn.AddNode(ctx, node); !errors.Is(err, want) {
			t.Errorf("adding %s: %v; expected %v", node, err, want)
		}
	}
	for _, node := range []string{"127.0.0.8:1", "0:0:0:0:0:0:0:9@127.0.0.8:1"} {
		if err := conn.RemoveNode(ctx, node); !errors.Is(err, ctl.ErrNoNIC) {
			t.Errorf("removing %s: %v", node, err)
		}
	}
	if err := conn.RemoveNode(ctx, c[1].Listen); err != nil {
		t.Fatal(err)
	}
	says(t, log, "node is gone", c[1].Listen)
	if err := conn.AddNode(ctx, "127.0.0.8:1"); err != nil {
		t.Fatal(err)
	}
	applied, _, err := w.reload(t, func(*daemon.Config) {})
	if err != nil || applied != "node: 127.0.0.8:1 → not set" {
		t.Errorf("a reload, which makes the list that of the configuration, tells %q, %v", applied, err)
	}
}

func init() {
	roles["controller"] = func(socket string) error { // tries what only the owner may
		conn, err := ctl.Dial(context.Background(), socket)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Reload(context.Background(), false)
		for _, err := range []error{err, conn.AddNode(context.Background(), "127.0.0.8:1"), conn.RemoveNode(context.Background(), "127.0.0.8:1")} {
			fmt.Println(errors.Is(err, ctl.ErrRefused), err)
		}
		return nil
	}
}

func TestUsersComeAndGoByAReloadAndMayNotReloadThemselves(t *testing.T) {
	c := daemon.Config{Socket: filepath.Join(dirForAll(t), "nic.sock"), Listen: "127.0.0.1:0"}
	w, _ := rereading(t, c)
	if out := outsiderSays(t, "outsider="+c.Socket); !strings.Contains(out, "failed") {
		t.Fatalf("a user who is not in allow_uids attaches: %s", out)
	}
	applied, _, err := w.reload(t, func(c *daemon.Config) { c.AllowUIDs = []int{outsiderUID} })
	if want := fmt.Sprintf("allow_uids: not set → [%d]", outsiderUID); err != nil || applied != want {
		t.Fatalf("applied %q, %v; expected %q", applied, err, want)
	}
	if out := outsiderSays(t, "outsider="+c.Socket); !strings.Contains(out, "ready") || strings.Contains(out, "failed") {
		t.Errorf("a user who is in allow_uids now does not attach: %s", out)
	}
	if out := outsiderSays(t, "controller="+c.Socket); strings.Count(out, "true not permitted") != 3 {
		t.Errorf("a user who only may attach changes the daemon: %s", out)
	}
	if _, _, err := w.reload(t, func(c *daemon.Config) { c.AllowUIDs = nil }); err != nil {
		t.Fatal(err)
	}
	if out := outsiderSays(t, "outsider="+c.Socket); !strings.Contains(out, "failed") {
		t.Errorf("a user who is not in allow_uids any more attaches: %s", out)
	}
}
