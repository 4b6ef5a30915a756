package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/secure"
	"github.com/weftnet/weft/internal/testenv"
)

// realHosts are daemons on this host that know one another, and let this user run ranks. Each
// has four slots, and a cache of staged programs.
type realHosts struct {
	sockets []string
	daemons []*exec.Cmd
}

func startHosts(t *testing.T, n int) *realHosts {
	t.Helper()
	h, dir := &realHosts{}, t.TempDir()
	addrs := make([]string, n)
	grants := "[grants]\n"
	for i := range n {
		addrs[i] = testenv.Loopback(t)
		grants += fmt.Sprintf("%q = [\"observe\", \"run=%s\"]\n", nicIDs[i], secure.UserName(os.Getuid()))
	}
	for i := range n {
		text := fmt.Sprintf("id = %q\nlisten = %q\nslots = 4\n%s", nicIDs[i], addrs[i], grants)
		for k := range n {
			text += boundNode(t, k, filepath.Join(dir, fmt.Sprint(k)), addrs[k]) + fmt.Sprintf("name = \"host-%d\"\n", k)
		}
		file, socket := filepath.Join(dir, fmt.Sprintf("%d.toml", i)), filepath.Join(dir, fmt.Sprintf("%d.sock", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// one for each, as on hosts that share no disk
		t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, fmt.Sprintf("cache-%d", i)))
		d, _ := startNIC(t, "--socket", socket, "--config", file, "--state-dir", filepath.Join(dir, fmt.Sprint(i)))
		h.sockets, h.daemons = append(h.sockets, socket), append(h.daemons, d)
	}
	eventually(t, "the NICs are up", func() bool {
		return !slices.ContainsFunc(h.sockets, func(s string) bool {
			_, out, _ := weft("nodes", "--socket", s)
			return strings.Count(out, " up ") != n-1
		})
	})
	return h
}

// run starts weft run on all hosts, with two ranks on each.
func (h *realHosts) run(t *testing.T, script string, flags ...string) *realRun {
	t.Helper()
	names := "localhost"
	for i := 1; i < len(h.sockets); i++ {
		names += fmt.Sprintf(",host-%d", i)
	}
	args := append([]string{"run", "--socket", h.sockets[0], "--nodes", names, "--per-node", "2"}, flags...)
	r := &realRun{cmd: exec.Command("/proc/self/exe", append(args, "--", "/bin/sh", "-c", script)...)}
	r.cmd.Env = append(os.Environ(), asWeft+"=1")
	r.cmd.Stderr = &r.stderr
	in, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.in = in
	r.out = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // most have ended
		_ = r.cmd.Wait()
	})
	return r
}

// realRun is a weft run.
type realRun struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// pids reads the lines "pid N" that ranks write.
func (r *realRun) pids(t *testing.T, n int) (list []int) {
	t.Helper()
	for len(list) < n {
		line, err := r.out.ReadString('\n')
		if err != nil {
			_ = r.cmd.Wait()
			t.Fatalf("after %v: %v; %s", list, err, r.stderr.String())
		}
		if pid, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(line), "pid ")); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

func (r *realRun) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(r.in, text); err != nil {
		t.Fatal(err)
	}
}

