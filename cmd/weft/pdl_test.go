package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

// source writes a source into its own file.
func source(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

const echo = `program Echo: var n; triggers 1, 2; begin end;
message 1: begin n = n + packetlen; send packet[0] len packetlen as 2 to echo; deliver packet[0] offset 1 into 5 len 1 end;
message 2: begin display n; if lock(3) then begin clear lock 3; set flag 4 end; n = 1 / packetbyte[0] end; end`

func TestPDLCheckShowsErrorsAndWarnings(t *testing.T) {
	good, bad := source(t, "good.pdl", echo), source(t, "bad.pdl", "PROGRAM x: BEGIN\n\tAWAIT; y = 1\nEND; END")
	if status, stdout, stderr := weft("pdl", "check", good); status != 0 || stdout != "" || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	status, stdout, stderr := weft("pdl", "check", good, bad)
	want := bad + ":2:9: warning: never reached: the activation has ended before\n    \tAWAIT; y = 1\n    \t       ^\n" +
		bad + ":2:9: y is not declared\n    \tAWAIT; y = 1\n    \t       ^\n"
	if status != exitFailed || stdout != "" || stderr != want {
		t.Errorf("status %d, %q, %q; want %q", status, stdout, stderr, want)
	}
	if status, _, stderr := weft("pdl", "check", filepath.Join(t.TempDir(), "none.pdl")); status != exitFailed || !strings.Contains(stderr, "no such file") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if status, _, _ := weft("pdl", "check"); status != exitUsage {
		t.Errorf("without a file: status %d", status)
	}
}

func TestPDLCheckSaysWhetherAProgramCanResideInTheDriver(t *testing.T) {
	can := source(t, "can.pdl", `program can: var i, n; triggers 1; begin while i < 9 or n < 9 do n = n + 1; send n len 8 as 1 to other; send n len 8 as 1 to other end;
message 1: begin i = 0; while i < packetlen do begin n = n + packetbyte[i]; i = i + 1 end; send n len 8 as packet[1] to packet[0] at source end; end`)
	if status, stdout, stderr := weft("pdl", "check", "--target", "xdp", can); status != 0 || stdout != "" || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	cannot := source(t, "cannot.pdl", "program x: var n; triggers 1; begin end; message 1: begin\n  while packet[0] <> n do\n    n = n * 3;\n"+
		"  send n len 8 as 1 to 2 at source;\n\tif n > 1 then send n len 8 as 1 to 2 at source end; end")
	if status, stdout, stderr := weft("pdl", "check", cannot); status != 0 || stdout != "" || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	status, stdout, stderr := weft("pdl", "check", "--target", "xdp", can, cannot)
	for _, want := range []string{
		cannot + ":2: cannot reside in the driver: it cannot be seen that this loop ends",
		"\n      while packet[0] <> n do\n" + cannot + ":5: cannot reside in the driver: a second SEND",
		"\n    \tif n > 1 then send",
	} {
		if status != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("status %d, %q, %q; want %q", status, stdout, stderr, want)
		}
	}
	if status, _, stderr := weft("pdl", "check", "--target", "card", can); status != exitUsage || !strings.Contains(stderr, "expected vm") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestPDLFormatPrintsOrWritesBack(t *testing.T) {
	file := source(t, "x.pdl", "program x: begin await end; end")
	const want = "PROGRAM x:\nBEGIN\n    AWAIT;\nEND;\nEND;\n"
	if status, stdout, stderr := weft("pdl", "fmt", file); status != 0 || stdout != want || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if status, stdout, stderr := weft("pdl", "fmt", "-w", file); status != 0 || stdout != "" || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != want {
		t.Errorf("%q, %v", b, err)
	}
	bad := source(t, "bad.pdl", "program")
	if status, _, stderr := weft("pdl", "fmt", "-w", bad); status != exitFailed || !strings.HasPrefix(stderr, bad+":1:8: ") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if b, _ := os.ReadFile(bad); string(b) != "program" {
		t.Errorf("what is no program was changed to %q", b)
	}
}

func TestPDLCompilesAndShowsModules(t *testing.T) {
	file := source(t, "echo.pdl", echo)
	out := filepath.Join(t.TempDir(), "out.module")
	status, stdout, stderr := weft("pdl", "build", file, "-o", out)
	if status != 0 || !strings.HasPrefix(stdout, out+": program echo, ") || stderr != "" {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	_, ofSource, _ := weft("pdl", "dis", file)
	_, ofModule, _ := weft("pdl", "dis", out)
	if !strings.Contains(ofSource, "; 1: program Echo") && !strings.Contains(ofSource, "; 2: message 1: begin n = n + packetlen") || !strings.Contains(ofModule, "; line 2") {
		t.Errorf("of the source\n%s\nof the module\n%s", ofSource, ofModule)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2]++
	if err := os.WriteFile(out, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := weft("pdl", "disasm", out); status != exitFailed || !strings.HasPrefix(stderr, "weft: "+out+": decode program: ") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if status, _, stderr := weft("pdl", "compile", file); status != 0 || stderr != "" {
		t.Errorf("status %d, %q", status, stderr)
	}
	if _, err := os.Stat(strings.TrimSuffix(file, ".pdl") + ".pdlm"); err != nil {
		t.Error(err)
	}
}

func TestPDLRunTellsWhatBecomesOfMessages(t *testing.T) {
	file := source(t, "echo.pdl", echo)
	var out, errs bytes.Buffer
	root := newRoot(new(bool))
	root.SetArgs([]string{"pdl", "run", file + "=9", "--send", "1:text:ab,hex:00ff,7", "--send", "-", "--segment", "5=3", "--segment", "0=8", "--lock", "3"})
	root.SetIn(strings.NewReader("9/2:1\n\nEcho/2:zero:1\n"))
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.ExecuteContext(context.Background())
	const want = `start of echo (9): await, 1 instructions
message 1 to echo (9), 12 bytes: await, 12 instructions
  echo (9) sends 12 bytes 616200ff0700000000000000 as 2 to 9
  echo (9) delivers 1 bytes 61 to byte 1 of segment 5
message 2 to echo (9), 8 bytes: await, 12 instructions
  echo (9) displays 12
  flags that are set: 4
message 2 to echo (9), 1 bytes: aborted, 7 instructions: division by zero in line 3
  echo (9) displays 1
message 2 to echo (9), 12 bytes: await, 8 instructions
  echo (9) displays 1

PROGRAM   ACTIVATIONS  INSTRUCTIONS  REFUSED  ABORTED  STATE
echo (9)  5            40            0        1        running
`
	if err == nil || err.Error() != "aborted: 1 activation" || out.String() != want {
		t.Errorf("%v\n%s%s\nwant\n%s", err, out.String(), errs.String(), want)
	}
}

func TestPDLRunRefusesWhatItDoesNotUnderstand(t *testing.T) {
	file := source(t, "echo.pdl", echo)
	for _, c := range []struct{ args, want string }{
		{"--send x", `message "x": expected [PROGRAM[@NIC]/]TRIGGER[:PART,PART…], with a number for the trigger`},
		{"--send other/1", `message "other/1": there is no program other`},
		{"--send 4/1", `message "4/1": there is no program 4`},
		{"--send 1 --send 3", `message "3": program echo has no trigger 3, expected one of 1, 2`},
		{"--send ECHO/0:1", `message "ECHO/0:1": program echo has no trigger 0, expected one of 1, 2`},
		{"--send 1:what", `message "1:what": "what": expected a number, text:…, hex:… or zero:N`},
		{"--send 1:hex:0", `message "1:hex:0": "hex:0": expected a number`},
		{"--send 1:zero:16385", `message "1:zero:16385": "zero:16385": a message has at most 16384 bytes`},
		{"--send 1:zero:16384,1", `message "1:zero:16384,1": 16392 bytes, at most 16384 are allowed`},
		{"--send /1", `message "/1": expected [PROGRAM[@NIC]/]TRIGGER`},
		{"--send 1 --send 2:1:2", `message "2:1:2": "1:2": expected a number`},
		{"--segment 1", `--segment "1": expected ID=BYTES`},
		{"--segment -1=8", `--segment "-1=8": expected ID=BYTES, ID=text:… or ID=hex:…, with an ID from 0 to 4294967295`},
		{"--segment 4294967296=8", `--segment "4294967296=8": expected ID=BYTES`},
		{"--segment 1=-5", `--segment "1=-5": "-5" is no size, expected 1 to 67108864 bytes, such as 4096 or 16MiB`},
		{"--segment 1=0x1000", `--segment "1=0x1000": "0x1000" is no size, expected 1 to 67108864 bytes`},
		{"--segment 1=67108865", `--segment "1=67108865": "67108865" is no size, expected 1 to 67108864 bytes`},
		{"--segment 1=0", `--segment "1=0": "0" is no size, expected 1 to 67108864 bytes`},
		{"--segment 1=text:", `--segment "1=text:": 0 bytes, expected 1 to 67108864`},
		{"--segment 1=8 --segment 1=16", `--segment 1=…: program: segment cannot be added: there is one with number 1`},
		{"--segment 1=8 --lock 255", `--lock 255: expected --segment 0=BYTES too, the segment of this lock`},
		{"--segment 1=what:1", `--segment "1=what:1": expected ID=BYTES`},
		{"--lock x", `invalid argument "x" for "--lock" flag: expected numbers of locks from 0 to 1099511627775, such as 3 or 3,4`},
		{"--lock 3,-4", `invalid argument "3,-4" for "--lock" flag: expected numbers of locks`},
		{"--segment x=1", `--segment "x=1": expected ID=BYTES`},
		{"--nic 1", `invalid argument "1" for "--nic"`},
		{"--budget 0", `invalid argument "0" for "--budget"`},
	} {
		status, stdout, stderr := weft(append([]string{"pdl", "run", file}, strings.Fields(c.args)...)...)
		if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("%s: status %d, %q, %q; want %q, and nothing run", c.args, status, stdout, stderr, c.want)
		}
	}
	if status, _, stderr := weft("pdl", "run", file+"=x"); status != exitUsage || !strings.Contains(stderr, "expected FILE=ID, with a number") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// weft pdl run stops a program that a NIC would stop, unless it has a larger budget.
func TestPDLRunHasTheBudgetOfANIC(t *testing.T) {
	file := source(t, "long.pdl", "PROGRAM long: VAR i, n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN WHILE i < 10000 DO BEGIN n = n + i; i = i + 1 END; DISPLAY n END; END")
	if status, stdout, _ := weft("pdl", "run", file, "--send", "1"); status != exitFailed || !strings.Contains(stdout, "aborted, 20000 instructions: out of budget in line 1\n") {
		t.Errorf("status %d, %s", status, stdout)
	}
	if status, stdout, stderr := weft("pdl", "run", file, "--send", "1", "--budget", "30000"); status != 0 || !strings.Contains(stdout, " displays 49995000\n") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestPDLRunHasAnActivationSendNoMoreThanANICDoes(t *testing.T) {
	const body = "BEGIN i = 0; WHILE i < PACKET[0] DO BEGIN SEND i LEN 8 AS 2 TO 1; i = i + 1 END END"
	file := source(t, "many.pdl", "PROGRAM many: VAR i, got; TRIGGERS 1, 2; BEGIN SEND got LEN 8 AS 2 TO 1 END; MESSAGE 1: "+body+"; MESSAGE 2: BEGIN got = got + 1; DISPLAY got END; END")
	run := func(args ...string) (status int, stdout string) {
		status, stdout, _ = weft(append([]string{"pdl", "run", file}, args...)...)
		return status, stdout
	}
	most := fmt.Sprint(limits.ProgramSends)
	if status, stdout := run("--send", "1:"+most, "--send", "1:"+most); status != 0 || !strings.Contains(stdout, fmt.Sprintf(" displays %d\n", 1+2*limits.ProgramSends)) {
		t.Errorf("twice as many as may be: status %d, %.300s", status, stdout)
	}
	status, stdout := run("--send", fmt.Sprint("1:", limits.ProgramSends+1))
	if status != exitFailed || !strings.Contains(stdout, ": send refused in line 1\n") || !strings.Contains(stdout, fmt.Sprintf(" displays %d\n", 1+limits.ProgramSends)) {
		t.Errorf("one more than may be: status %d, %.300s", status, stdout)
	}
}

func TestPDLRunMakesTheSegmentsThatAreGiven(t *testing.T) {
	file := source(t, "last.pdl", "PROGRAM last: VAR n; BEGIN GET n OFFSET 4088 FROM 1 LEN 8; GET n OFFSET 0 FROM 2 LEN 5; DISPLAY n; GET n OFFSET 0 FROM 3 LEN 2; DISPLAY n; END; END")
	status, stdout, stderr := weft("pdl", "run", file, "--segment", "1=4KiB", "--segment", "2=text:hello", "--segment", "3=hex:0102")
	if status != 0 || !strings.Contains(stdout, " displays 478560413032\n") || !strings.Contains(stdout, " displays 478560387585\n") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	if status, stdout, _ := weft("pdl", "run", file, "--segment", "1=4088", "--segment", "2=8", "--segment", "3=8"); status != exitFailed || !strings.Contains(stdout, "segment refused in line 1") {
		t.Errorf("status %d, %s", status, stdout)
	}
}

// A NIC stops these programs. `weft pdl run` once went on to the end of its patience and
// succeeded.
func TestPDLRunStopsTheProgramsThatANICStops(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"again", "PROGRAM again: VAR n; TRIGGERS 1; BEGIN SEND n LEN 8 AS 1 TO again END;\nMESSAGE 1: BEGIN\n\tn = n + 1;\n\tSEND n LEN 8 AS 1 TO again\nEND; END",
			`message 1 to again \(1\), 8 bytes: aborted, \d+ instructions: recursion in line 4\n(?s:.*)again \(1\) +` + fmt.Sprint(limits.ProgramChain+1) + ` +\d+ +0 +1 +stopped\n$`},
		{"flood", "PROGRAM flood: VAR n; TRIGGERS 1; BEGIN SEND n LEN 8 AS 1 TO flood END;\nMESSAGE 1: BEGIN SEND n LEN 8 AS 1 TO flood;\nSEND n LEN 8 AS 1 TO 9 AT 77\nEND; END",
			`message 1 to flood \(1\), 8 bytes: aborted, \d+ instructions: flood in line 3\n(?s:.*)flood \(1\) +` + fmt.Sprint(limits.ProgramRefusals+1) + ` +\d+ +1 +1000 +stopped\n$`},
		{"queue", "PROGRAM queue: VAR i, v[2048]; TRIGGERS 1; BEGIN WHILE i < 100 DO BEGIN i = i + 1; SEND v[0] LEN 16384 AS 1 TO 9 END\nEND; MESSAGE 1: BEGIN END; END",
			`start of queue \(1\): aborted, \d+ instructions: send refused in line 1\n(?s:.*)queue \(1\) +1 +\d+ +0 +1 +stopped\n$`},
	} {
		status, stdout, stderr := weft("pdl", "run", source(t, c.name+".pdl", c.source))
		if status != exitFailed || !regexp.MustCompile(c.want).MatchString(stdout) || !strings.HasPrefix(stderr, "weft: aborted: ") {
			t.Errorf("%s: status %d, …%s, %q; expected %s", c.name, status, stdout[max(0, len(stdout)-1000):], stderr, c.want)
		}
	}
}

// In a NIC, a flag of a segment that does not exist is lost. It was once reported as set.
func TestPDLRunReportsOnlyFlagsOfSegments(t *testing.T) {
	file := source(t, "flags.pdl", "PROGRAM flags: VAR n; BEGIN SET FLAG 4; SET FLAG 260; SET FLAG 767; SET FLAG 768 END; END")
	if status, stdout, stderr := weft("pdl", "run", file, "--segment", "1=8", "--segment", "2=8"); status != 0 || !strings.Contains(stdout, "  flags that are set: 260 767\n") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	if status, stdout, stderr := weft("pdl", "run", file); status != 0 || strings.Contains(stdout, "flags that are set") {
		t.Errorf("without a segment: status %d, %s%s", status, stdout, stderr)
	}
}

// A NIC answers such a message with an error, and so does the command.
func TestPDLRunRefusesMessagesToAProgramThatIsStopped(t *testing.T) {
	file := source(t, "stops.pdl", "PROGRAM stops: TRIGGERS 1; BEGIN STOP END; MESSAGE 1: BEGIN END; END")
	status, stdout, stderr := weft("pdl", "run", file, "--send", "1")
	if status != exitFailed || !strings.Contains(stdout, "message \"1\": send to program 1: the program takes no messages: stops is stopped\n") || stderr != "weft: refused: 1 message\n" {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestPDLRunHasProgramsOnSeveralNICs(t *testing.T) {
	ping, pong := "../../examples/programs/ping.pdl", "../../examples/programs/pong.pdl"
	for _, args := range [][]string{
		{ping + "=416@1", pong + "=415@2", "--send", "1:2"},
		{pong + "=415@0:0:0:0:0:0:0:2", ping + "=416", "--send", "ping@nic/1:2"},
		{ping + "=416", pong + "=415@other", "--send", "ping@0:0:0:0:0:0:0:1/1:2"},
		{ping + "=416@9", pong + "=415@2", pong + "=415@9", "--send", "ping/1:2"},
	} {
		status, stdout, stderr := weft(append([]string{"pdl", "run"}, args...)...)
		if status != 0 || strings.Count(stdout, "  ping (416) at 0:0:0:0:0:0:0:") < 100 || strings.Count(stdout, "message 12 to pong (415) at 0:0:0:0:0:0:0:2, ") != 100 {
			t.Errorf("%q: status %d, %.2000s%s", args, status, stdout, stderr)
		}
	}
	named := source(t, "named.pdl", "PROGRAM named: VAR n; BEGIN SEND n LEN 8 AS 1 TO 5 AT host_b; SEND n LEN 8 AS 1 TO 5 AT 7 END; END")
	status, stdout, stderr := weft("pdl", "run", named+"@host-a", named+"=5@host_b")
	for _, want := range []string{
		"start of named (1) at 0:0:0:0:0:0:0:2: aborted, 12 instructions: send refused in line 1",
		"\n  named (1) at 0:0:0:0:0:0:0:2 sends 8 bytes 0000000000000000 as 1 to 5 at 0:0:0:0:0:0:0:3\n",
		"\n  named (1) at 0:0:0:0:0:0:0:2 sends 8 bytes 0000000000000000 as 1 to 5 at 0:0:0:0:0:0:0:7, which its NIC refuses: there is no such NIC\n",
	} {
		if status != exitFailed || !strings.Contains(stdout, want) {
			t.Errorf("status %d, %s%s, want %q", status, stdout, stderr, want)
		}
	}
	for arg, want := range map[string]string{
		"pong/12":   `message "pong/12": several NICs have a program pong, expected PROGRAM@NIC/TRIGGER`,
		"415/12":    `message "415/12": several NICs have a program 415, expected PROGRAM@NIC/TRIGGER`,
		"pong@3/12": `message "pong@3/12": there is no NIC 3`,
		"ping@2/1":  `message "ping@2/1": there is no program ping`,
	} {
		status, stdout, stderr := weft("pdl", "run", pong+"=415@1", pong+"=415@2", "--send", arg)
		if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "weft: "+want) {
			t.Errorf("%s: status %d, %q, %q", arg, status, stdout, stderr)
		}
	}
	for arg, want := range map[string]string{"@0": "@0: expected the number of a NIC", "@1:2:3:4:5:6:7:256": "expected eight decimal octets"} {
		if status, stdout, stderr := weft("pdl", "run", pong+arg); status == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, %q", arg, status, stdout, stderr)
		}
	}
}

// Names mean the same as at a NIC. If several programs have a name, it means the one with the
// lowest number. Names of NICs are not case-sensitive.
func TestPDLRunTakesNamesAsANICDoes(t *testing.T) {
	named := source(t, "named.pdl", "PROGRAM named: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN SEND n LEN 8 AS 2 TO named AT HOST_b END; END")
	for _, order := range [][]string{{"=3", "=7"}, {"=7", "=3"}} {
		status, stdout, stderr := weft("pdl", "run", named+order[0]+"@Host_B", named+order[1]+"@host_B", "--send", "named@host_b/1")
		if status != 0 || !strings.Contains(stdout, "message 1 to named (3), 0 bytes: await") || !strings.Contains(stdout, "as 2 to 3 at ") || !strings.Contains(stdout, "message 2 to named (3), 8 bytes: no such trigger") {
			t.Errorf("%q: status %d, %s%s", order, status, stdout, stderr)
		}
	}
}

// PANIC-37: the paper's ping, at the address that it sends to, with our own pong.
func TestPDLRunRunsThePapersPing(t *testing.T) {
	dir := os.Getenv("WEFT_PDL_SAMPLES")
	if dir == "" {
		t.Skip("WEFT_PDL_SAMPLES does not name the folder with the paper's programs ping.pdl and delivertest.pdl")
	}
	pong := source(t, "pong.pdl", "PROGRAM pong: TRIGGERS 12; BEGIN END; MESSAGE 12: BEGIN SEND PACKET[0] LEN PACKETLEN AS 10 TO ping AT SOURCE END; END")
	status, stdout, stderr := weft("pdl", "run", filepath.Join(dir, "ping.pdl"), pong+"=415", "--nic", "0:0:0:96:221:127:255:140")
	if status != 0 || strings.Count(stdout, "\n  ping (1) displays ") != 200 {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}
