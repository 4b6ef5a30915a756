package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/secure"
	"github.com/weftnet/weft/internal/testenv"
)

// nicIDs are the ids of the NICs of a test. The paper's ping sends to the second one.
var nicIDs = []string{"0:0:0:0:0:0:0:1", "0:0:0:96:221:127:255:140", "0:0:0:0:0:0:0:3", "0:0:0:0:0:0:0:4"}

// observed returns the flags of a daemon that lets another NIC look at it.
func observed(t *testing.T, id string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nic.toml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("[grants]\n%q = [\"observe\"]\n", id)), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", file}
}

// boundNode returns the table of a configuration that binds an id of nicIDs to the static key in
// a state directory. It makes the key.
func boundNode(t *testing.T, i int, stateDir, address string) string {
	t.Helper()
	k, err := fabric.StaticKey(stateDir)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[[node]]\nid = %q\nkey = \"%v\"\naddress = %q\n", nicIDs[i], k.Public(), address)
}

// grantsOf returns the table of a configuration that grants the first n of nicIDs two roles: to
// observe, and to load programs for the user of the tests. A daemon of root grants no roles by
// itself.
func grantsOf(n int) string {
	text := "[grants]\n"
	for _, id := range nicIDs[:n] {
		text += fmt.Sprintf("%q = [\"observe\", \"program=%s\"]\n", id, secure.UserName(os.Getuid()))
	}
	return text
}