// status waits for the end of weft run.
func (r *realRun) status() int {
	var rest bytes.Buffer
	_, _ = rest.ReadFrom(r.out)
	_ = r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

// parent returns the parent of a process. A rank's parent is its keeper.
func parent(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// ended waits until none of the processes is left.
func ended(t *testing.T, pids []int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the processes %v have ended", pids), func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
}

// slotsFree waits until all slots of a host are free.
func (h *realHosts) slotsFree(t *testing.T, hosts ...int) {
	t.Helper()
	for _, i := range hosts {
		eventually(t, "all slots are free", func() bool {
			_, out, _ := weft("job", "list", "--socket", h.sockets[i])
			return !strings.Contains(out, "job-")
		})
	}
}

const printsPID = `echo pid $$; exec sleep 1000`

func TestAJobRunsOnTwoRealHosts(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, `echo "rank $WEFT_RANK of $WEFT_SIZE, $WEFT_LOCAL_RANK of $WEFT_LOCAL_SIZE on host $WEFT_NODE, PMI $PMI_RANK of $PMI_SIZE"`)
	var lines []string
	for range 4 {
		line, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q: %s", err, lines, r.stderr.String())
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for i, line := range lines {
		if want := fmt.Sprintf("rank %d of 4, %d of 2 on host %d, PMI %d of 4\n", i, i%2, i/2, i); line != want {
			t.Errorf("%q; expected %q", line, want)
		}
	}
	if s := r.status(); s != 0 {
		t.Errorf("status %d: %s", s, r.stderr.String())
	}
	h.slotsFree(t, 0, 1)
}

func TestARankThatFailsEndsTheJobOnBothHosts(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, `echo pid $$; test $WEFT_RANK = 2 || exec sleep 1000; read line; exit 3`, "--stdin", "2")
	pids := r.pids(t, 4)
	r.write(t, "go\n")
	if s := r.status(); s != 3 || !regexp.MustCompile(`rank 2 on host-1: exited with status 3`).MatchString(r.stderr.String()) {
		t.Errorf("status %d: %s", s, r.stderr.String())
	}
	ended(t, pids)
	h.slotsFree(t, 0, 1)
}

func TestInputGoesToARankOfAnotherHost(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, `test $WEFT_RANK != 3 || while read line; do echo "got $line"; done`, "--stdin", "3")
	for i := range 5 {
		r.write(t, fmt.Sprintf("line %d\n", i))
		if got, err := r.out.ReadString('\n'); err != nil || got != fmt.Sprintf("got line %d\n", i) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	if s := r.status(); s != 0 {
		t.Errorf("status %d: %s", s, r.stderr.String())
	}
}

// If any process of a job is killed, no rank is left on any host.
func TestNoRankOutlivesAProcessOfItsJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int // of weft run; -1: it was killed
		kill   func(h *realHosts, r *realRun, keeper int) error
		hosts  []int // hosts that have a daemon afterwards
	}{
		{"launcher", -1, func(_ *realHosts, r *realRun, _ int) error { return r.cmd.Process.Kill() }, []int{0, 1}},
		{"keeper", 125, func(_ *realHosts, _ *realRun, keeper int) error { return syscall.Kill(keeper, syscall.SIGKILL) }, []int{0, 1}},
		{"stopped keeper", 125, func(_ *realHosts, _ *realRun, keeper int) error {
			if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
				return err
			}
			return syscall.Kill(keeper, syscall.SIGKILL)
		}, []int{0, 1}},
		{"daemon of another host", 125, func(h *realHosts, _ *realRun, _ int) error { return h.daemons[1].Process.Kill() }, []int{0}},
		{"daemon of the launcher", 125, func(h *realHosts, _ *realRun, _ int) error { return h.daemons[0].Process.Kill() }, []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := startHosts(t, 2)
			r := h.run(t, `test $WEFT_RANK != 1 || trap "" TERM HUP; `+printsPID)
			pids := r.pids(t, 4)
			all := pids
			var keeper int
			for _, pid := range pids {
				k := parent(t, pid)
				if !slices.Contains(all, k) {
					all = append(all, k)
				}
				keeper = k
			}
			if err := c.kill(h, r, keeper); err != nil {
				t.Fatal(err)
			}
			if s := r.status(); s != c.status {
				t.Errorf("status %d, expected %d: %s", s, c.status, r.stderr.String())
			}
			ended(t, all)
			h.slotsFree(t, c.hosts...)
		})
	}
}

