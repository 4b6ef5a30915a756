package stuck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/stuck"
	"github.com/weftnet/weft/internal/testenv"
)

// patience limits waits for events that happen soon unless something is broken.
const patience = time.Minute

// The test binary runs itself as a rank of a program with a bug, or as a daemon.
const (
	rankVariable   = "WEFT_STUCK_TEST_RANK"
	daemonVariable = "WEFT_STUCK_TEST_DAEMON"
)

func TestMain(m *testing.M) {
	f := strings.Fields(os.Getenv(rankVariable)) // application, socket, bug, rank
	config := os.Getenv(daemonVariable)
	if config != "" || len(f) == 4 {
		go endWithParent()
	}
	if config != "" {
		fmt.Println(runDaemon(config))
		os.Exit(1)
	}
	if len(f) != 4 {
		os.Exit(m.Run())
	}
	bug, _ := strconv.Atoi(f[2])
	rank, _ := strconv.Atoi(f[3])
	if err := runRank(f[0], f[1], bug, rank); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// endWithParent ends a child whose parent was killed. A stopped child has its own process group.
// When that group no longer has a parent, the kernel continues the child and sends SIGHUP.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}

// spawn starts the test binary as a child that ends with this process.
func spawn(t *testing.T, out io.Writer, variable, value string) *os.Process {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), variable+"="+value)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stdout, c.Stderr = out, out
	lifeline, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = lifeline.Close()
	})
	return c.Process
}

// hosts holds two daemons, and a connection of a tool to the first.
type hosts struct {
	t       *testing.T
	sockets []string
	conn    *ctl.Conn
	nics    []registry.NICID
	daemon  *os.Process // the second daemon, if it is a separate process
}

func runDaemon(config string) error {
	var c daemon.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	d, err := daemon.New(c, os.Stderr)
	if err != nil {
		return err
	}
	return d.Run(context.Background())
}

// newHosts makes the hosts. If apart is true, the second daemon is a separate process.
func newHosts(t *testing.T, apart bool) *hosts {
	h := &hosts{t: t}
	dir := t.TempDir()
	var configs []daemon.Config
	var nodes []file.Entry
	for i := range 2 {
		c := daemon.Config{Socket: filepath.Join(dir, fmt.Sprintf("%d.sock", i)), Listen: testenv.Loopback(t), Plain: true, UnreachableAfter: daemon.Duration(2 * patience)}
		configs = append(configs, c)
		nodes = append(nodes, file.Entry{Name: fmt.Sprintf("h%d", i), Address: c.Listen})
		h.sockets = append(h.sockets, c.Socket)
	}
	for i, c := range configs {
		c.Nodes = nodes
		if i == 1 && apart {
			h.serveApart(c)
		} else {
			h.serve(c)
		}
	}
	for _, s := range h.sockets {
		conn := h.dial(s)
		t.Cleanup(func() { conn.Close() })
		info, _, unmap, err := conn.Stat(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := unmap(); err != nil {
			t.Fatal(err)
		}
		if h.conn == nil {
			h.conn = conn
		}
		h.nics = append(h.nics, registry.NICID(info.NIC))
	}
	return h
}

// dial connects to a daemon that may not be listening yet.
func (h *hosts) dial(socket string) *ctl.Conn {
	h.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := ctl.Dial(h.t.Context(), socket)
		if err == nil {
			return conn
		}
		if !errors.Is(err, ctl.ErrNoDaemon) || time.Now().After(end) {
			h.t.Fatal(err)
		}
	}
}

// serveApart runs a daemon as a separate process until the test ends.
func (h *hosts) serveApart(c daemon.Config) {
	h.t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		h.t.Fatal(err)
	}
	h.daemon = spawn(h.t, nil, daemonVariable, string(config))
}

// serve runs a daemon until the test ends.
func (h *hosts) serve(c daemon.Config) {
	h.t.Helper()
	var log bytes.Buffer
	d, err := daemon.New(c, &log)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				h.t.Errorf("daemon: %v\n%s", err, log.String())
			}
		case <-time.After(patience):
			h.t.Error("the daemon does not end")
		}
	})
}

// start starts the ranks of a program with a bug, the first half on the first host. They are
// killed at the end of the test.
func (h *hosts) start(t *testing.T, app string, bug int) {
	for rank := range bugRanks {
		out := new(bytes.Buffer)
		t.Cleanup(func() { // after the end of the rank
			if t.Failed() {
				t.Logf("rank %d wrote:\n%s", rank, out.String())
			}
		})
		spawn(t, out, rankVariable, fmt.Sprintf("%s %s %d %d", app, h.sockets[rank*2/bugRanks], bug, rank))
	}
}

