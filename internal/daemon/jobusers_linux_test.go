package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/version"
)

func init() {
	roles["asker"] = ask
	roles["claimer"] = claim
}

// ask is a role: a process that launches a job through the daemon at SOCKET, and prints NIC's
// answer to its reservation.
func ask(arg string) error { // NIC at SOCKET
	nic, socket, _ := strings.Cut(arg, " at ")
	id, err := strconv.ParseUint(nic, 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	conn, err := ctl.Dial(ctx, socket)
	if err != nil {
		return err
	}
	other, err := conn.Another(ctx)
	if err != nil {
		return err
	}
	a, err := other.Attach(ctx, ctl.KeeperApplication(aJob, 0)+"/0", nil)
	if err != nil {
		return err
	}
	at := ctl.Address{NIC: registry.NICID(a.NIC), Slot: a.Slot, Generation: a.Generation}
	want := &ctl.Job{What: ctl.JobReserve, User: "root", Reserve: &ctl.Reserve{Job: aJob, Ranks: 1, Size: 1, Launcher: at,
		Program: "/bin/true", Dir: "/", Version: version.Release}}
	r, err := conn.NIC(id).Job(ctx, want)
	// the NIC is not known yet
	for end := time.Now().Add(patience); errors.Is(err, ctl.ErrNoNIC) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		r, err = conn.NIC(id).Job(ctx, want)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// claim is a role: a process that attaches under a name.
func claim(arg string) error { // NAME at SOCKET
	name, socket, _ := strings.Cut(arg, " at ")
	p, err := attach(context.Background(), socket, name)
	if err != nil {
		return err
	}
	fmt.Println("attached")
	return p.Close()
}

// usersPair runs two daemons of root: an outsider may attach to the first, and not to the second.
func usersPair(t *testing.T, how string, change func(c []daemon.Config), granted ...string) (c []daemon.Config, there uint64) {
	t.Helper()
	dir := dirForAll(t)
	c = withSlots(t, 2, 4, how)
	for i := range c {
		c[i].Socket = filepath.Join(dir, fmt.Sprintf("%d.sock", i))
	}
	c[0].AllowUIDs = []int{outsiderUID}
	if change != nil {
		change(c)
	}
	grant(t, c, granted...)
	run(t, c...)
	return c, idOf(t, dialTool(t, c[1]))
}

// outsiderAsks returns the answer of a NIC to a reservation of an outsider.
func outsiderAsks(t *testing.T, c daemon.Config, nic uint64, change ...func(*syscall.SysProcAttr)) (r ctl.JobReply) {
	t.Helper()
	x := outsider()
	for _, f := range change {
		f(x.SysProcAttr)
	}
	x.Env = append(x.Env, fmt.Sprintf("%s=asker=%d at %s", roleVariable, nic, c.Socket))
	x.Stderr = &logWriter{t: t, prefix: "asker: "}
	out, err := x.Output()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("another user cannot run the test's binary")
	}
	if err != nil {
		t.Fatalf("asker: %v, %s", err, out)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return r
}

func TestAKeeperRunsAsTheUserWhomTheRoleCovers(t *testing.T) {
	c, there := usersPair(t, "tells", nil, "run=nobody")
	r := outsiderAsks(t, c[0], there)
	if len(r.Refusals) != 1 || !strings.HasPrefix(r.Refusals[0].Text, fmt.Sprintf("uid %d gid %d groups [%[2]d] leader true dir / ", outsiderUID, outsiderUID)) ||
		!strings.Contains(r.Refusals[0].Text, "USER=nobody") {
		t.Errorf("reply %+v", r)
	}
}

// The request names root, but the daemon believes the kernel.
func TestAUserWhomNoRoleCoversStartsNothing(t *testing.T) {
	t.Setenv("TMPDIR", "/run") // no process of a user namespace trusts a socket below /tmp
	c, there := usersPair(t, "starts", nil, "run=root,alice", "observe")
	asRoot := func(a *syscall.SysProcAttr) { // in its own user namespace
		a.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		a.Cloneflags = syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: outsiderUID, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: outsiderUID, Size: 1}}
	}
	for i, change := range []func(*syscall.SysProcAttr){func(*syscall.SysProcAttr) {}, asRoot} {
		r := outsiderAsks(t, c[0], there, change)
		if fmt.Sprint(causes(&r)) != "[role]" || !strings.Contains(r.Refusals[0].Cure, "run=nobody") {
			t.Errorf("reply %+v", r)
		}
		far := dialTool(t, c[0]).NIC(there)
		eventually(t, "the refusal is counted", func() bool {
			_, now, err := far.Counters(t.Context())
			return err == nil && now["nic_control_refused"] == uint64(i+1)
		})
		if jobs, err := far.Jobs(t.Context()); err != nil || len(jobs) > 0 {
			t.Errorf("jobs %v, %v", jobs, err)
		}
	}
}