// A stopped keeper cannot end its ranks. Its daemon does so when the launcher asks.
func TestAStoppedKeeperDoesNotKeepItsRanks(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, `echo pid $$; test $WEFT_RANK = 0 || exec sleep 1000; read line; exit 3`)
	pids := r.pids(t, 4)
	var keepers []int
	for _, pid := range pids {
		keepers = append(keepers, parent(t, pid))
	}
	other := keepers[0] // of the host without rank 0
	for i, pid := range pids {
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && bytes.Contains(env, []byte("WEFT_NODE=1")) {
			other = keepers[i]
		}
	}
	if err := syscall.Kill(other, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.write(t, "go\n")
	if s := r.status(); s != 3 {
		t.Errorf("status %d: %s", s, r.stderr.String())
	}
	ended(t, append(pids, other))
	h.slotsFree(t, 0, 1)
}

func TestAJobThatIsKilledSaysSo(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, printsPID)
	pids := r.pids(t, 4)
	_, list, _ := weft("job", "list", "--socket", h.sockets[0], "--json")
	id := regexp.MustCompile(`job-[0-9a-f]{8}`).FindString(list)
	if status, _, stderr := weft("job", "kill", "--socket", h.sockets[0], id); status != 0 {
		t.Fatalf("weft job kill %s: %d, %s", id, status, stderr)
	}
	by := regexp.MustCompile(`its daemon was asked to end the job by user ` + secure.UserName(os.Getuid()) + ` on \S+ \(NIC ` + nicIDs[0] + `\)`)
	if s := r.status(); s != 143 || !by.MatchString(r.stderr.String()) {
		t.Errorf("status %d: %s; expected %v", s, r.stderr.String(), by)
	}
	ended(t, pids)
	h.slotsFree(t, 0, 1)
}

