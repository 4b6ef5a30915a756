package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/soak"
	"github.com/weftnet/weft/internal/testenv"
)

// soakPair runs both sides, each with an embedded NIC, and returns their output.
func soakPair(t *testing.T, flags ...string) (outputs [2]string) {
	t.Helper()
	addr := testenv.Loopback(t)
	// weft nic takes a name, too
	return soakBetween(t, addr, "127.0.0.1:0", strings.Replace(addr, "127.0.0.1", "localhost", 1), flags...)
}

// soakBetween is soakPair over given links. The second side knows the first.
func soakBetween(t *testing.T, first, second, node string, flags ...string) (outputs [2]string) {
	t.Helper()
	ended := make(chan struct{})
	sides := [2][]string{
		{"soak", "--name", "soak/0", "--peer", "soak/1", "--listen", first},
		{"soak", "--name", "soak/1", "--peer", "soak/0", "--listen", second, "--node", node},
	}
	for i, args := range sides {
		go func() {
			status, stdout, stderr := weft(append(args, flags...)...)
			if status != 0 {
				t.Errorf("side %d: status %d: %s", i, status, stderr)
			}
			outputs[i] = stdout
			ended <- struct{}{}
		}()
	}
	<-ended
	<-ended
	return outputs
}

func TestSoakTellsWhatCameThrough(t *testing.T) {
	out := soakPair(t, "--messages", "200", "--longest", "30000")
	for _, o := range out {
		if !strings.Contains(o, "200 messages each way arrived once, in order and intact\nreceived ") {
			t.Errorf("output:\n%s", o)
		}
	}
}

func TestSoakReportsAsJSON(t *testing.T) {
	for i, o := range soakPair(t, "--messages", "50", "--json") {
		var r soak.Report
		if err := json.Unmarshal([]byte(o), &r); err != nil {
			t.Fatalf("%q: %v", o, err)
		}
		if int(r.Name.Index) != i || r.Messages != 50 || r.BytesReceived == 0 || r.Goodput <= 0 || r.Segments == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestSoakWithoutPeerGivesUpInTime(t *testing.T) {
	status, _, stderr := weft("soak", "--name", "soak/0", "--peer", "soak/1", "--listen", "127.0.0.1:0", "--timeout", "1s")
	if status != exitFailed || !strings.Contains(stderr, "waiting for soak/1: ") || !strings.Contains(stderr, "not done after 1s") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestSoakSaysWhatIsWrong(t *testing.T) {
	const pair = "soak --name soak/0 --peer soak/1 "
	for line, want := range map[string]string{
		"soak":                                   "no --name given: expected the name of a process, such as soak/0",
		"soak --name soak/0":                     "no --peer given: expected the name of a process",
		"soak --name Soak":                       `invalid argument "Soak" for "--name" flag: expected the name of a process, such as soak/0`,
		"soak --name soak/0 --peer soak/0":       "--name and --peer are both soak/0: expected two different names",
		pair + "--messages 0":                    `invalid argument "0" for "--messages" flag: expected a whole number from 1`,
		pair + "--longest -1":                    `invalid argument "-1" for "--longest" flag: expected a whole number from 0 to 67108864`,
		pair + "--node 10.0.0.1:1":               "--node without --listen: expected both; a NIC daemon takes its nodes from its configuration",
		pair + "--node x/y --listen 127.0.0.1:0": `--node: address "x/y": expected HOST or HOST:PORT, such as 10.0.0.2, host-2:7700 or [fe80::2]:7700`,
		pair + "--plain":                         "--plain without --listen: expected both; for a NIC daemon, set plain = true in its configuration",
		pair + "--socket /s --listen :0":         "--socket and --listen: expected one or the other",
	} {
		status, stdout, stderr := weft(strings.Fields(line)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+want) || stdout != "" {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}

func TestSoakNamesTheDaemonThatIsNotThere(t *testing.T) {
	socket := t.TempDir() + "/nic.sock"
	status, _, stderr := weft("soak", "--name", "soak/0", "--peer", "soak/1", "--socket", socket)
	if status != exitFailed || !strings.Contains(stderr, socket) {
		t.Errorf("status %d: %s", status, stderr)
	}
}
