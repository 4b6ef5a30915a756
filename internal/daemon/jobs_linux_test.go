package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/version"
)

// A launching host has a job's launcher, attached to its daemon. The launcher asks for places
// through it.
type launching struct {
	conn     *ctl.Conn
	launcher ctl.Address
}

// aJob differs in each run of the tests, since its control group is the host's. Children take the
// id of their parent.
var aJob = func() string {
	const variable = "WEFT_TEST_JOB"
	if os.Getenv(variable) == "" && !isKeeper() {
		os.Setenv(variable, fmt.Sprintf("job-%08x", os.Getpid()))
	}
	return os.Getenv(variable)
}()

// launch attaches the launcher of aJob to a daemon.
func launch(t *testing.T, c daemon.Config) *launching {
	t.Helper()
	a, err := dialTool(t, c).Attach(t.Context(), ctl.KeeperApplication(aJob, 0)+"/0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return &launching{conn: dialTool(t, c), launcher: ctl.Address{NIC: registry.NICID(a.NIC), Slot: a.Slot, Generation: a.Generation}}
}

// wants returns a reservation of ranks that no host refuses.
func (l *launching) wants(ranks int, change ...func(*ctl.Reserve)) *ctl.Job {
	r := &ctl.Reserve{Job: aJob, Ranks: ranks, Size: ranks, Launcher: l.launcher, Program: "/bin/true", Dir: "/", Version: version.Release}
	for _, f := range change {
		f(r)
	}
	return &ctl.Job{What: ctl.JobReserve, Reserve: r}
}

// reserve asks a NIC for places.
func (l *launching) reserve(t *testing.T, nic uint64, j *ctl.Job) *ctl.JobReply {
	t.Helper()
	r, err := l.conn.NIC(nic).Job(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// causes returns the causes of a refusal.
func causes(r *ctl.JobReply) (all []string) {
	for _, no := range r.Refusals {
		all = append(all, no.What)
	}
	return all
}

// withSlots returns configurations of daemons that start keepers of one kind, with the same
// number of slots each.
func withSlots(t *testing.T, n, slots int, how string) []daemon.Config {
	t.Helper()
	all := configs(t, n)
	for i := range all {
		all[i].Slots, all[i].Keeper = &slots, keeping(how)
	}
	return all
}

// pair runs two daemons. It returns the launcher at the first, and the id of the second, which
// already knows the first.
func pair(t *testing.T, c []daemon.Config, roles ...string) (*launching, uint64) {
	t.Helper()
	grant(t, c, roles...)
	run(t, c...)
	l := launch(t, c[0])
	wait(t, mustAttach(t, c[1], "there/0"), ctl.KeeperApplication(aJob, 0)+"/0")
	return l, idOf(t, dialTool(t, c[1]))
}

// me returns the name of this user for other NICs.
func me() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return os.Getenv("USER")
}

func TestAHostReservesPlacesAndTheirKeeperAttaches(t *testing.T) {
	l, there := pair(t, withSlots(t, 2, 4, "starts"), "run="+me())
	r := l.reserve(t, there, l.wants(3))
	if !r.Ready || len(r.Refusals) > 0 || r.NIC != registry.NICID(there) || !running(r.PID) {
		t.Fatalf("reply %+v", r)
	}
	if k := r.Keeper; k == nil || k.NIC != registry.NICID(there) || k.Slot == 0 || k.Generation == 0 {
		t.Errorf("the keeper is at %+v; expected the address of a process of NIC %v", k, there)
	}
	jobs, err := l.conn.NIC(there).Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].ID != aJob || jobs[0].Ranks != 3 || jobs[0].Keeper != r.PID || jobs[0].Launcher != l.launcher || jobs[0].User != me() {
		t.Fatalf("jobs %+v, %v", jobs, err)
	}
	eventually(t, "the job runs", func() bool {
		j, err := l.conn.NIC(there).JobOf(t.Context(), aJob)
		if err != nil {
			t.Fatal(err)
		}
		return j.State == ctl.JobRunning && len(j.Processes) == 3 && j.Processes[2].Rank == 2 && running(j.Processes[2].PID)
	})
	s, err := l.conn.NIC(there).Job(t.Context(), &ctl.Job{What: ctl.JobSlots})
	if err != nil || s.Slots != 4 || s.Free != 1 {
		t.Errorf("slots %+v, %v", s, err)
	}
	names, err := l.conn.NIC(there).Names(t.Context())
	if err != nil && !errors.Is(err, ctl.ErrRefused) {
		t.Error(err)
	}
	if err == nil && !slices.ContainsFunc(names, func(n ctl.Name) bool { return n.Name == aJob+".run/1" }) {
		t.Errorf("the keeper is none of %v", names)
	}
}

func TestAKilledJobEndsAndItsSlotsAreFree(t *testing.T) {
	for _, how := range []string{"starts", "stubborn"} {
		t.Run(how, func(t *testing.T) {
			l, there := pair(t, withSlots(t, 2, 4, how), "run="+me())
			keeper := l.reserve(t, there, l.wants(4)).PID
			if got := l.reserve(t, there, l.wants(1, func(r *ctl.Reserve) { r.Restart = 1 })); fmt.Sprint(causes(got)) != "[slots]" ||
				got.Refusals[0].Text != "0 of 4 slots free, 1 needed" || got.Refusals[0].Cure != "add --oversubscribe" {
				t.Errorf("refused for %+v", got.Refusals)
			}
			if r, err := l.conn.NIC(there).Job(t.Context(), &ctl.Job{What: ctl.JobKill, ID: aJob, Grace: 1}); err != nil || r.Jobs[0].State != ctl.JobEnding {
				t.Fatalf("kill: %+v, %v", r, err)
			}
			eventually(t, "slots are free", func() bool {
				s, err := l.conn.NIC(there).Job(t.Context(), &ctl.Job{What: ctl.JobSlots})
				return err == nil && s.Free == 4
			})
			if running(keeper) {
				t.Error("the keeper runs")
			}
			if _, err := l.conn.NIC(there).Job(t.Context(), &ctl.Job{What: ctl.JobKill, ID: aJob}); !errors.Is(err, ctl.ErrNoJob) {
				t.Errorf("a second kill: %v", err)
			}
			if r := l.reserve(t, there, l.wants(4)); !r.Ready {
				t.Errorf("the places are not free: %+v", r.Refusals)
			}
		})
	}
}

func TestSlotsOfAKeeperThatDiesAreFree(t *testing.T) {
	c := withSlots(t, 1, 2, "starts")
	run(t, c...)
	l := launch(t, c[0])
	for range 3 {
		r := l.reserve(t, 0, l.wants(2))
		if !r.Ready {
			t.Fatalf("refused: %+v", r.Refusals)
		}
		p, err := os.FindProcess(r.PID)
		if err != nil {
			t.Fatal(err)
		}
		j, err := l.conn.NIC(0).JobOf(t.Context(), aJob)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the job is forgotten", func() bool {
			jobs, err := l.conn.NIC(0).Jobs(t.Context())
			return err == nil && len(jobs) == 0
		})
		for _, k := range j.Processes { // ended by the control group, if there can be one
			if running(k.PID) && os.Getuid() == 0 {
				t.Errorf("rank %d still runs", k.Rank)
			}
		}
	}
}

