package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lab starts a testbed of two hosts that lasts until its standard input ends, and returns once
// it is built.
func lab(t *testing.T, flags ...string) *execRun {
	t.Helper()
	r := testbedExec(t, append(append([]string{"--name", "lab"}, flags...), "--", "sh", "-c", "echo $WEFT_TESTBED; sleep 600")...)
	r.begin(t, 2)
	t.Cleanup(func() { r.Process.Kill() })
	return r
}

// joining prepares a command that joins a testbed of the same temporary directory.
func (r *execRun) joining(t *testing.T, args ...string) *execRun {
	t.Helper()
	j := testbedExec(t, append([]string{"--join"}, args...)...)
	j.tmp = r.tmp
	j.Env = append(os.Environ(), asWeft+"=1", "TMPDIR="+r.tmp, "GORACE=atexit_sleep_ms=0")
	return j
}

// joined runs a command in a testbed, to its end.
func (r *execRun) joined(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	j := r.joining(t, args...)
	_ = j.Run() // ProcessState has the result
	return j.ProcessState.ExitCode(), j.stdout.String(), j.stderr.String()
}

// finish ends a testbed and checks that nothing of it is left.
func (r *execRun) finish(t *testing.T) {
	t.Helper()
	if err := r.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.end(t)
}

func TestACommandJoinsEachHostOfATestbedThatRuns(t *testing.T) {
	r := lab(t)
	j := r.joining(t, "lab", "--", "sh", "-c", `readlink /proc/self/ns/net; echo $WEFT_HOST of $WEFT_HOSTS in $WEFT_TESTBED: $WEFT_ADDR ${WEFT_SOCKET##*/}
		test -r $WEFT_FABRIC_FILE || exit 9; exit $((3 * WEFT_HOST))`)
	if err := j.Run(); j.ProcessState.ExitCode() != 3 {
		t.Errorf("%v, status %d, expected 3, that of the command on host 1; %s", err, j.ProcessState.ExitCode(), &j.stderr)
	}
	got := sorted(&j.stdout)
	if len(got) != 4 || got[0] != "[0] 0 of 2 in lab: 10.87.0.1 host0.sock" || got[2] != "[1] 1 of 2 in lab: 10.87.0.2 host1.sock" {
		t.Fatalf("output %q", got)
	}
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got[1][4:], got[3][4:]; a == b || a == here || b == here {
		t.Errorf("the hosts' network namespaces are %s and %s, and the test's is %s", a, b, here)
	}
	r.finish(t)
}

func TestACommandThatJoinsOneHostHasInputOutputAndDirectoryOfItsOwn(t *testing.T) {
	r := lab(t)
	dir := t.TempDir()
	j := r.joining(t, "lab", "--on", "1", "--", "sh", "-c", "cat; pwd; echo $WEFT_HOST; echo err >&2")
	j.Dir, j.Stdin = dir, strings.NewReader("input\n")
	if err := j.Run(); err != nil || j.stdout.String() != "input\n"+dir+"\n1\n" || j.stderr.String() != "err\n" {
		t.Errorf("%v, output %q, %q", err, &j.stdout, &j.stderr)
	}
	r.finish(t)
}

func TestACommandThatCannotJoinSaysWhy(t *testing.T) {
	r := lab(t)
	// Neither of these two directories is a running testbed of this user.
	for name, owner := range map[string]int{"killed": os.Getuid(), "theirs": os.Getuid() + 1} {
		dir := filepath.Join(r.tmp, testbedDirPrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chown(dir, owner, -1); err != nil {
			t.Skip(err)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"other", "--", "true"}, 1, "weft: no testbed other runs: expected one of lab\n"},
		{[]string{"killed", "--", "true"}, 1, "weft: testbed killed is gone: its processes were killed: expected one of lab\n"},
		{[]string{"theirs", "--", "true"}, 1, fmt.Sprintf("weft: testbed theirs belongs to %s: expected one of this user's; choose another name, or run weft as that user\n", userText(uint32(os.Getuid()+1)))},
		{[]string{"lab", "--on", "2", "--", "true"}, exitUsage, "weft: --on is 2: expected a host from 0 to 1, since testbed lab has 2\n"},
		{[]string{"lab", "--", "/no/such/command"}, 127, "weft: "},
	} {
		status, out, stderr := r.joined(t, c.args...)
		if status != c.status || out != "" || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("--join %q: status %d, %q; expected %d, %q", c.args, status, stderr, c.status, c.want)
		}
	}
	again := testbedExec(t, "--name", "lab", "--", "true")
	again.Env = append(again.Env, "TMPDIR="+r.tmp)
	if err := again.Run(); err == nil || again.stderr.String() != "weft: a testbed lab runs already: choose another --name, or join it with --join lab\n" {
		t.Errorf("a second testbed of one name: %v, %s", err, &again.stderr)
	}
	for _, name := range []string{"killed", "theirs"} {
		os.RemoveAll(filepath.Join(r.tmp, testbedDirPrefix+name))
	}
	r.finish(t)
	if status, _, stderr := r.joined(t, "lab", "--", "true"); status != 1 || !strings.HasPrefix(stderr, "weft: no testbed lab runs, nor any other of this user in "+r.tmp) {
		t.Errorf("when the testbed has ended: status %d, %s", status, stderr)
	}
}

