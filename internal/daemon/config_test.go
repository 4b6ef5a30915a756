package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/metrics"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
)

const wholeConfig = `
id                = "0:0:0:96:221:127:255:140"
socket            = "DIR/nic.sock"
state_dir         = "DIR/state"
link              = "auto"
prefer            = "latency"
listen            = "127.0.0.1:7701"
mtu               = 1400
gso               = false
torus             = [4, 3]
position          = [1, 2]
static            = true
unreachable_after = "500ms"
max_processes     = 16
staging_bytes     = 65536
region_bytes      = 131072
allow_uids        = [1000]
program_uids      = [1001]
slots             = 3
allow_gids        = [100, 101]
key_files         = ["DIR/fabric.key"]
certificate       = "DIR/certificate"
authorities       = ["DIR/authority"]
revocations       = "DIR/revocations"
plain             = false
log               = "debug"
capture           = "weft.pcapng"
capture_limit     = 100000
capture_snap      = 128
capture_secrets   = true
metrics           = "[::1]:7702"
metrics_token_file = "DIR/token"

[[node]]
id      = "0:0:0:0:0:0:0:2"
key     = "PUBLIC"
address = "127.0.0.1:7702"
position = [3, 0]

[[node]]
address = "[::1]:7703"

[vni]
commands        = 128
contexts        = 32
descriptors     = 8
pool_pages      = 64
max_commands    = 512
max_contexts    = 100
max_descriptors = 12
max_pool_pages  = 65
prepared        = 3

[links.fast0]
link            = "xdp"
listen          = "127.0.0.3:7700"
mtu             = 9000
id              = "0:0:0:0:0:0:0:9"
certificate     = "c"
capture         = "d"
registry        = "e"

[[links.fast0.node]]
address         = "127.0.0.4"

[links.fast0.gossip]
listen          = "127.0.0.3:7701"

[gossip]
listen          = "127.0.0.1:7711"
seeds           = ["127.0.0.1:7712", "127.0.0.2", "::1"]
failure_timeout = "5s"

[programs]
plain_resident  = true

[grants]
"0:0:0:0:0:0:0:2" = ["observe", "run=alice,bob"]
`

func TestEveryKeyOfAConfigurationIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nic.toml")
	id := newIdentity(t, 0x60dd7fff8c)
	id.write(t, "token", strings.Repeat("0123456789abcdef", 2))
	text := strings.NewReplacer("DIR", id.dir, "PUBLIC", id.public(t).String()).Replace(wholeConfig)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.check()
	if err != nil {
		t.Fatal(err)
	}
	if s.id != 0x60dd7fff8c || s.socket != id.dir+"/nic.sock" || s.stateDir != id.dir+"/state" || s.listen.String() != "127.0.0.1:7701" ||
		s.mtu != 1400 || c.Prefer != "latency" || c.GSO == nil || *c.GSO || !c.Static || time.Duration(c.UnreachableAfter) != 500*time.Millisecond || c.MaxProcesses != 16 ||
		c.StagingBytes != 65536 || c.RegionBytes != 131072 || len(c.AllowUIDs) != 1 || len(c.ProgramUIDs) != 1 || c.slots() != 3 || len(c.AllowGIDs) != 2 || c.Log != "debug" {
		t.Errorf("read %+v", s)
	}
	if s.usual != (vni.Geometry{Commands: 128, Contexts: 32, Descriptors: 8, PoolPages: 64}) ||
		s.most != (vni.Geometry{Commands: 512, Contexts: 100, Descriptors: 12, PoolPages: 65}) || s.prepared != 3 {
		t.Errorf("VNIs %+v, at most %+v, %d prepared", s.usual, s.most, s.prepared)
	}
	want := Link{Link: "xdp", Listen: "127.0.0.3:7700", MTU: 9000, ID: "0:0:0:0:0:0:0:9", Certificate: "c", Capture: "d", Registry: "e",
		Nodes: []file.Entry{{Address: "127.0.0.4"}}, Gossip: &Gossip{Listen: "127.0.0.3:7701"}}
	if len(c.Named) != 1 || !reflect.DeepEqual(c.Named["fast0"], want) {
		t.Errorf("links by name: %+v", c.Named)
	}
	n := s.nodes.Nodes()
	if at := (registry.Position{Known: true, X: 1, Y: 2}); s.position != at || s.torus.Height != 3 {
		t.Errorf("at %v on a torus of %v", s.position, s.torus)
	}
	if len(n) != 2 || n[0].ID != 2 || n[0].Key == (trust.PublicKey{}) || n[0].At.X != 3 || n[1].At.Known || n[1].Addr.String() != "[::1]:7703" {
		t.Errorf("nodes %v", n)
	}
	g := s.gossip
	if g == nil || g.Listen.String() != "127.0.0.1:7711" || fmt.Sprint(g.Seeds) != "[127.0.0.1:7712 127.0.0.2:7701 [::1]:7701]" {
		t.Errorf("gossip %+v", g)
	} else if g.FailureTimeout != 5*time.Second-500*time.Millisecond-limits.ProbeEvery {
		t.Errorf("gossip may take %v to notice a silent NIC, which leaves too much or too little for the engine to ask it", g.FailureTimeout)
	}
	if to := s.trusted; len(to.authorities) != 1 || len(to.certificate) == 0 || len(to.lists) != 1 || to.revocations != id.dir+"/revocations" ||
		!to.grants[2].Allow(trust.Run, "bob") || to.grants[2].Allow(trust.Program, "bob") || !s.config.plainResident() {
		t.Errorf("trusts %+v", to)
	}
	if m := s.metrics; m.Address.String() != "[::1]:7702" || m.Check() != nil || m.Token == (metrics.Token{}) {
		t.Errorf("metrics %+v", m)
	}
	keys, _, _ := strings.Cut(Keys, ", [[node]]")
	for _, key := range strings.Split(keys, ", ") {
		if key != "registry" && !strings.Contains(wholeConfig, "\n"+key+" ") {
			t.Errorf("the test forgets %q", key)
		}
	}
}