func TestEveryCauseOfARefusalComesAtOnce(t *testing.T) {
	c := withSlots(t, 2, 2, "refuses")
	l, there := pair(t, c, "run="+me())
	got := l.reserve(t, there, l.wants(3, func(r *ctl.Reserve) { r.Link = "fast0"; r.Launcher.NIC = 7 }))
	if fmt.Sprint(causes(got)) != "[host link slots dir program]" || got.Ready {
		t.Errorf("refused for %+v", got.Refusals)
	}
	for _, no := range got.Refusals {
		if no.Text == "" || no.Cure == "" {
			t.Errorf("a refusal without text or cure: %+v", no)
		}
	}
	if s, err := l.conn.NIC(there).Job(t.Context(), &ctl.Job{What: ctl.JobSlots}); err != nil || s.Free != 2 {
		t.Errorf("slots %+v, %v", s, err)
	}
	got = l.reserve(t, there, l.wants(3, func(r *ctl.Reserve) { r.Version = "0.0.1" }))
	if fmt.Sprint(causes(got)) != "[version slots]" || !strings.Contains(got.Refusals[0].Text, version.Release) {
		t.Errorf("another version is refused for %+v", got.Refusals)
	}
}

func TestAHostWithoutSlotsTakesNoRanks(t *testing.T) {
	c := withSlots(t, 1, 0, "starts")
	run(t, c...)
	l := launch(t, c[0])
	if got := l.reserve(t, 0, l.wants(1, func(r *ctl.Reserve) { r.Oversubscribe = true })); fmt.Sprint(causes(got)) != "[slots]" {
		t.Errorf("reply %+v", got)
	}
}

