package daemon_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
)

// peers returns the NICs that a daemon lists.
func peers(t *testing.T, c daemon.Config) []ctl.Node {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, err := conn.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// counter returns a counter of a daemon.
func counter(t *testing.T, c daemon.Config, name string) uint64 {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, mem, unmap, err := conn.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	page, err := vni.OpenCounterPage(mem)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(vni.Names(), name)
	if at < 0 {
		t.Fatalf("there is no counter %s", name)
	}
	return page.Load(vni.Counter(at))
}

// becomes waits until ok returns true.
func becomes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}

func TestDaemonsWithOtherFabricKeysExchangeNothingAndEachSaysSoOnce(t *testing.T) {
	c := impatient(t, 2)
	logs := make([]*logWriter, len(c))
	for i := range c {
		path := filepath.Join(t.TempDir(), fabric.FileName)
		if _, err := fabric.Init(path); err != nil {
			t.Fatal(err)
		}
		c[i].KeyFiles = []string{path}
		logs[i] = run(t, c[i])
		mustAttach(t, c[i], []string{"left/0", "right/0"}[i])
	}
	for i := range c {
		says(t, logs[i], "level=WARN", "mac1 does not verify; the fabric keys may differ", "address="+c[1-i].Listen, "weft fabric show --fingerprint", "weft fabric join")
		checked(t, c[i], "mac1 does not verify; the fabric keys may differ")
	}
	told := make([]uint64, len(c)) // refused frames at the time of the log line
	for i := range c {
		told[i] = counter(t, c[i], "drop_mac")
	}
	for i := range c {
		becomes(t, "both go on calling", func() bool { return counter(t, c[i], "drop_mac") > told[i]+3 })
		if n := strings.Count(logs[i].String(), "mac1"); n != 1 {
			t.Errorf("the log of daemon %d tells of mac1 %d times; expected once", i, n)
		}
		if up, names := counter(t, c[i], "rel_up_sessions"), namesAt(t, c[i]); up != 0 || len(names) != 1 {
			t.Errorf("daemon %d has had %d sessions and knows the names %v", i, up, names)
		}
		for _, n := range peers(t, c[i]) {
			if n.State != "down" || n.ID != 0 {
				t.Errorf("daemon %d lists %+v", i, n)
			}
		}
	}
}

func TestADaemonTellsByWhatItsPeersAreBelieved(t *testing.T) {
	c := configs(t, 2)
	bind(t, c, 1, "0:0:0:0:0:0:0:7")
	log := run(t, c...)
	says(t, log, "links are sealed", "key="+staticKey(t, c[0]).Public().String())
	becomes(t, "both are up", func() bool {
		a, b := peers(t, c[0]), peers(t, c[1])
		return len(a) == 1 && len(b) == 1 && a[0].State == "up" && b[0].State == "up"
	})
	for i, want := range []string{"configuration", "key"} {
		n := peers(t, c[i])[0]
		if n.Guard != ctl.GuardSealed || n.Binding != want || n.Key != staticKey(t, c[1-i]).Public().String() || n.Suite == "" {
			t.Errorf("daemon %d says %+v of the other; expected it to be believed by %s", i, n, want)
		}
	}
}

