package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// jobRun is weft run as a process. If it starts its own daemon, that is in a directory of the
// test.
type jobRun struct {
	*exec.Cmd
	stdout, stderr lockedBuffer
	mark           string // in the environment of its ranks
}

// weftRun prepares weft run with arguments, for a host that has no daemon unless they name one.
func weftRun(t *testing.T, args ...string) *jobRun {
	t.Helper()
	r := &jobRun{mark: "WEFT_TEST_RUN=" + strconv.Itoa(os.Getpid()) + t.Name()}
	r.Cmd = exec.Command("/proc/self/exe", append([]string{"run"}, args...)...)
	none := filepath.Join(t.TempDir(), "runtime")
	if err := os.Mkdir(none, 0o700); err != nil {
		t.Fatal(err)
	}
	r.Env = append(os.Environ(), asWeft+"=1", "GORACE=atexit_sleep_ms=0", "XDG_RUNTIME_DIR="+none, r.mark)
	r.Stdout, r.Stderr = &r.stdout, &r.stderr
	t.Cleanup(func() {
		if r.Process != nil {
			_ = r.Process.Kill()
		}
		if left, _ := filepath.Glob(none + "/*"); len(left) > 0 && !t.Failed() {
			settled(t, fmt.Sprintf("%s is left", left), func() bool {
				left, _ := filepath.Glob(none + "/*")
				return len(left) == 0
			})
		}
		settled(t, "ranks are left", func() bool { return len(processesWith(t, r.mark)) == 0 })
	})
	heed(t, syscall.SIGHUP, syscall.SIGINT)
	return r
}

// heed makes the commands of a test heed signals that the tests themselves may have been started
// to ignore, as by nohup.
func heed(t *testing.T, signals ...os.Signal) {
	for _, s := range signals {
		if signal.Ignored(s) {
			// a command inherits that a signal is ignored, but not that it is caught
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, s)
			t.Cleanup(func() { signal.Ignore(s) })
		}
	}
}

// end runs it, and returns its exit status and output.
func (r *jobRun) end(t *testing.T) (status int, stdout, stderr string) {
	t.Helper()
	if r.Process == nil {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
	err := r.Wait()
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	return exitStatus(r.ProcessState), r.stdout.String(), r.stderr.String()
}

// sortedLines returns the lines of a text, sorted.
func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

func TestRanksKnowWhoTheyAre(t *testing.T) {
	status, out, stderr := weftRun(t, "-n", "3", "--env", "OWN=a b", "--cwd", "/", "--", "sh", "-c",
		`echo "$WEFT_RANK of $WEFT_SIZE, $WEFT_LOCAL_RANK of $WEFT_LOCAL_SIZE here, node $WEFT_NODE, $PMI_RANK of $PMI_SIZE, $OWN in $(pwd)"`).end(t)
	want := []string{}
	for i := range 3 {
		want = append(want, fmt.Sprintf("%d of 3, %d of 3 here, node 0, %d of 3, a b in /", i, i, i))
	}
	if got := sortedLines(out); status != 0 || stderr != "" || !slices.Equal(got, want) {
		t.Errorf("status %d, %q, %s; expected %q", status, got, stderr, want)
	}
}

func TestTheExitStatusIsThatOfTheRankThatEndedTheJobWithItsCause(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-n", "3", "--", "sh", "-c", "[ $WEFT_RANK = 2 ] && exit 3; sleep 1000"}, 3, "weft run: rank 2 on HOST: exited with status 3\n"},
		{[]string{"-n", "2", "--", "sh", "-c", "[ $WEFT_RANK = 1 ] && kill -SEGV $$; sleep 1000"}, 139, "weft run: rank 1 on HOST: killed by SIGSEGV\n"},
		{[]string{"-n", "2", "--", "sh", "-c", "[ $WEFT_RANK = 0 ] && kill -KILL $$; sleep 1000"}, 137, "weft run: rank 0 on HOST: killed by SIGKILL\n"},
		{[]string{"-n", "2", "--on-death", "shrink", "--", "sh", "-c", "exit $WEFT_RANK"}, 0, "weft run: rank 1 on HOST: exited with status 1; the others go on\n"},
		{[]string{"-n", "1", "--timeout", "200ms", "--", "sleep", "1000"}, 124, "weft run: the job did not end within its timeout of 200ms\n"},
		{[]string{"--", "/no/such/program"}, 126, "weft run: no rank was started: program /no/such/program: no such file or directory\n"},
		{[]string{"--", "no-such-program"}, 126, "weft run: no rank was started: program no-such-program is in no directory of PATH; expected a path with a slash, or another PATH\n"},
		{[]string{"--cwd", "/no/such/dir", "--", "true"}, 126, "weft run: no rank was started:\nweft run:   host HOST: working directory /no/such/dir: there is none; make it on this host, or name another by --cwd\n"},
	} {
		host, _ := os.Hostname()
		status, out, stderr := weftRun(t, c.args...).end(t)
		want := strings.ReplaceAll(c.want, "HOST", host)
		if status != c.status || out != "" || !strings.HasSuffix(stderr, want) || c.want == "" && stderr != "" {
			t.Errorf("weft run %q: status %d, %q, stderr %q; expected %d and %q", c.args, status, out, stderr, c.status, want)
		}
	}
}

