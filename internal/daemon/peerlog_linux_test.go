package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testenv"
)

// logs waits until the log has a line with all of some words.
func logs(t *testing.T, log *logWriter, words ...string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for line := range strings.SplitSeq(log.String(), "\n") {
			all := true
			for _, w := range words {
				all = all && strings.Contains(line, w)
			}
			if all {
				return
			}
		}
	}
	t.Fatalf("no line of the log has all of %q", words)
}

// impatient returns configurations of daemons that give up a silent NIC soon.
func impatient(t *testing.T, n int) []daemon.Config {
	c := configs(t, n)
	for i := range c {
		c[i].UnreachableAfter = daemon.Duration(300 * time.Millisecond)
	}
	return c
}

// The usual case is a copied host with its key: both NICs used to be silent about each other.
func TestTwoNICsOfOneIDSaySo(t *testing.T) {
	c := impatient(t, 2)
	copyKey(t, c[0], c[1])
	first, second := run(t, c[0]), run(t, c[1])
	logs(t, first, "level=ERROR", "another NIC has the id of this one", "address="+c[1].Listen, "own_address="+c[0].Listen)
	logs(t, second, "level=ERROR", "another NIC has the id of this one", "address="+c[0].Listen)
	checked(t, c[0], "has the id of this one")
}

// checked makes a daemon check its nodes, and expects one to fail with a text.
func checked(t *testing.T, c daemon.Config, want string) {
	t.Helper()
	all := checks(t, c)
	for _, k := range all {
		if !k.OK && strings.Contains(k.Text, want) {
			return
		}
	}
	t.Errorf("the check says %+v; expected %q", all, want)
}

// checks makes a daemon check its nodes. A silent peer is then given up after unreachable_after,
// and not only when the next idle probe finds it.
func checks(t *testing.T, c daemon.Config) []ctl.Check {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, err := conn.NIC(0).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestANodeThatNeverAnswersIsLogged(t *testing.T) {
	c := impatient(t, 1)[0]
	nowhere := testenv.Loopback(t)
	c.Nodes = append(c.Nodes, file.Entry{Address: nowhere})
	log := run(t, c)
	logs(t, log, "level=WARN", "a node does not answer", "address="+nowhere)
	time.Sleep(2 * time.Second) // further attempts are not logged
	if n := strings.Count(log.String(), "a node does not answer"); n != 1 {
		t.Errorf("it is logged %d times; expected once", n)
	}
}

func TestARefusedNICIsLogged(t *testing.T) {
	c := impatient(t, 2)
	c[0].Static, c[0].Nodes = true, nil
	refuses := run(t, c[0])
	refused := run(t, c[1])
	logs(t, refuses, "level=WARN", "a NIC is refused that is not in the configuration", "address="+c[1].Listen)
	logs(t, refused, "a node does not answer", "address="+c[0].Listen, "refuses this NIC")
}

// The clock of a host has gone back, and its state directory is lost. The other NICs used to
// refuse it silently, and nodes sent it a hello for each answer.
func TestANICWhoseIncarnationHasGoneBackIsLogged(t *testing.T) {
	c := impatient(t, 2)
	c[1].StateDir = filepath.Join(t.TempDir(), "state")
	const before = "9000000000000000000"
	if err := os.MkdirAll(c[1].StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	number := filepath.Join(c[1].StateDir, "incarnation")
	if err := os.WriteFile(number, []byte("8999999999999999999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := run(t, c[0])
	far := child(t, "daemon", marshal(t, c[1]))
	logs(t, log, "peer is up", "incarnation="+before)
	if err := far.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	far.Wait()
	checks(t, c[0])
	if err := os.Remove(number); err != nil {
		t.Fatal(err)
	}
	run(t, c[1])
	logs(t, log, "level=WARN", "a NIC is refused, since its incarnation was larger before", "address="+c[1].Listen, "before="+before)
	checked(t, c[0], "its incarnation was larger before")
}

func TestTheLogTellsWhyAPeerIsDown(t *testing.T) {
	c := impatient(t, 2)
	log := run(t, c[0])
	logs(t, log, "level=INFO", "NIC is up", "version=", "commit=", "mtu=", "gso=", "receive_buffer=")
	logs(t, log, "level=INFO", "msg=link", `what="MTU `)
	daemons := child(t, "daemon", marshal(t, c[1]))
	logs(t, log, "peer is up")
	if err := daemons.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	daemons.Wait() // or it may still hold its lock when its successor starts
	checks(t, c[0])
	logs(t, log, "level=WARN", "peer is down", `why="it is silent"`)
	child(t, "daemon", marshal(t, c[1]))
	for end := time.Now().Add(patience); strings.Count(log.String(), "peer is up") < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the peer is not up again")
		}
	}
	conn, err := ctl.Dial(t.Context(), c[1].Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	logs(t, log, "level=INFO", "peer is down", `why="its NIC was closed"`)
}

func TestTheLogSaysThatAPeerHasRestarted(t *testing.T) {
	c := configs(t, 2)
	log := run(t, c[0])
	far := child(t, "daemon", marshal(t, c[1]))
	logs(t, log, "peer is up", "address="+c[1].Listen)
	if err := far.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	far.Wait()
	child(t, "daemon", marshal(t, c[1])) // its next life, long before the first is given up
	logs(t, log, "level=INFO", "peer is down", "address="+c[1].Listen, `why="its NIC has restarted"`)
}