// startProgramNICs starts daemons that know one another, and returns their sockets.
func startProgramNICs(t *testing.T, n int, more ...string) (sockets []string) {
	t.Helper()
	dir := t.TempDir()
	addrs := make([]string, n)
	for i := range n {
		addrs[i] = testenv.Loopback(t)
	}
	for i := range n {
		text := fmt.Sprintf("id = %q\nlisten = %q\nunreachable_after = \"500ms\"\n", nicIDs[i], addrs[i])
		text += grantsOf(n)
		for k := range n {
			text += boundNode(t, k, filepath.Join(dir, fmt.Sprint(k)), addrs[k])
			if k != i {
				text += fmt.Sprintf("name = \"Host-%d\"\n", k+1)
			}
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.toml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(dir, fmt.Sprintf("%d.sock", i))
		startNIC(t, append([]string{"--socket", socket, "--config", file, "--state-dir", filepath.Join(dir, fmt.Sprint(i))}, more...)...)
		sockets = append(sockets, socket)
	}
	eventually(t, "the NICs are up", func() bool {
		for _, s := range sockets {
			_, out, _ := weft("nodes", "--socket", s)
			if strings.Count(out, " up ") != n-1 {
				return false
			}
		}
		return true
	})
	return sockets
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// must runs weft, and fails the test unless weft succeeds.
func must(t *testing.T, args ...string) string {
	t.Helper()
	status, out, stderr := weft(args...)
	if status != 0 {
		t.Fatalf("weft %s: %d %q %q", strings.Join(args, " "), status, out, stderr)
	}
	return out
}

func sourceFile(t *testing.T, name, source string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".pdl")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const pongSource = `PROGRAM pong: TRIGGERS 12;
BEGIN END;
MESSAGE 12: BEGIN SEND PACKET[0] LEN PACKETLEN AS 10 TO ping AT SOURCE END;
END;
`

const counterSource = `PROGRAM counter: VAR n; TRIGGERS 1;
BEGIN n = 100 END;
MESSAGE 1: BEGIN n = n + PACKET[0]; DISPLAY n END;
END;
`

// PANIC-37: the paper's ping, unchanged, between the NICs of two daemons.
func TestThePapersPingRunsInDaemons(t *testing.T) {
	samples := os.Getenv("WEFT_PDL_SAMPLES")
	if samples == "" {
		t.Skip("WEFT_PDL_SAMPLES names no folder with the paper's programs")
	}
	sockets := startProgramNICs(t, 2)
	must(t, "program", "load", sourceFile(t, "pong", pongSource), "--id", "415", "--socket", sockets[0], "--nic", nicIDs[1])
	must(t, "program", "load", filepath.Join(samples, "ping.pdl"), "--no-start", "--socket", sockets[0])
	time.Sleep(200 * time.Millisecond) // until the other NIC has been told of it
	must(t, "program", "start", "ping", "--socket", sockets[0])
	var lines []string
	eventually(t, "ping shows 200 values", func() bool {
		lines = strings.Fields(must(t, "program", "log", "ping", "--socket", sockets[0]))
		return len(lines) == 200
	})
	last := int64(0)
	for i, l := range lines {
		var at int64
		if fmt.Sscan(l, &at); at < last || at == 0 {
			t.Fatalf("value %d is %s, behind %d", i, l, last)
		}
		last = at
	}
	if out := must(t, "program", "list", "--all", "--socket", sockets[1]); !regexp.MustCompile(`(?m)^1 +ping .*stopped`).MatchString(out) || !regexp.MustCompile(`(?m)^415 +pong .*running +1 +10[01] `).MatchString(out) {
		t.Errorf("the list of programs is\n%s", out)
	}
	if out := must(t, "program", "profile", "ping", "--socket", sockets[0]); !strings.Contains(out, "displayed     200 values") {
		t.Errorf("the profile of ping is\n%s", out)
	}
}

func TestAProgramIsReplacedWithItsDataAndTakenOut(t *testing.T) {
	s := startProgramNICs(t, 1)[0]
	file := sourceFile(t, "counter", counterSource)
	must(t, "program", "load", file, "--socket", s)
	must(t, "program", "send", "counter", "1", "5", "--socket", s)
	if out := must(t, "program", "load", file, "--replace", "--socket", s); !strings.Contains(out, "with the data of the replaced program") {
		t.Errorf("replacing said %q", out)
	}
	must(t, "program", "send", "1", "1", "--socket", s, "--", "-7")
	eventually(t, "both messages are handled", func() bool { return must(t, "program", "log", "counter", "--socket", s) == "105\n98\n" })
	if status, _, stderr := weft("program", "load", file, "--id", "1", "--socket", s); status == 0 || !strings.Contains(stderr, "1 is counter") {
		t.Errorf("loading onto another: %d %q", status, stderr)
	}
	must(t, "program", "unload", "counter", "--socket", s)
	if status, _, stderr := weft("program", "log", "counter", "--socket", s); status == 0 || !strings.Contains(stderr, `"counter"`) {
		t.Errorf("log of a program that is not there: %d %q", status, stderr)
	}
}

// Programs and tools name other NICs by the names of the configuration.
func TestNICsAreCalledByTheirNames(t *testing.T) {
	sockets := startProgramNICs(t, 2)
	asker := `PROGRAM ask: TRIGGERS 1, 10;
BEGIN END;
MESSAGE 1: BEGIN SEND PACKET[0] LEN PACKETLEN AS 12 TO 415 AT "host-2" END;
MESSAGE 10: BEGIN DISPLAY PACKET[0] + SOURCE END;
END;
`
	pong := strings.Replace(pongSource, "TO ping", "TO 1", 1)
	if out := must(t, "program", "load", sourceFile(t, "pong", pong), "--id", "415", "--nic", "Host-2", "--socket", sockets[0]); !strings.Contains(out, nicIDs[1]) {
		t.Errorf("loading by name said %q", out)
	}
	must(t, "program", "load", sourceFile(t, "ask", asker), "--socket", sockets[0])
	must(t, "program", "send", "ask", "1", "5", "--socket", sockets[0])
	want := fmt.Sprintln(5 + 0x60dd7fff8c) // the number of nicIDs[1]
	eventually(t, "the answer is shown", func() bool { return must(t, "program", "log", "ask", "--socket", sockets[0]) == want })
	if out := must(t, "nodes", "--json", "--socket", sockets[0]); !strings.Contains(out, `"name":"Host-2"`) {
		t.Errorf("weft nodes says %s", out)
	}
	if status, _, stderr := weft("program", "list", "--nic", "host-9", "--socket", sockets[0]); status != exitUsage || !strings.Contains(stderr, `"host-9": expected the id of a NIC`) {
		t.Errorf("a NIC that is not there: %d %q", status, stderr)
	}
	// tools that look at a NIC also take its name
	for _, tool := range []string{"stat", "nodes", "ps", "groups", "nic info"} {
		args := append(strings.Fields(tool), "--json", "--socket", sockets[0], "--nic")
		out := must(t, append(args, "host-2")...)
		if own := strings.Contains(out, nicIDs[1]); (tool == "stat" || tool == "nic info") && !own {
			t.Errorf("weft %s --nic host-2 says %q", tool, out)
		}
		if status, _, stderr := weft(append(args, "7")...); status != exitUsage || !strings.Contains(stderr, `--nic "7": expected the id of a NIC, such as`) {
			t.Errorf("weft %s --nic 7: %d %q", tool, status, stderr)
		}
	}
}

// A message that no program would handle is refused, and the tool says why.
func TestSendingToNoTriggerOrAStoppedProgramIsAnError(t *testing.T) {
	sockets := startProgramNICs(t, 2)
	source := strings.Replace(counterSource, "DISPLAY n END", "DISPLAY n; STOP END", 1)
	must(t, "program", "load", sourceFile(t, "counter", source), "--id", "9", "--all", "--socket", sockets[0])
	refused := func(want string, args ...string) {
		t.Helper()
		if status, _, stderr := weft(append(append([]string{"program"}, args...), "--socket", sockets[0])...); status != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %q, want %q", args, status, stderr, want)
		}
	}
	refused("the NIC of this host: send to program 9: no such trigger: 7; counter has [1]", "send", "counter", "7", "--all")
	refused("2 of 2 NICs failed", "send", "9", "7", "--all")
	refused("counter runs", "start", "9")
	must(t, "program", "send", "counter", "1", "5", "--all", "--socket", sockets[0])
	eventually(t, "both have stopped", func() bool {
		return must(t, "program", "log", "counter", "--all", "--socket", sockets[0]) == "of this host\t105\n"+nicIDs[1]+"\t105\n"
	})
	refused("the program takes no messages: counter is stopped", "send", "counter", "1", "5")
	refused("counter is stopped; replace it", "start", "counter")
	refused("the NIC of this host: load program counter: number taken: 9 is counter", "load", sourceFile(t, "counter", source), "--id", "9", "--all")
}

// A program whose initialisation is aborted is loaded and stopped. Both commands that can begin
// it say why.
func TestAnInitialisationThatFailsIsSaidToHaveFailed(t *testing.T) {
	s := startProgramNICs(t, 1)[0]
	file := sourceFile(t, "bad", "PROGRAM bad: VAR n; TRIGGERS 1;\nBEGIN\n n = 1 / n END;\nMESSAGE 1: BEGIN END; END;\n")
	const why = "its initialisation was aborted, and it is stopped: division by zero, line 3"
	if status, out, stderr := weft("program", "load", file, "--socket", s); status != exitFailed || !strings.Contains(stderr, why) || !strings.Contains(out, "bad is program 1") {
		t.Errorf("load: %d %q %q", status, out, stderr)
	}
	if status, _, stderr := weft("program", "load", file, "--replace", "--all", "--socket", s); status != exitFailed || !strings.Contains(stderr, "the NIC of this host: "+why) {
		t.Errorf("replace: %d %q", status, stderr)
	}
	must(t, "program", "load", file, "--id", "9", "--no-start", "--socket", s)
	if status, _, stderr := weft("program", "send", "9", "1", "--socket", s); status != exitFailed || !strings.Contains(stderr, "bad was never started") {
		t.Errorf("send: %d %q", status, stderr)
	}
	if status, _, stderr := weft("program", "start", "9", "--socket", s); status != exitFailed || !strings.Contains(stderr, why) {
		t.Errorf("start: %d %q", status, stderr)
	}
}

// One NIC of four cannot be reached. The program starts nowhere, and the error names the NIC.
func TestAProgramStartsNowhereIfOneOfFourNICsIsUnreachable(t *testing.T) { // PANIC-2
	sockets := startProgramNICs(t, 4)
	file := sourceFile(t, "counter", counterSource)
	must(t, "nic", "stop", "--socket", sockets[3])
	status, _, stderr := weft("program", "load", file, "--id", "9", "--all", "--socket", sockets[0])
	if status == 0 || !strings.Contains(stderr, nicIDs[3]) || !strings.Contains(stderr, "loaded nowhere") {
		t.Errorf("status %d: %s", status, stderr)
	}
	for _, s := range sockets[:3] {
		if out := must(t, "program", "list", "--socket", s); strings.Contains(out, "counter") {
			t.Errorf("it is loaded after all:\n%s", out)
		}
	}
}

// A program goes into all NICs or into none. The error names the NIC that fails.
func TestAProgramGoesIntoAllNICsOrNone(t *testing.T) {
	sockets := startProgramNICs(t, 3)
	file := sourceFile(t, "counter", counterSource)
	must(t, "program", "load", file, "--id", "7", "--socket", sockets[2])
	status, _, stderr := weft("program", "load", file, "--id", "7", "--all", "--socket", sockets[0])
	if status == 0 || !strings.Contains(stderr, nicIDs[2]) || !strings.Contains(stderr, "loaded nowhere") {
		t.Errorf("with a NIC that has it already: %d %q", status, stderr)
	}
	for _, s := range sockets[:2] {
		if out := must(t, "program", "list", "--socket", s); strings.Contains(out, "counter") {
			t.Errorf("it is loaded after all:\n%s", out)
		}
	}
	must(t, "program", "load", file, "--id", "8", "--all", "--socket", sockets[0])
	if out := must(t, "program", "list", "--all", "--socket", sockets[1]); strings.Count(out, "running") != 4 {
		t.Errorf("want it at all three, beside the one before:\n%s", out)
	}
	must(t, "nic", "stop", "--socket", sockets[1])
	status, _, stderr = weft("program", "load", file, "--id", "9", "--all", "--socket", sockets[0])
	if status == 0 || !strings.Contains(stderr, nicIDs[1]) {
		t.Errorf("with a NIC that is down: %d %q", status, stderr)
	}
	if out := must(t, "program", "list", "--nic", nicIDs[2], "--socket", sockets[0]); strings.Contains(out, "\n9 ") {
		t.Errorf("it is loaded after all:\n%s", out)
	}
}

// Three programs are stopped: one that would never end, one that sends to itself without end,
// and one that floods the network. The list says which and why.
func TestProgramsThatWillNotEndAreNamedInTheList(t *testing.T) { // PANIC-5
	sockets := startProgramNICs(t, 2)
	s := sockets[0]
	must(t, "program", "load", sourceFile(t, "counter", counterSource), "--id", "9", "--socket", s)
	for _, p := range []struct{ name, body, state string }{
		{"loop", "WHILE 1 DO\n n = n + 1", `stopped +1 +2 +1 +out of budget, line 4$`},
		{"recursion", "SEND n LEN 8 AS 1 TO recursion", `stopped +1 +\d{4,} +\d+ +recursion, line 3$`},
		{"flood", "SEND n LEN 8 AS 1 TO flood;\n SEND much[0] LEN 16384 AS 1 TO 901 AT 0:0:0:96:221:127:255:140", `stopped +1 +\d+ +\d+ +flood, line 4$`},
	} {
		source := fmt.Sprintf("PROGRAM %s: VAR n, much[2048]; TRIGGERS 1;\nBEGIN END;\nMESSAGE 1: BEGIN %s END;\nEND;\n", p.name, p.body)
		must(t, "program", "load", sourceFile(t, p.name, source), "--socket", s)
		must(t, "program", "send", p.name, "1", "--socket", s)
		want := regexp.MustCompile(`(?m)^\d+ +` + p.name + ` +\S+ +` + p.state)
		line := regexp.MustCompile(`(?m)^\d+ +` + p.name + ` .*stopped.*$`)
		var said string
		eventually(t, p.name+" is stopped", func() bool {
			said = line.FindString(must(t, "program", "list", "--socket", s))
			return said != ""
		})
		if !want.MatchString(said) {
			t.Errorf("the list says %q; want %q", said, p.state)
		}
	}
	must(t, "program", "send", "counter", "1", "5", "--socket", s)
	eventually(t, "another program goes on", func() bool { return must(t, "program", "log", "counter", "--socket", s) == "105\n" })
}

// Every command answers a request about a missing program with the same sentence, in the words
// of a user.
func TestAllCommandsSayInOneSentenceThatThereIsNoSuchProgram(t *testing.T) {
	s := startProgramNICs(t, 1)[0]
	for _, args := range [][]string{{"log"}, {"profile"}, {"unload"}, {"start"}, {"send", "1"}} {
		for target, want := range map[string]string{"9": "has none with the number 9", "lost": `has none that is called "lost"`} {
			all := append([]string{"program", args[0], target}, args[1:]...)
			status, _, stderr := weft(append(all, "--socket", s)...)
			if want = "weft: no such program: NIC " + nicIDs[0] + " " + want + "\n"; status != exitFailed || stderr != want {
				t.Errorf("%v: %d %q; want %q", all, status, stderr, want)
			}
		}
	}
	file := sourceFile(t, "counter", counterSource)
	for flag, want := range map[string]string{"app/3 --trigger 2": "this host: counter has no trigger 2 ", "app": "this host: the process to guard: "} {
		status, _, stderr := weft(append([]string{"program", "load", file, "--socket", s, "--guard"}, strings.Fields(flag)...)...)
		if status != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("--guard %s: %d %q; want %q", flag, status, stderr, want)
		}
	}
}