func TestTheSummaryHasARowForEachRank(t *testing.T) {
	status, out, stderr := weftRun(t, "-n", "2", "--json", "--", "sh", "-c", "echo rank $WEFT_RANK; [ $WEFT_RANK = 0 ] || exit 9; sleep 1000").end(t)
	var last summary
	events := map[string]int{}
	for line := range strings.Lines(out) {
		last = summary{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events[last.Event]++
	}
	if status != 9 || last.Status != 9 || len(last.Ranks) != 2 || !strings.Contains(last.Cause, "rank 1 on ") || !strings.Contains(stderr, last.Cause) {
		t.Fatalf("status %d, summary %+v, stderr %s", status, last, stderr)
	}
	for i, row := range last.Ranks {
		if row.Rank != i || row.PID == 0 || row.Node == "" || row.MaxRSS == 0 || row.Unknown {
			t.Errorf("row %+v", row)
		}
	}
	if a, b := last.Ranks[0], last.Ranks[1]; a.SignalName != "SIGTERM" || b.Exit != 9 || b.Signal != 0 {
		t.Errorf("rows %+v and %+v; expected SIGTERM and 9", a, b)
	}
	if events["placed"] != 1 || events["output"] != 2 || events["ended"] != 2 || events["summary"] != 1 {
		t.Errorf("events %v", events)
	}
}

// A refused job prints no ends of ranks. It prints no placement unless the program cannot be
// executed, which only the start finds out.
func TestARefusedJobPrintsItsRefusalsAndASummary(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(foreign, []byte("no program of this kernel"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string // the subject of each refusal
	}{
		{[]string{"--", "/no/such/program"}, []string{""}},
		{[]string{"-n", "2", "--cwd", "/no/such/dir", "--", "true"}, []string{"dir"}},
		{[]string{"-n", "3", "--", foreign}, []string{"program"}},
	} {
		status, out, stderr := weftRun(t, append([]string{"--json"}, c.args...)...).end(t)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if slices.Contains(c.want, "program") && strings.HasPrefix(lines[0], `{"event":"placed"`) {
			lines = lines[1:]
		}
		if status != 126 || len(lines) != len(c.want)+1 || !strings.HasPrefix(stderr, "weft run: no rank was started:") {
			t.Errorf("weft run %q: status %d, %s, stderr %s; expected 126, %d refusals and a summary", c.args, status, out, stderr, len(c.want))
			continue
		}
		for i, what := range c.want {
			var e refusalEvent
			if err := json.Unmarshal([]byte(lines[i]), &e); err != nil || e.Event != "refused" || e.What != what || e.Text == "" || (e.Cure == "") != (what == "") {
				t.Errorf("weft run %q: refusal %s, %v; expected one about %q", c.args, lines[i], err, what)
			}
		}
		var last summary
		if err := json.Unmarshal([]byte(lines[len(c.want)]), &last); err != nil || last.Event != "summary" || last.Status != 126 || last.Cause == "" || last.Ranks != nil {
			t.Errorf("weft run %q: the last line is %s, %v; expected a summary with status 126 and no ranks", c.args, lines[len(c.want)], err)
		}
	}
}

func TestTheFirstEventSaysWhichRanksAreWhere(t *testing.T) {
	_, out, _ := weftRun(t, "-n", "2", "--json", "--", "echo", "line").end(t)
	first, _, _ := strings.Cut(out, "\n")
	var e jobEvent
	if err := json.Unmarshal([]byte(first), &e); err != nil || e.Event != "placed" || e.Placement != "one-host" || len(e.Hosts) != 1 || !slices.Equal(e.Hosts[0].Ranks, []int{0, 1}) {
		t.Errorf("%s, %v; expected that ranks 0 and 1 are placed on one host", first, err)
	}
}

func TestTheTimeoutIsToldOnceBehindWhatTheRanksDo(t *testing.T) {
	status, _, stderr := weftRun(t, "-n", "2", "--timeout", "200ms", "--", "sleep", "1000").end(t)
	if n := strings.Count(stderr, "200ms"); status != 124 || n != 1 || !strings.Contains(stderr, ": 2 ranks on 1 host\n") {
		t.Errorf("status %d, the timeout is told %d times; expected once, behind a report: %s", status, n, stderr)
	}
}

func TestOneRankIsByteTransparent(t *testing.T) {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	r := weftRun(t, "--", "sh", "-c", "cat; printf x >&2")
	r.Stdin = bytes.NewReader(data)
	status, out, stderr := r.end(t)
	if status != 0 || out != string(data) || stderr != "x" {
		t.Errorf("status %d, %d bytes, equal %v, stderr %q", status, len(out), out == string(data), stderr)
	}
}

func TestInputGoesToTheRanksThatAreNamed(t *testing.T) {
	for stdin, want := range map[string]string{"0": "0:3 1:0 2:0", "2": "0:0 1:0 2:3", "all": "0:3 1:3 2:3", "none": "0:0 1:0 2:0"} {
		r := weftRun(t, "-n", "3", "--stdin", stdin, "--", "sh", "-c", "echo $WEFT_RANK:$(wc -l)")
		r.Stdin = strings.NewReader("a\nb\nc\n")
		if status, out, stderr := r.end(t); status != 0 || strings.Join(sortedLines(out), " ") != want {
			t.Errorf("--stdin %s: status %d, %q, %s; expected %s", stdin, status, sortedLines(out), stderr, want)
		}
	}
}

func TestAJobEndsWhenItsReaderHasGone(t *testing.T) {
	r := weftRun(t, "-n", "2", "--", "sh", "-c", "while :; do echo line; done")
	out, err := r.outPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if status, _, stderr := r.end(t); status != 128+int(syscall.SIGPIPE) || stderr != "" {
		t.Errorf("status %d, stderr %q; expected that of SIGPIPE and nothing", status, stderr)
	}
}

// outPipe starts the run with a pipe for its standard output.
func (r *jobRun) outPipe(t *testing.T) (*os.File, error) {
	t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { out.Close() })
	r.Stdout = w
	err = r.Start()
	w.Close()
	return out, err
}

// ready starts the run, and returns a reader of its output after each of lines ranks has printed
// a line.
func (r *jobRun) ready(t *testing.T, lines int) *bufio.Reader {
	t.Helper()
	f, err := r.outPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(f)
	for range lines {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatalf("%v: %s", err, r.stderr.String())
		}
	}
	return out
}