func TestMistakesInAConfigurationAreNamedWithWhatWasExpected(t *testing.T) {
	for text, want := range map[string]string{
		`scoket = "/x"`:                            `line 1: unknown key "scoket"; expected id, socket, state_dir`,
		"\n[nodes]\nx = 1":                         `unknown key "nodes`,
		`socket = 7`:                               `line 1:`,
		`socket =`:                                 `line 1:`,
		`id = "17"`:                                `line 1: id: NIC id "17": expected eight decimal octets`,
		`prefer = "speed"`:                         `prefer: "speed"; expected bandwidth or latency`,
		"link = \"udp\"\nprefer = \"latency\"":     `prefer: "latency" has a link named already; expected link = "auto"`,
		`link = "tcp"`:                             `link: no link is called "tcp"; expected one of auto, udp, xdp`,
		`listen = "here:x"`:                        `listen: address "here:x": expected HOST or HOST:PORT`,
		`mtu = 99`:                                 `mtu: 99; expected 0, or`,
		`unreachable_after = "soon"`:               `"soon": expected a length of time`,
		`unreachable_after = "1ns"`:                `unreachable_after: 1ns; expected 10ms to 1h, as text such as "2s"`,
		"log = \"info\"\nallow_uids = [0, -1]":     `line 2: allow_uids: -1; expected 0 to 4294967294`,
		`allow_gids = [4294967295]`:                `allow_gids: 4294967295; expected 0 to`,
		`program_uids = [-7]`:                      `program_uids: -7; expected 0 to`,
		`max_processes = -1`:                       `max_processes: -1; expected 1 to`,
		`region_bytes = 68719476737`:               `region_bytes: 68719476737; expected up to 68719476736`,
		`staging_bytes = -1`:                       `staging_bytes: -1; expected 16448 to`,
		`staging_bytes = 16447`:                    `staging_bytes: 16447; expected 16448 to`,
		`torus = [4]`:                              `line 1: torus [4]: expected [WIDTH, HEIGHT], 1 to`,
		`position = [1, 1]`:                        `position [1 1]: expected torus = [WIDTH, HEIGHT] beside it`,
		"torus = [2, 2]\nposition = [2, 0]":        `line 2: position [2 0]: expected [X, Y] on a torus of 2 by 2`,
		`log = "loud"`:                             `log: "loud"; expected debug, info, warn, or error`,
		`registry = "/no/such/file.toml"`:          `line 1: registry: open /no/such/file.toml`,
		"[[node]]\n[[node]]\naddress = \"host:x\"": `line 2: address "host:x": expected HOST or HOST:PORT`,
		"[[node]]\nadress = \"x\"":                 `unknown key "node.adress"`,
		`allow_uids = ["root"]`:                    `line 1:`,
		"[vni]\ncontexts = 5000":                   `line 2: vni: 5000 contexts (M); expected 1 to 1024`,
		"[vni]\nmax_pool_pages = -1":               `line 2: vni: at most -1 pool pages (Q); expected a bound of 1 to 16384`,
		"[vni]\ncommands = 100":                    `line 1: vni: 100 commands for 64 contexts`,
		"[vni]\nprepared = 2000":                   `line 2: vni.prepared: 2000; expected up to max_processes, 1024`,
		"[vni]\npages = 1":                         `unknown key "vni.pages"`,

		"[gossip]\nseed = [\"10.0.0.2\"]":                   `line 2: unknown key "gossip.seed"; expected`,
		"[gossip]\nseeds = \"10.0.0.2\"":                    `line 2:`,
		"[gossip]\nkey_file = \"/etc/weft/fabric.key\"":     `line 2: gossip.key_file: the gossip has no key of its own any more: its key is made from the fabric key; remove key_file, run weft fabric show`,
		"[gossip]\nlisten = \"here:x\"":                     `line 2: gossip.listen: address "here:x": expected HOST or HOST:PORT`,
		"[gossip]\nseeds = [\"host:x\"]":                    `gossip.seeds: address "host:x": expected HOST or HOST:PORT`,
		"[gossip]\nseeds = [\"host\"]":                      `gossip.seeds: address "host": the lookup of its host name failed`,
		"[gossip]\nseeds = [\"0.0.0.0:1\"]":                 `gossip.seeds: address "0.0.0.0:1": expected one that this host can call`,
		"[gossip]\nseeds = [\"10.0.0.2:0\"]":                `gossip.seeds: address "10.0.0.2:0": expected one that this host can call`,
		"[gossip]\nfailure_timeout = \"3s\"":                `gossip.failure_timeout: 3s; expected 3.25s or more, so that a silent NIC can be asked for unreachable_after (2s)`,
		"[gossip]\nfailure_timeout = \"2h\"":                `gossip.failure_timeout: 2h0m0s; expected 3.25s or more`,
		"unreachable_after=\"1m\"\n[gossip]\nlisten=\":1\"": `gossip.failure_timeout: 10s; expected 1m1.25s or more`,

		"[links.fast0]\nlisten = \"here:x\"":          `line 2: links.fast0.listen: address "here:x": expected HOST or HOST:PORT`,
		"[links.fast0]\nlink = \"tcp\"":               `links.fast0.link: no link is called "tcp"; expected one of auto, udp`,
		"[links.fast0]\nport = 1":                     `line 2: unknown key "links.fast0.port"; expected`,
		"[links.udp]\nmtu = 9000":                     `links.udp: that is the name of a kind of links`,
		"[links.\"fast 0\"]":                          `links.fast 0: "fast 0"; expected a name without spaces`,
		"link = \"fast1\"\n[links.fast0]\nmtu = 9000": `link: no link is called "fast1"; expected one of auto, udp, xdp, xdp-generic, fast0`,
		"link = \"fast0\"\n[links.fast0]\nmtu = 1":    `line 3: mtu: 1; expected 0, or`,
		// a name stands for a kind, not for itself
		"link = \"fast0\"\n[links.fast0]\nlink = \"fast0\"":  `link: no link is called "fast0"`,
		"prefer=\"latency\"\n[links.fast0]\nlink = \"auto\"": `prefer: "latency" has a link named already`,

		"link = \"fast0,fast1\"\n[links.fast0]":                             `link: "fast1"; behind the first link expected the name of a [links.NAME]: fast0`,
		"link = \"fast0,udp\"\n[links.fast0]":                               `link: "udp"; behind the first link expected the name of a [links.NAME]: fast0`,
		"link = \"udp,\"":                                                   `link: ""; behind the first link expected the name of a [links.NAME]: there is none`,
		"link = \"fast0, fast0\"\n[links.fast0]":                            `link: fast0 stands twice`,
		"[links.\"../x\"]":                                                  `links.../x: "../x"; expected a name without spaces, such as fast0: 1 to 32 letters`,
		`socket = "/tmp/nic.sock#fast0"`:                                    `socket: /tmp/nic.sock#fast0: a # and what stands behind it name a link`,
		"link = \"udp,fast0\"\n[links.fast0]\nlisten = \"127.0.0.1\"":       `link fast0: line 3: listen: 127.0.0.1:7700, where link udp listens too; expected another address`,
		"link = \"udp,fast0\"\n[links.fast0]\nmtu = 9000":                   `link fast0: line 2: listen: [::]:7700, where link udp listens too`,
		"link = \"udp,fast0\"\n[links.fast0]\nlisten = \":1\"\nid = \"17\"": `link fast0: line 4: id: NIC id "17"`,
		"link = \"udp,fast0\"\n[[node]]\naddress = \"::1\"\n[links.fast0]\nlisten = \":1\"\n[[links.fast0.node]]\nname = \"x\"": `link fast0: line 6: address "": expected HOST or HOST:PORT`,
		"link = \"fast0\"\n[links.fast0]\nlisten = \":1\"\n[[links.fast0.node]]\nname = \"x\"":                                  `line 4: address "": expected HOST or HOST:PORT`,
		"link = \"udp,fast0\"\n[gossip]\n[links.fast0]\nlisten = \":1\"\n[links.fast0.gossip]\nlisten = \":7701\"":              `link fast0: line 6: gossip.listen: [::]:7701, where link udp listens too`,
		"link = \"udp,fast0\"\ncapture = \"x\"\n[links.fast0]\nlisten = \":1\"\ncapture = \"x\"":                                `link fast0: line 5: capture: x is the file of link udp, too`,
	} {
		c, err := Parse([]byte(text))
		if err == nil {
			err = c.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgives %v\n\twant  %s", text, err, want)
		}
	}
}

