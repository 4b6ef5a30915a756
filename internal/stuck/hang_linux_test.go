package stuck_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/freeport"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/stuck"
)

// patience bounds waits for what comes soon, unless something is broken.
const patience = time.Minute

// The test binary runs itself as a rank of a program with a bug.
const rankVariable = "WEFT_STUCK_TEST_RANK"

func TestMain(m *testing.M) {
	f := strings.Fields(os.Getenv(rankVariable)) // application, socket, bug, rank
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

// hosts are two daemons, and a tool at the first.
type hosts struct {
	t       *testing.T
	sockets []string
	conn    *ctl.Conn
	nics    []registry.NICID
}

func newHosts(t *testing.T) *hosts {
	h := &hosts{t: t}
	dir := t.TempDir()
	var configs []daemon.Config
	var nodes []file.Entry
	for i := range 2 {
		c := daemon.Config{Socket: filepath.Join(dir, fmt.Sprintf("%d.sock", i)), Listen: freeport.Loopback(t), Plain: true}
		configs = append(configs, c)
		nodes = append(nodes, file.Entry{Name: fmt.Sprintf("h%d", i), Address: c.Listen})
		h.sockets = append(h.sockets, c.Socket)
	}
	for _, c := range configs {
		c.Nodes = nodes
		h.serve(c)
	}
	for _, s := range h.sockets {
		conn, err := ctl.Dial(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
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

// start starts the ranks of a program with a bug, the first half on the first host. They are killed when the
// test ends.
func (h *hosts) start(t *testing.T, app string, bug int) {
	for rank := range bugRanks {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d", rankVariable, app, h.sockets[rank*2/bugRanks], bug, rank))
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			if t.Failed() {
				t.Logf("rank %d wrote:\n%s", rank, out.String())
			}
		})
	}
}

// job is what a launcher would tell of a program's ranks.
func (h *hosts) job(app string) stuck.Job {
	return stuck.Job{ID: app, Size: bugRanks, Within: patience, Hosts: []stuck.Host{{Name: "h0", Ranks: []int{0, 1}}, {Name: "h1", NIC: h.nics[1], Ranks: []int{2, 3}}}}
}

// explained asks until the report names a cause, and returns the report and how long it took to make.
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

// Each program must hang for the seeded mistake, and the report must name the rank that made it.
func TestTheReportNamesTheRankAndTheCauseOfEachBug(t *testing.T) {
	h := newHosts(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BUG\tCAUSE\tRANKS\tREPORT IN")
	for i, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			app := fmt.Sprintf("wrong-%d", i)
			h.start(t, app, i)
			job := h.job(app)
			h.explained(t, job, bug.kind, bug.ranks, bug.says)
			time.Sleep(100 * time.Millisecond) // so that it was no moment on the way to another state
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