// A program named by its name is replaced on each NIC under the number that it has there.
func TestReplacingByNameKeepsTheNumberOnEachNIC(t *testing.T) { // PANIC-2
	sockets := startProgramNICs(t, 2)
	file := sourceFile(t, "counter", counterSource)
	must(t, "program", "load", file, "--id", "1", "--socket", sockets[0])
	must(t, "program", "load", sourceFile(t, "pong", pongSource), "--id", "1", "--socket", sockets[1])
	must(t, "program", "load", file, "--id", "7", "--socket", sockets[1])
	want := "counter is program 1 of the NIC of this host, with the data of the replaced program\ncounter is program 7 of the NIC " + nicIDs[1] + ", with the data of the replaced program\n"
	if out := must(t, "program", "load", file, "--replace", "--all", "--socket", sockets[0]); out != want {
		t.Errorf("load says %q; want %q", out, want)
	}
	want = "pong is program 2 of the NIC of this host\npong is program 2 of the NIC " + nicIDs[1] + "\n"
	must(t, "program", "unload", "pong", "--socket", sockets[1])
	if out := must(t, "program", "load", sourceFile(t, "pong", pongSource), "--all", "--socket", sockets[0]); out != want {
		t.Errorf("load says %q; want %q", out, want)
	}
}

// A node that has never answered has no id by which it could be asked. With --all, the error
// names it, and the others are asked; nothing is loaded.
func TestANodeThatHasNeverAnsweredDoesNotKeepTheOthersFromBeingListed(t *testing.T) {
	dir := t.TempDir()
	s, dead := filepath.Join(dir, "nic.sock"), testenv.Loopback(t)
	startNIC(t, "--socket", s, "--listen", testenv.Loopback(t), "--node", dead, "--state-dir", dir)
	file := sourceFile(t, "counter", counterSource)
	must(t, "program", "load", file, "--socket", s)
	says := "the NIC at " + dead + " has never answered"
	status, out, stderr := weft("program", "list", "--all", "--socket", s)
	if status == 0 || !strings.Contains(out, "counter") || !strings.Contains(stderr, says) || !strings.Contains(stderr, "1 of 2 NICs failed") {
		t.Errorf("list: %d %q %q", status, out, stderr)
	}
	status, out, stderr = weft("program", "load", file, "--all", "--socket", s)
	if status == 0 || out != "" || !strings.Contains(stderr, says) || !strings.Contains(stderr, "loaded nowhere") {
		t.Errorf("load: %d %q %q", status, out, stderr)
	}
	if status, _, stderr := weft("program", "unload", "counter", "--all", "--socket", s); status == 0 || !strings.Contains(stderr, says) {
		t.Errorf("unload: %d %q", status, stderr)
	}
	if out := must(t, "program", "list", "--socket", s); strings.Contains(out, "counter") {
		t.Errorf("it is still there: %q", out)
	}
}