// A flag overrides the file, so a mistake in it has no line.
func TestAMistakeThatTheFileDoesNotMakeHasNoLine(t *testing.T) {
	c, err := Parse([]byte("mtu = 1\nlink = \"fast0\"\n[links.fast0]\nlisten = \"x:y\"\n[gossip]\nkey_file = \"x\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	c = c.Chosen()
	c.MTU, c.Gossip.Listen = 2, "a:b"
	for _, key := range []string{"mtu", "gossip.listen"} {
		c.Override(key)
	}
	wrong := strings.Split(c.Check().Error(), "\n")
	for i, want := range []string{`line 4: listen: address "x:y"`, `mtu: 2`, `gossip.listen: address "a:b"`, `line 6: gossip.key_file: the gossip has no key`} {
		if i >= len(wrong) || !strings.HasPrefix(wrong[i], want) {
			t.Errorf("%q; expected %q at %d", wrong, want, i)
		}
	}
	Config{}.Override("mtu") // a configuration without a file
}

// A sample with every comment sign removed is a configuration, and one that only says the
// defaults.
func TestTheSampleIsAConfigurationOfDefaults(t *testing.T) {
	text := regexp.MustCompile(`(?m)^#([a-z_]+ |\[)`).ReplaceAllString(Sample, "$1")
	said, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.FieldsFunc(Keys, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_", r) }) {
		if key == "or" || key == "with" || key == "and" || key == "of" || key == "each" || key == "max_" || key == "links" {
			continue
		}
		if !regexp.MustCompile(`(?m)^#\[*` + key + `(\]*$| +=)`).MatchString(Sample) {
			t.Errorf("the sample lacks %s", key)
		}
	}
	// prefer is for auto alone
	said.Link, said.Registry, said.Listen = "auto", "", ":7700"
	// examples
	said.ID, said.KeyFiles, said.Certificate, said.Authorities, said.Revocations, said.Nodes[0].Key = "", nil, "", nil, "", ""
	s, err := said.check()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Config{}.check()
	if err != nil {
		t.Fatal(err)
	}
	if s.usual != d.usual || s.most != d.most || s.prepared != d.prepared || s.listen != d.listen || s.mtu != d.mtu || said.maxProcesses() != d.config.maxProcesses() ||
		s.config.RegionBytes != d.config.RegionBytes || said.StagingBytes != limits.StagingBytes || said.CaptureLimit != limits.CaptureFile || said.CaptureSnap != limits.CaptureSnap ||
		time.Duration(said.UnreachableAfter) != limits.UnreachableAfter || said.failureTimeout() != limits.FailureTimeout {
		t.Errorf("the sample says %+v; the defaults are %+v", s, d)
	}
}

func TestTheDocumentHasEveryKey(t *testing.T) {
	doc, err := os.ReadFile("../../docs/nic.md")
	if err != nil {
		t.Fatal(err)
	}
	keys, _, _ := strings.Cut(Keys, ", [[node]]")
	for _, key := range append(strings.Split(keys, ", "), "[[node]]", "[links.NAME]", "[gossip]", "seeds", "failure_timeout", "[programs]", "plain_resident", "[grants]", "key") {
		if !strings.Contains(string(doc), "`"+key+"`") {
			t.Errorf("docs/nic.md lacks %s", key)
		}
	}
}

func TestAllMistakesAreNamedAtOnce(t *testing.T) {
	_, err := Config{ID: "x", Link: "y", Listen: "z", Certificate: "/no/such", Grants: map[string][]string{"x": nil},
		Gossip: &Gossip{Listen: "x", Seeds: []string{"y"}, KeyFile: "z", FailureTimeout: 1}}.check()
	for _, want := range []string{"id:", "link:", "listen:", "gossip.listen:", "gossip.seeds:", "gossip.key_file:", "gossip.failure_timeout:", "certificate:", "grants.x:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestDefaultsAreGood(t *testing.T) {
	t.Setenv("WEFT_SOCKET", "/tmp/y/nic.sock")
	g, err := Config{Listen: "127.0.0.3:9", Gossip: &Gossip{}}.check()
	if err != nil || g.gossip.Listen.String() != "127.0.0.3:7701" || g.gossip.FailureTimeout < limits.FailureTimeout/2 {
		t.Errorf("gossip %+v, %v", g.gossip, err)
	}
	s, err := Config{}.check()
	if err != nil {
		t.Fatal(err)
	}
	if s.listen.Port() != DefaultPort || !s.listen.Addr().IsUnspecified() || s.socket != "/tmp/y/nic.sock" || s.stateDir != "/tmp/y/nic.state" || s.gossip != nil {
		t.Errorf("defaults %+v", s)
	}
}

func TestANodeOnTheCommandLineMayLackItsIDAndPort(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.2":                    "10.0.0.2:7700",
		"::1":                         "[::1]:7700",
		"10.0.0.2:9":                  "10.0.0.2:9",
		"0:0:0:0:0:0:0:2@10.0.0.2":    "10.0.0.2:7700",
		"0:0:0:0:0:0:0:2@[fe80::1]:9": "[fe80::1]:9",
	} {
		if e, err := ParseNode(in); err != nil || e.Address != want || (e.ID != "") != strings.Contains(in, "@") {
			t.Errorf("%s is %+v, %v", in, e, err)
		}
	}
	if _, err := ParseNode("2@10.0.0.2"); err == nil || !strings.Contains(err.Error(), `"2"`) {
		t.Errorf("a bad id gives %v", err)
	}
}

// For example on a full or read-only disk: the error used to blame another daemon.
func TestAStateDirectoryWhoseLockCannotBeMadeIsNotAnotherDaemons(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := openState(dir)
	if err == nil {
		s.close()
	}
	if err == nil || strings.Contains(err.Error(), "another") || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("openState says %v", err)
	}
}

func TestTheNICIDComesFromTheKeyAndStays(t *testing.T) { // decision 1
	dir := filepath.Join(t.TempDir(), "state")
	s, err := openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	key := func() (trust.PublicKey, error) {
		k, err := (&settings{stateDir: dir}).staticKey(true)
		return k.Public(), err
	}
	first, err := key()
	if err != nil || first.ID() == 0 {
		t.Fatalf("id %v, %v", first.ID(), err)
	}
	if st, err := os.Stat(filepath.Join(dir, "nic.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", st, err)
	}
	if _, err := openState(dir); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("a second daemon with the same state: %v", err)
	}
	s.close()
	s, err = openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if again, err := key(); err != nil || again.ID() != first.ID() {
		t.Errorf("id %v in the next life, %v before; %v", again.ID(), first.ID(), err)
	}
	if err := os.Chmod(filepath.Join(dir, "nic.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := key(); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nic.key"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, "nic.key"), 0o600)
	if _, err := key(); !errors.Is(err, trust.ErrNotAKey) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("a key that is not one: %v", err)
	}
}

