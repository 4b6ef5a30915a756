package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/version"
)

// execRun is a `weft testbed exec` as a process, with its own temporary directory.
type execRun struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
	tmp            string
}

// testbedExec prepares a run. If no testbed can be made, it skips the test.
func testbedExec(t *testing.T, args ...string) *execRun {
	t.Helper()
	if err := testbed.Check(); err != nil {
		t.Skip(err)
	}
	r := &execRun{tmp: t.TempDir()}
	r.Cmd = exec.Command("/proc/self/exe", append([]string{"testbed", "exec"}, args...)...)
	// Under -race a process would sleep for a second before it ends.
	r.Env = append(os.Environ(), asWeft+"=1", "TMPDIR="+r.tmp, "GORACE=atexit_sleep_ms=0")
	r.Stdout, r.Stderr = &r.stdout, &r.stderr
	return r
}

// status runs it to its end and returns its exit status.
func (r *execRun) status(t *testing.T) int {
	t.Helper()
	err := r.Run()
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	leavesNothing(t, r.tmp)
	return r.ProcessState.ExitCode()
}

// leavesNothing fails the test if a run has left a file or, a moment after its end, a process.
func leavesNothing(t *testing.T, tmp string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		left, _ = filepath.Glob(tmp + "/*")
		left = append(left, processesWith(t, "TMPDIR="+tmp)...)
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %q", left)
}

// processesWith lists the processes that have a line in their environment.
func processesWith(t *testing.T, line string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(f string) bool {
		env, _ := os.ReadFile(f) // it may have ended
		return !bytes.Contains(env, []byte(line+"\x00"))
	})
}

// sorted returns the lines of some output in order, since hosts run concurrently.
func sorted(b *bytes.Buffer) []string {
	l := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	slices.Sort(l)
	return l
}

func TestExecRunsOnEveryHostAndMarksLines(t *testing.T) {
	r := testbedExec(t, "--hosts", "3", "--", "sh", "-c",
		`echo $WEFT_HOST of $WEFT_HOSTS: $WEFT_ADDR in $WEFT_ADDRS; echo ${WEFT_SOCKET##*/} >&2; test -d ${WEFT_SOCKET%/*} && printf cut`)
	if status := r.status(t); status != 0 {
		t.Fatalf("status %d: %s", status, &r.stderr)
	}
	all := "10.87.0.1,10.87.0.2,10.87.0.3"
	want := []string{
		"[0] 0 of 3: 10.87.0.1 in " + all, "[0] cut",
		"[1] 1 of 3: 10.87.0.2 in " + all, "[1] cut",
		"[2] 2 of 3: 10.87.0.3 in " + all, "[2] cut",
	}
	if got := sorted(&r.stdout); !slices.Equal(got, want) {
		t.Errorf("standard output is %q, want %q", got, want)
	}
	want = []string{"[0] host0.sock", "[1] host1.sock", "[2] host2.sock"}
	if got := sorted(&r.stderr); !slices.Equal(got, want) {
		t.Errorf("standard error is %q, want %q", got, want)
	}
}

// The PATH of root seldom has the directory into which Go installs programs.
func TestExecPutsItsOwnBinaryOnThePath(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	r := testbedExec(t, "--hosts", "1", "--", "weft", "--version")
	if status := r.status(t); status != 0 || r.stdout.String() != "[0] "+version.Text()+"\n" {
		t.Errorf("status %d, %q, %q; expected %q", status, &r.stdout, &r.stderr, version.Text())
	}
}

func TestExecOnOneHostLeavesOutputAndInputAlone(t *testing.T) {
	r := testbedExec(t, "--hosts", "2", "--on", "1", "--", "sh", "-c", "cat; echo $WEFT_HOST $WEFT_ADDRS; echo err >&2")
	r.Stdin = strings.NewReader("input\n")
	if status := r.status(t); status != 0 {
		t.Fatalf("status %d: %s", status, &r.stderr)
	}
	if out, err := r.stdout.String(), r.stderr.String(); out != "input\n1 10.87.0.1,10.87.0.2\n" || err != "err\n" {
		t.Errorf("standard output %q, standard error %q", out, err)
	}
}

func TestExecFlagsReachTheTestbed(t *testing.T) {
	r := testbedExec(t, "--on", "0", "--mtu", "2000", "--loss", "1%", "--", "cat", "/proc/net/dev")
	if status := r.status(t); status != 0 || !strings.Contains(r.stdout.String(), testbed.Interface) {
		t.Errorf("status %d, output %s%s", status, &r.stdout, &r.stderr)
	}
	r = testbedExec(t, "--on", "0", "--mtu", "2000", "--", os.Args[0], "-test.run=^TestHelperPrintsMTU$", "-test.v")
	r.Env = append(r.Env, "WEFT_TEST_PRINTS_MTU=1")
	// The helper must be a test binary again, and not weft.
	r.Args = slices.Insert(r.Args, slices.Index(r.Args, "--")+1, "env", "-u", asWeft)
	if status := r.status(t); status != 0 || !strings.Contains(r.stdout.String(), "MTU 2000") {
		t.Errorf("status %d, output %s%s", status, &r.stdout, &r.stderr)
	}
}

func TestHelperPrintsMTU(t *testing.T) {
	if os.Getenv("WEFT_TEST_PRINTS_MTU") == "" {
		t.Skip("for TestExecFlagsReachTheTestbed")
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq(testbed.Interface)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFMTU, req); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("MTU %d\n", req.Uint32())
}