func TestSignalsReachTheRanks(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  string
		signals []syscall.Signal // each after a line of both ranks
		status  int
	}{
		{"USR1 is handled", `trap "exit 7" USR1`, []syscall.Signal{syscall.SIGUSR1}, 7},
		{"TERM is handled", `trap "exit 8" TERM`, []syscall.Signal{syscall.SIGTERM}, 128 + 15},
		{"TERM is ignored", `trap "" TERM`, []syscall.Signal{syscall.SIGTERM}, 128 + 15},
		{"HUP", ":", []syscall.Signal{syscall.SIGHUP}, 128 + 1},
		{"INT", ":", []syscall.Signal{syscall.SIGINT}, 128 + 2},
		{"INT is ignored once", `trap "echo again" INT`, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 128 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := weftRun(t, "-n", "2", "--grace", "100ms", "--", "sh", "-c", c.script+"; echo ready; while :; do sleep 0.05; done")
			out := r.ready(t, 2)
			for i, s := range c.signals {
				if i > 0 {
					for range 2 {
						if _, err := out.ReadString('\n'); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := r.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			if status, _, stderr := r.end(t); status != c.status {
				t.Errorf("status %d, %s; expected %d", status, stderr, c.status)
			}
		})
	}
}

// procState returns the state of a process, such as T for stopped; empty if there is no such
// process.
func procState(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, rest, ok := strings.Cut(string(b), ") "); ok {
		return rest[:1]
	}
	return ""
}

func TestTheRanksStopAndContinueWithWeftRun(t *testing.T) {
	r := weftRun(t, "-n", "2", "--", "sh", "-c", "echo $$; while :; do :; done")
	f, err := r.outPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	out, pids := bufio.NewReader(f), []int{0, 0}
	for i := range pids {
		if _, err := fmt.Fscanln(out, &pids[i]); err != nil {
			t.Fatal(err)
		}
	}
	all := append(pids, r.Process.Pid)
	stopped := func(pid int) bool { return procState(pid) == "T" }
	_ = r.Process.Signal(syscall.SIGTSTP)
	settled(t, "some process is not stopped", func() bool { return !slices.ContainsFunc(all, func(p int) bool { return !stopped(p) }) })
	_ = r.Process.Signal(syscall.SIGCONT)
	settled(t, "some process has not continued", func() bool { return !slices.ContainsFunc(all, stopped) })
	_ = r.Process.Signal(syscall.SIGTERM)
	if status, _, stderr := r.end(t); status != 128+15 {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// The cleanup of weftRun looks for ranks and files.
func TestNothingIsLeftOfALauncherThatIsKilled(t *testing.T) {
	r := weftRun(t, "--", "sh", "-c", "trap '' TERM HUP INT; (setsid sleep 1000 &); cat /proc/self/cgroup; echo up; while :; do sleep 0.05; done")
	f, err := r.outPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	out, job := bufio.NewReader(f), ""
	for line := ""; line != "up\n"; {
		if line, err = out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if name := regexp.MustCompile("job-[0-9a-f]{8}").FindString(line); name != "" {
			job = name
		}
	}
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.Wait()
	settled(t, "the control group of "+job+" is left", func() bool {
		for _, below := range []string{"*", "*/*", "*/*/*", "*/*/*/*"} {
			if found, _ := filepath.Glob("/sys/fs/cgroup/" + below + "/" + job); job != "" && len(found) > 0 {
				return false
			}
		}
		return true
	})
}

func TestALineOfTheTerminalReachesTheRankAndTheNextStays(t *testing.T) {
	user, terminal := openPTY(t)
	if _, err := io.WriteString(user, "one\ntwo\nthree\n"); err != nil {
		t.Fatal(err)
	}
	r := weftRun(t, "-n", "2", "--", "sh", "-c", "[ $WEFT_RANK = 1 ] || { read a; echo got $a; }")
	r.Stdin = terminal
	status, out, stderr := r.end(t)
	if status != 0 || out != "got one\n" {
		t.Errorf("status %d, %q, %s", status, out, stderr)
	}
	if n := readable(t, terminal); n != len("two\nthree\n") && n != len("three\n") {
		t.Errorf("%d bytes are left in the terminal; expected the lines behind the first, or behind the next", n)
	}
	unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}

func TestAStoppedReaderStopsRanksAndNoMemoryGrows(t *testing.T) {
	r := weftRun(t, "-n", "2", "--", "sh", "-c", "yes 0123456789012345678901234567890123456789 | head -c 20000005")
	f, err := r.outPipe(t)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReaderSize(f, 1<<16)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // the ranks fill every buffer that grows
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Process.Pid))
	var rss int
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "RssAnon: %d", &rss)
	}
	if rss > 64<<10 {
		t.Errorf("weft run takes %d KiB while nobody reads", rss)
	}
	n, err := io.Copy(io.Discard, out)
	if want := int64(2*20000005 - 41); err != nil || n != want {
		t.Errorf("read %d bytes, %v; expected %d", n, err, want)
	}
	if status, _, stderr := r.end(t); status != 0 {
		t.Errorf("status %d, %s", status, stderr)
	}
}