// A link in such a directory once led the incarnation into a file that its owner could not write.
func TestAStateDirectoryThatOthersCanChangeIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o770, 0o777, 0o777 | os.ModeSticky} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		if s, err := openState(dir); !errors.Is(err, ctl.ErrNotTrusted) || !strings.Contains(err.Error(), "state") {
			t.Errorf("mode %v: %v", mode, err)
			if s != nil {
				s.close()
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("mode %v: %v is made there, %v", mode, left, err)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := openState(dir); !errors.Is(err, ctl.ErrNotTrusted) || !strings.Contains(err.Error(), "user 12345's") {
		t.Errorf("another user's: %v", err)
	}
}

func TestIncarnationsOnlyGrow(t *testing.T) { // decision 3
	s, err := openState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	now := time.Now()
	var last uint64
	for i, at := range []time.Time{now, now.Add(time.Second), now.Add(-time.Hour), now.Add(-time.Hour), now.Add(time.Minute)} {
		n, err := s.nextIncarnation(at)
		if err != nil {
			t.Fatal(err)
		}
		if n <= last {
			t.Errorf("life %d has number %d, the one before %d", i, n, last)
		}
		last = n
	}
	if err := os.WriteFile(filepath.Join(s.dir, "incarnation"), []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.nextIncarnation(now); err == nil || !strings.Contains(err.Error(), `"many"`) {
		t.Errorf("a spoiled file: %v", err)
	}
}

func TestAPortMayBeLeftOutWhereverItHasADefault(t *testing.T) {
	c := Config{Listen: "10.0.0.1", Nodes: []file.Entry{{Address: "10.0.0.2"}, {Address: "fe80::3"}}, Gossip: &Gossip{Listen: "10.0.0.1"}}
	s, err := c.check()
	if err != nil {
		t.Fatal(err)
	}
	if n := s.nodes.Nodes(); s.listen.String() != "10.0.0.1:7700" || s.gossip.Listen.String() != "10.0.0.1:7701" ||
		len(n) != 2 || n[0].Addr.String() != "10.0.0.2:7700" || n[1].Addr.String() != "[fe80::3]:7700" {
		t.Errorf("listen %v, gossip %v, nodes %v", s.listen, s.gossip.Listen, n)
	}
}

func TestAnIPOfVersion6IsAPlaceToListenAlsoWithoutAPort(t *testing.T) {
	for listen, want := range map[string]string{"::1": "[::1]:7700", "[::1]": "[::1]:7700", "::": "[::]:7700", "[::1]:9": "[::1]:9", ":9": "[::]:9", "fe80::3": "[fe80::3]:7700"} {
		s, err := Config{Listen: listen}.check()
		if err != nil || s.listen.String() != want {
			t.Errorf("listen %q: %v; expected %s", listen, err, want)
		}
	}
}