func TestExecPassesOnTheFirstFailure(t *testing.T) {
	for _, c := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0},
		{"exit $WEFT_HOST", 1},
		{"exit $((7 - 3 * WEFT_HOST))", 7},
		{"test $WEFT_HOST = 0 || kill -9 $$", 128 + 9},
	} {
		r := testbedExec(t, "--hosts", "3", "--", "sh", "-c", c.script)
		if got := r.status(t); got != c.want {
			t.Errorf("%s: status %d, want %d; %s", c.script, got, c.want, &r.stderr)
		}
		if r.stderr.Len() > 0 {
			t.Errorf("%s: weft adds to a command's own words: %s", c.script, &r.stderr)
		}
	}
}

func TestExecNamesACommandThatIsNotThere(t *testing.T) {
	for _, c := range []struct {
		command string
		want    int
	}{{"/no/such/command", 127}, {"no-such-command", 127}, {"/etc/passwd", 126}} {
		r := testbedExec(t, "--", c.command)
		if got := r.status(t); got != c.want || !strings.Contains(r.stderr.String(), c.command) {
			t.Errorf("%s: status %d, want %d; %s", c.command, got, c.want, &r.stderr)
		}
	}
}

// begin starts a run and returns once it has printed lines lines.
func (r *execRun) begin(t *testing.T, lines int) {
	t.Helper()
	r.Stdout = nil
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for range lines {
		if !in.Scan() {
			t.Fatalf("ended before it had begun: %s", &r.stderr)
		}
	}
	go func() {
		for in.Scan() {
		}
	}()
}

func (r *execRun) end(t *testing.T) int {
	t.Helper()
	kill := time.AfterFunc(patience, func() { r.Process.Kill() })
	defer kill.Stop()
	_ = r.Wait()
	leavesNothing(t, r.tmp)
	return r.ProcessState.ExitCode()
}

func TestExecPassesSignalsOn(t *testing.T) {
	// otherwise a child ignores SIGHUP if the tests are run by nohup
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	defer signal.Reset(unix.SIGHUP)
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		r := testbedExec(t, "--grace", "1m", "--", "sh", "-c", "trap 'exit 40' INT; trap 'exit 41' TERM; trap 'exit 42' HUP; echo ready; while :; do sleep 0.01; done")
		r.begin(t, 2)
		if err := r.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		want := map[syscall.Signal]int{unix.SIGINT: 40, unix.SIGTERM: 41, unix.SIGHUP: 42}[sig]
		if got := r.end(t); got != want {
			t.Errorf("%v: status %d, want %d; %s", sig, got, want, &r.stderr)
		}
	}
}

func TestExecKillsStragglersAfterTheGrace(t *testing.T) {
	r := testbedExec(t, "--grace", "50ms", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
	r.begin(t, 2)
	if err := r.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := r.end(t); got != 128+9 {
		t.Errorf("status %d, want that of SIGKILL; %s", got, &r.stderr)
	}
}

func TestExecEndsWhatCommandsLeaveRunning(t *testing.T) {
	// The second one has its own session, so no process group has both. The command ends once
	// that one is ready.
	r := testbedExec(t, "--grace", "1m", "--", "sh", "-c", `export F=$TMPDIR/ready$WEFT_HOST; sleep 60 &
		setsid sh -c 'trap "echo asked; exit" TERM; echo ready; : >$F; while :; do sleep 0.01; done' &
		until test -e $F; do sleep 0.01; done; rm $F`)
	if got := r.status(t); got != 0 {
		t.Errorf("status %d: %s", got, &r.stderr)
	}
	want := []string{"[0] asked", "[0] ready", "[1] asked", "[1] ready"}
	if got := sorted(&r.stdout); !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

func TestNothingIsLeftWhenExecIsKilled(t *testing.T) {
	r := testbedExec(t, "--loss", "5%", "--", "sh", "-c", "trap '' TERM; setsid sleep 60 & echo ready; wait")
	r.begin(t, 2)
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
}

func TestNothingIsLeftWhenTheSupervisorIsKilled(t *testing.T) {
	r := testbedExec(t, "--", "sh", "-c", "trap '' TERM; setsid sleep 60 & echo ready; wait")
	r.begin(t, 2)
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, f := range children {
		list, _ := os.ReadFile(f) // the thread may have ended
		for _, s := range strings.Fields(string(list)) {
			var pid int
			if _, err := fmt.Sscan(s, &pid); err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("exec has %d children, want one", killed)
	}
	if got := r.end(t); got != 128+9 {
		t.Errorf("status %d, want that of SIGKILL", got)
	}
}

func TestLongLinesGoOnInFurtherLines(t *testing.T) {
	var out, err bytes.Buffer
	l := newLines(&out, &err)
	w, e := l.pipe(3, false)
	if e != nil {
		t.Fatal(e)
	}
	if _, e := w.WriteString("short\n\n" + strings.Repeat("x", longestLine) + "yz"); e != nil {
		t.Fatal(e)
	}
	w.Close()
	l.wait()
	if want := "[3] short\n[3] \n[3] " + strings.Repeat("x", longestLine) + "\n[3] yz\n"; out.String() != want {
		t.Errorf("got %d bytes, want %d", out.Len(), len(want))
	}
	if err.Len() > 0 {
		t.Errorf("standard output came out on standard error: %q", &err)
	}
}