func TestTheSummarySaysWhoKilledTheJob(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, `echo up; exec sleep 1000`, "--json")
	for up := 0; up < 4; {
		line, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %s", err, r.stderr.String())
		}
		up += strings.Count(line, `"up\n"`)
	}
	_, list, _ := weft("job", "list", "--socket", h.sockets[1], "--json")
	id := regexp.MustCompile(`job-[0-9a-f]{8}`).FindString(list)
	if status, _, stderr := weft("job", "kill", "--socket", h.sockets[1], id); status != 0 {
		t.Fatalf("weft job kill %s: %d, %s", id, status, stderr)
	}
	rest, _ := io.ReadAll(r.out)
	_ = r.status()
	var last summary
	lines := strings.Split(strings.TrimSpace(string(rest)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Status != 143 ||
		!strings.Contains(last.Cause, "by user "+secure.UserName(os.Getuid())+" on host-1 (NIC "+nicIDs[1]+")") {
		t.Errorf("summary %s, %v; expected who has killed the job from host-1", lines[len(lines)-1], err)
	}
}

func TestHostsAreNamedAsWeftNodesListsThem(t *testing.T) {
	h := startHosts(t, 3)
	for _, nodes := range []string{"host-1,host-2", "HOST-1,Host-2", nicIDs[1] + "," + nicIDs[2], "host-1," + nicIDs[2]} {
		status, out, stderr := weft("run", "--socket", h.sockets[0], "--nodes", nodes, "--per-node", "1", "--json", "--", "/bin/true")
		first, _, _ := strings.Cut(out, "\n")
		var e jobEvent
		if err := json.Unmarshal([]byte(first), &e); status != 0 || err != nil || e.Placement != "per-node" || len(e.Hosts) != 2 {
			t.Errorf("weft run --nodes %s: status %d, %s%s, %v; expected one rank on each", nodes, status, out, stderr, err)
		}
		if status, out, stderr := weft("machine", "create", "--socket", h.sockets[0], "lab", "--nodes", nodes); status != 0 || !strings.Contains(out, "machine lab: 2 nodes") {
			t.Errorf("weft machine create --nodes %s: %d, %s%s", nodes, status, out, stderr)
		}
		if status, _, stderr := weft("machine", "delete", "--socket", h.sockets[0], "lab"); status != 0 {
			t.Errorf("weft machine delete: %d, %s", status, stderr)
		}
	}
	for _, args := range [][]string{{"run", "--nodes", "host-1,host-8,host-9", "--", "/bin/true"}, {"machine", "create", "lab", "--nodes", "host-1,host-8,host-9"}} {
		status, _, stderr := weft(append(args[:len(args):len(args)], "--socket", h.sockets[0])...)
		if args[0] == "run" { // its flags end at --
			status, _, stderr = weft(append([]string{"run", "--socket", h.sockets[0]}, args[1:]...)...)
		}
		if status == 0 || args[0] == "run" && status != 126 || !strings.Contains(stderr, "knows no host host-8, host-9; it knows ") || !strings.Contains(stderr, "host-1, host-2;") {
			t.Errorf("weft %q: status %d, %s; expected the names that are known", args, status, stderr)
		}
	}
}

// srun and mpiexec start processes that no keeper knows. Their names show that they are one job.
func TestJobStuckAsksAboutProcessesThatNoKeeperHas(t *testing.T) {
	h := startHosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, socket := range h.sockets {
		p, err := fabric.Attach(ctx, fabric.AttachConfig{Socket: socket, Name: fabric.Name{App: "slurm-812.0", Index: uint32(i)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		if i == 0 {
			go func() { _, _ = p.Recv(ctx, fabric.Name{App: "slurm-812.0", Index: 1}, 7, nil) }()
		}
	}
	for _, socket := range h.sockets {
		eventually(t, "the report names the message for which rank 0 waits", func() bool {
			status, out, _ := weft("job", "stuck", "--socket", socket, "slurm-812.0")
			return status == 0 && strings.HasPrefix(out, "slurm-812.0: 2 ranks on 2 hosts\n") && strings.Contains(out, "for a message from slurm-812.0/1 with tag 7")
		})
	}
	status, _, stderr := weft("job", "stuck", "--socket", h.sockets[0], "slurm-813.0")
	if status != 1 || !strings.Contains(stderr, "no process has a name like slurm-813.0/0") {
		t.Errorf("status %d, %s; expected that there is no such job", status, stderr)
	}
}

func TestARankThatHasEndedTellsHow(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, `test $WEFT_RANK != 3 || { echo pid $$; exit 3; }; `+printsPID, "--on-death", "shrink")
	r.pids(t, 4)
	_, list, _ := weft("job", "list", "--socket", h.sockets[0], "--json")
	id := regexp.MustCompile(`job-[0-9a-f]{8}`).FindString(list)
	for _, c := range []struct{ command, want string }{{"show", "ended: exited with status 3"}, {"stuck", "rank 3 on host-1 exited with status 3"}} {
		eventually(t, "weft job "+c.command+" tells "+c.want, func() bool {
			_, out, _ := weft("job", c.command, "--socket", h.sockets[0], id)
			return strings.Contains(out, c.want)
		})
	}
	if status, _, stderr := weft("job", "kill", "--socket", h.sockets[0], id); status != 0 {
		t.Fatalf("weft job kill %s: %d, %s", id, status, stderr)
	}
	_ = r.status()
}

func TestAPartOfAJobThatIsGoneBeforeItIsEndedIsNoError(t *testing.T) {
	h := startHosts(t, 2)
	conn, err := ctl.Dial(t.Context(), h.sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var parts []ctl.JobInfo
	for _, text := range nicIDs[:2] {
		id, err := registry.ParseNICID(text)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, ctl.JobInfo{ID: "job-00000000", NIC: id})
	}
	if err := killJob(t.Context(), t.Output(), conn, parts, nil, time.Second); err != nil {
		t.Error(err)
	}
}

func TestAJobIsRefusedWithTheCausesOfAllHosts(t *testing.T) {
	h := startHosts(t, 2)
	r := h.run(t, printsPID, "--per-node", "5", "--cwd", t.TempDir()+"/missing")
	if s := r.status(); s != 126 {
		t.Errorf("status %d", s)
	}
	for _, want := range []string{"localhost", "host-1", "4 of 4 slots free", "--oversubscribe"} {
		if !strings.Contains(r.stderr.String(), want) {
			t.Errorf("%q is not in: %s", want, r.stderr.String())
		}
	}
	h.slotsFree(t, 0, 1)
}