func TestANewTestbedTakesTheNameOfOneThatWasKilled(t *testing.T) {
	r := testbedExec(t, "--name", "lab", "--", "true")
	if err := os.Mkdir(filepath.Join(r.tmp, testbedDirPrefix+"lab"), 0o700); err != nil {
		t.Fatal(err)
	}
	if status := r.status(t); status != 0 {
		t.Errorf("status %d: %s", status, &r.stderr)
	}
}

func TestWhatHasJoinedEndsWithTheTestbed(t *testing.T) {
	r := lab(t, "--grace", "1m")
	gentle := r.joining(t, "lab", "--grace", "1m", "--on", "0", "--", "sh", "-c", "trap 'sleep 0.3; echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
	pipe, err := gentle.beginCopied(t)
	if err != nil {
		t.Fatal(err)
	}
	r.finish(t)
	_ = gentle.Wait()
	// the shell may report the end of sleep
	if status, out := gentle.ProcessState.ExitCode(), <-pipe; status != 7 || out != "asked\n" || !strings.HasSuffix(gentle.stderr.String(), "weft: testbed lab has ended, and ended CMD\n") {
		t.Errorf("status %d, output %q, %q", status, out, &gentle.stderr)
	}
}

// beginCopied starts a run, waits for its first line, and returns a channel that receives its
// further output.
func (r *execRun) beginCopied(t *testing.T) (<-chan string, error) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.Stdout = write
	err = r.Start()
	write.Close()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { r.Process.Kill() })
	first := make([]byte, len("ready\n"))
	if _, err := read.Read(first); err != nil {
		return nil, fmt.Errorf("it ended before it had begun: %w: %s", err, &r.stderr)
	}
	rest := make(chan string, 1)
	go func() {
		defer read.Close()
		var all strings.Builder
		for buf := make([]byte, 100); ; {
			n, err := read.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				rest <- all.String()
				return
			}
		}
	}()
	return rest, nil
}

func TestWhatHasJoinedIsKilledWithATestbedThatIsKilled(t *testing.T) {
	r := lab(t)
	j := r.joining(t, "lab", "--", "sh", "-c", "trap '' TERM; setsid sleep 600 & echo ready; wait")
	j.begin(t, 2)
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { j.Process.Kill() })
	defer kill.Stop()
	_ = j.Wait()
	if status := j.ProcessState.ExitCode(); status != 128+9 || j.stderr.String() != "weft: testbed lab has ended, and ended CMD\n" {
		t.Errorf("status %d, %s", status, &j.stderr)
	}
	r.end(t)
}

func TestAJoinedCommandEndsWithTheWeftThatStartedIt(t *testing.T) {
	r := lab(t)
	j := r.joining(t, "lab", "--", "sh", "-c", "echo ready; exec sleep 612")
	j.begin(t, 2)
	if err := j.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = j.Wait()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left := slices.DeleteFunc(processesWith(t, "TMPDIR="+r.tmp), func(f string) bool {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			return !strings.Contains(string(line), "612")
		})
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %q", left)
		}
	}
	r.finish(t)
}

func TestWhatAJoinedCommandLeavesRunningStaysUntilTheTestbedEnds(t *testing.T) {
	r := lab(t)
	status, _, stderr := r.joined(t, "lab", "--on", "0", "--", "sh", "-c", "sleep 613 >/dev/null 2>&1 & ")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if status, out, _ := r.joined(t, "lab", "--on", "1", "--", "pgrep", "-f", "^sleep 613"); status != 0 {
		if _, err := exec.LookPath("pgrep"); err != nil {
			t.Skip(err)
		}
		t.Errorf("the process is gone: status %d, %s", status, out)
	}
	r.finish(t) // it finds leftovers
}

func TestCommandsThatJoinDifferentHostsReachOneAnother(t *testing.T) {
	r := lab(t)
	var sides [2]*execRun
	for i := range sides {
		sides[i] = r.joining(t, "lab", "--on", fmt.Sprint(i), "--", "sh", "-c",
			`exec weft soak --name soak/$WEFT_HOST --peer soak/$((1 - WEFT_HOST)) --listen $WEFT_ADDR:7720 --node 10.87.0.$((2 - WEFT_HOST)):7720 --messages 20`)
		if err := sides[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i, side := range sides {
		kill := time.AfterFunc(patience, func() { side.Process.Kill() })
		defer kill.Stop()
		if err := side.Wait(); err != nil || !strings.Contains(side.stdout.String(), "20 messages each way arrived once, in order and intact\n") {
			t.Errorf("host %d: %v, %s%s", i, err, &side.stdout, &side.stderr)
		}
	}
	r.finish(t)
}