func TestAUserWithAJobReachesADaemonThatIsClosedToIt(t *testing.T) {
	c, there := usersPair(t, "starts", nil, "run=nobody", "observe")
	if out := outsiderSays(t, "claimer=x/0 at "+c[1].Socket); !strings.Contains(out, "failed:") {
		t.Fatalf("the daemon is open: %s", out)
	}
	if r := outsiderAsks(t, c[0], there); !r.Ready {
		t.Fatalf("reply %+v", r)
	}
	own := c[1].Socket + "." + aJob
	st, err := os.Lstat(own)
	if err != nil || st.Mode().Perm() != 0o600 || st.Sys().(*syscall.Stat_t).Uid != outsiderUID {
		t.Fatalf("the job's socket: %v, %v", st, err)
	}
	if out := outsiderSays(t, "claimer="+aJob+"/0 at "+own); !strings.Contains(out, "attached") {
		t.Errorf("a rank: %s", out)
	}
	if _, err := dialTool(t, c[1]).NIC(0).Job(t.Context(), &ctl.Job{What: ctl.JobKill, ID: aJob}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the socket goes with the job", func() bool { _, err := os.Lstat(own); return errors.Is(err, os.ErrNotExist) })
}

func TestOnlyTheUserOfAJobClaimsItsNames(t *testing.T) {
	c := withSlots(t, 1, 4, "starts")[0]
	dir := dirForAll(t)
	c.Socket, c.AllowUIDs = filepath.Join(dir, "0.sock"), []int{outsiderUID}
	run(t, c)
	l := launch(t, c)
	if r := l.reserve(t, 0, l.wants(2)); !r.Ready {
		t.Fatalf("reply %+v", r)
	}
	for _, name := range []string{aJob + "/0", aJob + ".run/9"} {
		if out := outsiderSays(t, "claimer="+name+" at "+c.Socket); !strings.Contains(out, "is a job of user root") {
			t.Errorf("%s: %s", name, out)
		}
	}
	for _, name := range []string{aJob + ".7/0", "other/0"} {
		if out := outsiderSays(t, "claimer="+name+" at "+c.Socket); !strings.Contains(out, "attached") {
			t.Errorf("%s: %s", name, out)
		}
	}
	mustAttach(t, c, aJob+"/0")
}

func TestOnlyItsUserEndsAJob(t *testing.T) {
	c, there := usersPair(t, "starts", func(c []daemon.Config) { c[1].AllowUIDs = []int{outsiderUID} }, "run=root", "observe")
	l := launch(t, c[0])
	wait(t, mustAttach(t, c[1], "there/0"), ctl.KeeperApplication(aJob, 0)+"/0")
	if r := l.reserve(t, there, l.wants(1)); !r.Ready {
		t.Fatalf("reply %+v", r)
	}
	for i := range c {
		out := outsiderSays(t, fmt.Sprintf("killer=%d at %s", there, c[i].Socket))
		if !strings.Contains(out, "may not end "+aJob) {
			t.Errorf("by daemon %d: %s", i, out)
		}
	}
	if jobs, err := l.conn.NIC(there).Jobs(t.Context()); err != nil || len(jobs) != 1 || jobs[0].State == ctl.JobEnding {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}

func init() {
	roles["killer"] = func(arg string) error { // NIC at SOCKET
		nic, socket, _ := strings.Cut(arg, " at ")
		id, err := strconv.ParseUint(nic, 10, 64)
		if err != nil {
			return err
		}
		conn, err := ctl.Dial(context.Background(), socket)
		if err != nil {
			return err
		}
		_, err = conn.NIC(id).Job(context.Background(), &ctl.Job{What: ctl.JobKill, ID: aJob})
		return err
	}
}

func TestAHostOfAnotherFabricStartsNothingAndIsCounted(t *testing.T) {
	c := withSlots(t, 2, 4, "starts")
	key := filepath.Join(t.TempDir(), "fabric.key")
	if _, err := fabric.Init(key); err != nil {
		t.Fatal(err)
	}
	c[1].KeyFiles = []string{key}
	grant(t, c, "run="+me())
	run(t, c...)
	there := dialTool(t, c[1])
	l := launch(t, c[0])
	if _, err := l.conn.NIC(idOf(t, there)).Job(t.Context(), l.wants(1)); !errors.Is(err, ctl.ErrNoNIC) {
		t.Errorf("the other fabric's host: %v", err)
	}
	own := there.NIC(0)
	eventually(t, "frames of the other fabric are counted", func() bool {
		_, counters, err := dialTool(t, c[1]).NIC(idOf(t, there)).Counters(t.Context())
		return err == nil && counters["drop_mac"] > 0
	})
	if jobs, err := own.Jobs(t.Context()); err != nil || len(jobs) > 0 {
		t.Errorf("jobs %v, %v", jobs, err)
	}
}