// job returns the information that a launcher would have about a program's ranks.
func (h *hosts) job(app string) stuck.Job {
	return stuck.Job{ID: app, Size: bugRanks, Within: patience, Hosts: []stuck.Host{{Name: "h0", Ranks: []int{0, 1}}, {Name: "h1", NIC: h.nics[1], Ranks: []int{2, 3}}}}
}

// explained asks until the report names a cause. It returns the report and the time that the last
// one took.
func (h *hosts) explained(t *testing.T, job stuck.Job, kind string, ranks []int, says string) (r stuck.Report, took time.Duration) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		began := time.Now()
		var err error
		r, err = stuck.Ask(t.Context(), h.conn, job)
		if err != nil {
			t.Fatal(err)
		}
		took = time.Since(began)
		if c := r.Causes[0]; c.Kind == kind && slices.Equal(c.Ranks, ranks) && strings.Contains(c.Text, says) {
			return r, took
		}
		if time.Now().After(end) {
			t.Fatalf("the report is\n%s\nexpected %s of ranks %v first, and %q", text(t, &r), kind, ranks, says)
		}
	}
}

func text(t *testing.T, r *stuck.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Each program must hang because of its mistake, and the report must name the rank that made it.
func TestTheReportNamesTheRankAndTheCauseOfEachBug(t *testing.T) {
	h := newHosts(t, false)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BUG\tCAUSE\tRANKS\tREPORT IN")
	for i, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			app := fmt.Sprintf("wrong-%d", i)
			h.start(t, app, i)
			job := h.job(app)
			h.explained(t, job, bug.kind, bug.ranks, bug.says)
			// To exclude a transient state on the way to another one.
			time.Sleep(100 * time.Millisecond)
			r, took := h.explained(t, job, bug.kind, bug.ranks, bug.says)
			t.Logf("\n%s", text(t, &r))
			fmt.Fprintf(w, "%s\t%s\t%v\t%v\n", bug.name, bug.kind, bug.ranks, took.Round(100*time.Microsecond))
		})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// bugNamed returns the index of a bug.
func bugNamed(t *testing.T, name string) int {
	t.Helper()
	for i := range bugs {
		if bugs[i].name == name {
			return i
		}
	}
	t.Fatalf("there is no bug %q", name)
	return 0
}

func TestAHostThatDoesNotAnswerIsNamedAndDelaysNothing(t *testing.T) {
	h := newHosts(t, true)
	h.start(t, "half", bugNamed(t, "a rank sleeps for ever"))
	job := h.job("half")
	h.explained(t, job, "outside", []int{3}, "sleeps outside of Weft")
	if err := h.daemon.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	job.Within = 200 * time.Millisecond // less than the NIC needs to detect it
	r, took := h.explained(t, job, "host", []int{2, 3}, "host h1 does not answer: no answer in time")
	if len(r.Silent) != 1 || r.Silent[0].Node != "h1" || r.Causes[0].Waiting != 2 {
		t.Errorf("the report is\n%s\nexpected that ranks 0 and 1 wait for the host", text(t, &r))
	}
	t.Logf("after %v:\n%s", took, text(t, &r))
}

func TestTheHostsOfAJobAreFoundByItsNames(t *testing.T) {
	h := newHosts(t, false)
	h.start(t, "found", bugNamed(t, "a ring of receives"))
	r, _ := h.explained(t, stuck.Job{ID: "found", Within: patience}, "cycle", []int{0, 1, 2, 3}, "0 → 1 → 2 → 3 → 0")
	if r.Hosts != 2 || r.Size != 4 || r.Ranks[0].Node != "h0" && r.Ranks[0].Node != h.nics[0].String() || r.Ranks[3].Node != "h1" {
		t.Errorf("the report is of %d ranks on %d hosts:\n%s", r.Size, r.Hosts, text(t, &r))
	}
	if r, err := stuck.Ask(t.Context(), h.conn, stuck.Job{ID: "unknown", Within: patience}); err != nil || r.Size != 0 || r.Causes[0].Kind != "not-determined" {
		t.Errorf("of a job that there is not, the report is %+v, %v", r, err)
	}
	if _, err := stuck.Ask(t.Context(), h.conn, stuck.Job{ID: "found", Within: time.Nanosecond}); err == nil {
		t.Error("a report is made without a single answer in time")
	}
}