func TestPlainLinksAreMarked(t *testing.T) {
	c := configs(t, 2)
	c[0].Plain, c[1].Plain = true, true
	log := run(t, c...)
	says(t, log, "level=WARN", "the link is plain", "plain = true")
	says(t, log, "peer is up", "guard=plain")
	if n := peers(t, c[0])[0]; n.Guard != ctl.GuardPlain || n.Binding != "" || n.Key != "" || n.Suite != "" {
		t.Errorf("of a peer on a plain link: %+v", n)
	}
	conn, err := ctl.Dial(t.Context(), c[0].Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if info, _, unmap, err := conn.Stat(t.Context()); err != nil || unmap() != nil || info.Guard != ctl.GuardPlain || info.Fabric != "" {
		t.Errorf("of a NIC with plain links: %+v, %v", info, err)
	}
}

func TestAPlainAndASealedDaemonRefuseEachOther(t *testing.T) {
	c := impatient(t, 2)
	c[0].Plain = true
	plain, sealed := run(t, c[0]), run(t, c[1])
	says(t, plain, "level=WARN", "its link is sealed, and that of this NIC is plain", "address="+c[1].Listen)
	says(t, sealed, "level=WARN", "its link is plain, and that of this NIC is sealed", "address="+c[0].Listen)
	checked(t, c[1], "its link is plain")
	if n := peers(t, c[1])[0]; n.State != "down" {
		t.Errorf("the sealed daemon lists %+v", n)
	}
}

// certified gives each daemon a certificate by one authority.
func certified(t *testing.T, c []daemon.Config) trust.CAKey {
	t.Helper()
	ca, err := trust.NewCAKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := range c {
		key := staticKey(t, c[i]).Public()
		cert := trust.Certificate{Serial: uint64(i + 1), NIC: key.ID(), Key: key, NotBefore: time.Now().Unix() - 60, NotAfter: time.Now().Unix() + 86400,
			Applications: []string{"app*"}}
		if err := cert.Sign(ca.Private()); err != nil {
			t.Fatal(err)
		}
		c[i].Certificate = filepath.Join(stateDir(t, c[i]), "certificate")
		c[i].Authorities = []string{ca.Public().String()}
		if err := os.WriteFile(c[i].Certificate, []byte(cert.Text()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ca
}

func TestARevokedNICLosesItsSessionAtOnceAndStaysOut(t *testing.T) {
	c := configs(t, 2)
	ca := certified(t, c)
	log := run(t, c[0])
	child(t, "daemon", marshal(t, c[1]))
	says(t, log, "peer is up", "address="+c[1].Listen, "id_by=certificate")
	mustAttach(t, c[1], "app/1")
	near := mustAttach(t, c[0], "app/0")
	wait(t, near, "app/1")
	l := trust.RevocationList{Number: 1, Serials: []uint64{2}}
	if err := l.Sign(ca.Private()); err != nil {
		t.Fatal(err)
	}
	if err := fabric.KeepRevocations(filepath.Join(stateDir(t, c[0]), "revocations"), []*trust.RevocationList{&l}); err != nil {
		t.Fatal(err)
	}
	says(t, log, "a newer revocation list", "number=1")
	says(t, log, "level=WARN", "a NIC is refused, which is not trusted", "is revoked by list 1")
	says(t, log, "level=WARN", "peer is down", "peer NIC is not trusted")
	dropped := counter(t, c[0], "drop_identity")
	becomes(t, "the revoked NIC is refused when it says hello again", func() bool { return counter(t, c[0], "drop_identity") > dropped })
	if n := peers(t, c[0]); len(n) != 1 || n[0].State != "down" {
		t.Errorf("the daemon lists %+v", n)
	}
}

func TestANICWithoutCertificateIsRefusedWithTheCure(t *testing.T) {
	c := impatient(t, 2)
	certified(t, c[:1])
	log := run(t, c[0])
	run(t, c[1])
	says(t, log, "level=WARN", "a NIC is refused, which is not trusted", "nic="+staticKey(t, c[1]).Public().ID().String(), "address="+c[1].Listen,
		"the certificate is missing; sign one by weft fabric ca sign")
	checked(t, c[0], "the certificate is missing")
	if n := peers(t, c[0])[0]; n.State != "down" {
		t.Errorf("the daemon lists %+v", n)
	}
}

func TestANICWhoseIDIsBoundToAnotherKeyIsRefused(t *testing.T) {
	c := impatient(t, 2)
	bind(t, c, 1, "0:0:0:0:0:0:0:7")
	c[0].Nodes[1].Key = staticKey(t, c[0]).Public().String()
	log := run(t, c[0])
	run(t, c[1])
	says(t, log, "level=WARN", "a NIC is refused, which is not trusted", "nic=0:0:0:0:0:0:0:7", "the NIC id is bound to another static key", "correct [[node]] key")
	checked(t, c[0], "bound to another static key")
}

// The file is the daemon's store of lists: a list in it that is older than the daemon's is
// replaced.
func TestADaemonKeepsTheNewestRevocationList(t *testing.T) {
	c := configs(t, 1)
	ca := certified(t, c)
	path := filepath.Join(stateDir(t, c[0]), "revocations")
	lists := make([]*trust.RevocationList, 2)
	for i := range lists {
		lists[i] = &trust.RevocationList{Number: uint64(i + 1), Serials: []uint64{9}}
		if err := lists[i].Sign(ca.Private()); err != nil {
			t.Fatal(err)
		}
	}
	if err := fabric.KeepRevocations(path, lists[1:]); err != nil {
		t.Fatal(err)
	}
	run(t, c[0])
	if err := fabric.KeepRevocations(path, lists[:1]); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the newer list is in the file again", func() bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.TrimSpace(string(b)) == lists[1].Text()
	})
}

func TestAProcessMayNotHaveANameThatTheCertificateOfItsNICDoesNotAllow(t *testing.T) {
	c := configs(t, 1)
	certified(t, c)
	run(t, c[0])
	mustAttach(t, c[0], "app/0")
	if p, err := attach(t.Context(), c[0].Socket, "other/0"); err == nil {
		p.Close()
		t.Error("a process has a name that its NIC's certificate does not allow")
	} else if errors.Is(err, weft.ErrNameTaken) {
		t.Errorf("the name is refused as taken: %v", err)
	}
}