func TestAnOversubscribedHostTakesAsManyRanksAsItsNICHasRoomFor(t *testing.T) {
	c := withSlots(t, 1, 1, "starts")
	c[0].MaxProcesses = 8
	run(t, c...)
	l := launch(t, c[0])
	over := func(r *ctl.Reserve) { r.Oversubscribe = true }
	if got := l.reserve(t, 0, l.wants(8, over)); fmt.Sprint(causes(got)) != "[slots]" || !strings.Contains(got.Refusals[0].Cure, "max_processes") {
		t.Errorf("8 ranks: %+v", got)
	}
	if got := l.reserve(t, 0, l.wants(3, over)); !got.Ready {
		t.Errorf("3 ranks: %+v", got)
	}
	if s, err := l.conn.NIC(0).Job(t.Context(), &ctl.Job{What: ctl.JobSlots}); err != nil || s.Slots != 1 || s.Free != -2 {
		t.Errorf("slots %+v, %v", s, err)
	}
	if got := l.reserve(t, 0, l.wants(1, over)); fmt.Sprint(causes(got)) != "[host]" || !strings.Contains(got.Refusals[0].Text, "already") {
		t.Errorf("the same job once more: %+v", got)
	}
}

func TestANICWithoutTheRoleStartsNothingAndIsCounted(t *testing.T) {
	for _, roles := range [][]string{{"observe"}, {"observe", "run=alice"}, {"observe", "program", "admin"}} {
		c := withSlots(t, 2, 4, "starts")
		l, there := pair(t, c, roles...)
		_, before, err := l.conn.NIC(there).Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got := l.reserve(t, there, l.wants(1))
			if fmt.Sprint(causes(got)) != "[role]" || !strings.Contains(got.Refusals[0].Cure, "weft fabric grant "+l.launcher.NIC.String()+" run="+me()) {
				t.Errorf("with %v: %+v", roles, got)
			}
		}
		eventually(t, "refusals are counted", func() bool {
			_, now, err := l.conn.NIC(there).Counters(t.Context())
			return err == nil && now["nic_control_refused"] == before["nic_control_refused"]+3
		})
		if jobs, err := l.conn.NIC(there).Jobs(t.Context()); err != nil || len(jobs) > 0 {
			t.Errorf("jobs %v, %v", jobs, err)
		}
	}
}

func TestAKeeperThatCannotBeUsedIsARefusal(t *testing.T) {
	for how, want := range map[string]string{
		"dies": "before it was ready: no memory for a keeper", "silent": "not ready within 3s", "nonsense": "before it was ready",
	} {
		t.Run(how, func(t *testing.T) {
			c := withSlots(t, 1, 2, how)
			run(t, c...)
			l := launch(t, c[0])
			if got := l.reserve(t, 0, l.wants(1)); fmt.Sprint(causes(got)) != "[host]" || !strings.Contains(got.Refusals[0].Text, want) {
				t.Errorf("reply %+v; want %q", got, want)
			}
			if s, err := l.conn.NIC(0).Job(t.Context(), &ctl.Job{What: ctl.JobSlots}); err != nil || s.Free != 2 {
				t.Errorf("slots %+v, %v", s, err)
			}
		})
	}
}

func TestAKeeperHasACleanEnvironment(t *testing.T) {
	t.Setenv("WEFT_SECRET", "of the daemon")
	t.Setenv("XDG_CACHE_HOME", "/this/user/has/a/cache")
	c := withSlots(t, 1, 2, "tells")
	run(t, c...)
	l := launch(t, c[0])
	got := l.reserve(t, 0, l.wants(1))
	if len(got.Refusals) != 1 {
		t.Fatalf("reply %+v", got)
	}
	is := got.Refusals[0].Text
	for _, want := range []string{fmt.Sprintf("uid %d ", os.Getuid()), "leader true", "dir / ", "HOME=/", "USER=", "LOGNAME=", "SHELL=/", "PATH=/",
		"XDG_CACHE_HOME=/this/user/has/a/cache"} {
		if !strings.Contains(is, want) {
			t.Errorf("the keeper is %q; want %q", is, want)
		}
	}
	if strings.Contains(is, "WEFT_") {
		t.Errorf("the keeper has variables of its daemon: %q", is)
	}
}

func TestALauncherMustBeAtTheNICThatAsks(t *testing.T) {
	c := withSlots(t, 1, 2, "starts")
	run(t, c...)
	l := launch(t, c[0])
	for what, change := range map[string]func(*ctl.Reserve){
		"another NIC":        func(r *ctl.Reserve) { r.Launcher.NIC++ },
		"no process":         func(r *ctl.Reserve) { r.Launcher.Slot += 5 },
		"an earlier process": func(r *ctl.Reserve) { r.Launcher.Generation++ },
	} {
		if got := l.reserve(t, 0, l.wants(1, change)); fmt.Sprint(causes(got)) != "[host]" {
			t.Errorf("a launcher that is %s: %+v", what, got)
		}
	}
}

func TestMalformedReservationsAreRefusedBeforeAnythingStarts(t *testing.T) {
	c := withSlots(t, 1, 2, "starts")
	run(t, c...)
	l := launch(t, c[0])
	long := strings.Repeat("x", 5000)
	for what, change := range map[string]func(*ctl.Reserve){
		"job":      func(r *ctl.Reserve) { r.Job = "../../etc" },
		"ranks":    func(r *ctl.Reserve) { r.Ranks = 0 },
		"size":     func(r *ctl.Reserve) { r.Size = 1 << 40 },
		"first":    func(r *ctl.Reserve) { r.First = 1 },
		"dir":      func(r *ctl.Reserve) { r.Dir = "tmp" },
		"a long":   func(r *ctl.Reserve) { r.Dir = "/" + long },
		"program":  func(r *ctl.Reserve) { r.Program = "/" + long },
		"sha256":   func(r *ctl.Reserve) { r.SHA256 = "abc" },
		"launcher": func(r *ctl.Reserve) { r.Launcher = ctl.Address{} },
	} {
		if _, err := dialTool(t, c[0]).NIC(0).Job(t.Context(), l.wants(1, change)); !errors.Is(err, ctl.ErrBadRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := dialTool(t, c[0]).NIC(0).Job(t.Context(), l.wants(1, func(r *ctl.Reserve) { r.Dir = "/" + strings.Repeat(long, 4) })); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("a request of 20 kB: %v", err)
	}
	if jobs, err := l.conn.NIC(0).Jobs(t.Context()); err != nil || len(jobs) > 0 {
		t.Errorf("jobs %v, %v", jobs, err)
	}
}

func TestTheEndOfADaemonEndsItsKeepers(t *testing.T) {
	c := withSlots(t, 1, 4, "starts")[0]
	d, err := daemon.New(c, &logWriter{t: t})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := start(func() error { return d.Run(ctx) })
	l := launch(t, c)
	keeper := l.reserve(t, 0, l.wants(4)).PID
	stop()
	if err := ends(t, "the daemon", ended); err != nil {
		t.Error(err)
	}
	if running(keeper) {
		t.Error("the keeper outlives its daemon")
	}
}

// A job whose keeper cannot be started is over at once. The end of its daemon does not wait for it.
func TestADaemonEndsAfterAKeeperThatCannotBeStarted(t *testing.T) {
	c := withSlots(t, 1, 4, "starts")[0]
	c.Keeper = []string{"/nonexistent/keeper"}
	d, err := daemon.New(c, &logWriter{t: t})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := start(func() error { return d.Run(ctx) })
	l := launch(t, c)
	r := l.reserve(t, 0, l.wants(4))
	if fmt.Sprint(causes(r)) != "[host]" || !strings.Contains(r.Refusals[0].Text, "the keeper cannot be started") {
		t.Errorf("refused for %+v", r.Refusals)
	}
	if s, err := l.conn.NIC(0).Job(t.Context(), &ctl.Job{What: ctl.JobSlots}); err != nil || s.Free != 4 {
		t.Errorf("slots %+v, %v; expected 4 free", s, err)
	}
	stop()
	if err := ends(t, "the daemon", ended); err != nil {
		t.Error(err)
	}
}
