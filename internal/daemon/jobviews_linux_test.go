package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

// place enters a job of a user, with a keeper that has only a pid.
func (j *jobs) place(id string, who *account, of *Daemon) *job {
	b := &job{on: of, account: who, log: j.d.log, done: make(chan struct{}), keeper: &keeper{cmd: &exec.Cmd{Process: &os.Process{Pid: -1}}}}
	b.ID = id
	j.all[id] = b
	return b
}

func ids(all []*job) (l []string) {
	for _, b := range all {
		l = append(l, b.ID)
	}
	return l
}

// Each link of a daemon is a separate NIC, and shows its own jobs.
func TestALinkShowsItsOwnJobsThatHaveAKeeper(t *testing.T) {
	j := hostOf(4, 10)
	other := &Daemon{id: 8}
	for _, id := range []string{"job-3", "job-1", "job-2"} {
		j.place(id, bob, j.d)
	}
	j.place("job-4", bob, other)
	j.place("job-5", bob, j.d).keeper = nil // it is being started
	if got := ids(j.snapshot()); !slices.Equal(got, []string{"job-1", "job-2", "job-3"}) {
		t.Errorf("the jobs are %q", got)
	}
	for id, there := range map[string]bool{"job-1": true, "job-3": true, "job-4": false, "job-5": false, "job-6": false} {
		b, err := j.find(id)
		if there != (err == nil && b.ID == id) || !there && !errors.Is(err, ctl.ErrNoJob) {
			t.Errorf("%s: %v; expected that it is there: %v", id, err, there)
		}
	}
}

func TestAMachineIsUsedByJobsWhoseLauncherIsHere(t *testing.T) {
	j := hostOf(4, 10)
	for i, c := range []struct {
		machine string
		by      registry.NICID
		keeper  bool
	}{{"m", 7, true}, {"m", 8, true}, {"n", 7, true}, {"m", 7, false}, {"m", 7, true}} {
		b := j.place(fmt.Sprint("job-", i), bob, j.d)
		b.Machine, b.Launcher.NIC = c.machine, c.by
		if !c.keeper {
			b.keeper = nil
		}
	}
	if got := j.using("m"); !slices.Equal(got, []string{"job-0", "job-4"}) {
		t.Errorf("the machine is used by %q", got)
	}
}

// A job lets its user attach, and keeps its names for that user and root.
func TestAJobLetsItsUserInAndKeepsItsNames(t *testing.T) {
	j := hostOf(4, 10)
	j.place("job-1", bob, j.d)
	name := func(text string) vni.Name {
		n, err := vni.ParseName(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		uid      int
		name     string
		of, may  bool
		mayEnter bool
	}{
		{bob.uid, "job-1/0", true, true, true}, {bob.uid, "job-1.run/1", true, true, true},
		{bob.uid + 1, "job-1/0", true, false, false}, {bob.uid + 1, "job-1.run/1", true, false, false},
		{0, "job-1/0", true, true, false}, {bob.uid + 1, "job-2/0", false, true, false}, {bob.uid + 1, "job-1x/0", false, true, false},
	} {
		if j.has(name(c.name)) != c.of {
			t.Errorf("%s is a name of a job: %v; expected %v", c.name, !c.of, c.of)
		}
		if err := j.mayClaim(c.uid, name(c.name)); c.may != (err == nil) || err != nil && !errors.Is(err, ctl.ErrRefused) {
			t.Errorf("user %d claims %s: %v; expected that it may: %v", c.uid, c.name, err, c.may)
		}
		if j.admits(c.uid) != c.mayEnter {
			t.Errorf("user %d is let in for a job: %v; expected %v", c.uid, !c.mayEnter, c.mayEnter)
		}
	}
}

func TestOnlyItsUserTheDaemonsAndRootEndAJob(t *testing.T) {
	j := hostOf(4, 10)
	b := j.place("job-1", bob, j.d)
	for uid, may := range map[int]bool{bob.uid: true, 0: true, os.Getuid(): true, bob.uid + 1: false} {
		err := j.mayKill(deploy.Asker{UID: uid, User: "x"}, b)
		if may != (err == nil) || err != nil && !errors.Is(err, ctl.ErrRefused) {
			t.Errorf("user %d ends the job: %v; expected that it may: %v", uid, err, may)
		}
		if rest, err := j.kill(deploy.Asker{UID: uid, User: "x"}, "job-1", 0); may != (rest != nil && err == nil) {
			t.Errorf("user %d asks for its end: %v; expected that it may: %v", uid, err, may)
		}
	}
	if rest, err := j.kill(deploy.Asker{}, "job-2", 0); rest != nil || !errors.Is(err, ctl.ErrNoJob) {
		t.Errorf("a job that is not there ends: %v", err)
	}
}

func TestAJobThatIsEndedHasTheGraceThatWasAskedFor(t *testing.T) {
	for _, c := range []struct{ asked, want time.Duration }{{0, limits.JobGrace}, {time.Minute, time.Minute}} {
		j := newBench(t).d.jobs
		k, _ := aKeeper(t)
		j.mu.Lock() // the daemon runs
		j.place("job-1", bob, j.d).keeper = k
		j.mu.Unlock()
		before := time.Now()
		rest, err := j.kill(deploy.Asker{User: "root"}, "job-1", c.asked)
		if err != nil {
			t.Fatal(err)
		}
		reply, _, err := rest()
		if err != nil || reply.NIC != j.d.id || reply.PID != k.cmd.Process.Pid || len(reply.Jobs) != 1 || reply.Jobs[0].State != ctl.JobEnding {
			t.Errorf("%+v, %v", reply, err)
		}
		if d := k.latest.Sub(before); d < c.want+limits.KeeperExtra || d > c.want+limits.KeeperExtra+time.Minute/2 {
			t.Errorf("with a grace of %v its keeper is killed within %v", c.asked, d)
		}
		k.limit.Stop()
		j.mu.Lock()
		delete(j.all, "job-1")
		j.mu.Unlock()
	}
}

// A keeper is a user's process: it may report ranks that are not its own.
func TestAKeeperReportsRanksOfItsOwnJob(t *testing.T) {
	b := newBench(t)
	of := &job{on: b.d, account: bob}
	of.ID, of.First, of.Ranks = "a", 0, 2
	var all []ctl.RankInfo
	for rank := -1; rank < 4; rank++ {
		all = append(all, ctl.RankInfo{Rank: rank, Attached: true})
	}
	got := b.d.jobs.attached(of, all)
	if len(got) != 2 || got[0].Rank != 0 || !got[0].Attached || got[1].Rank != 1 || got[1].Attached {
		t.Errorf("the ranks are %+v; expected 0, which is attached, and 1, which is not", got)
	}
}

// At the end of a daemon its keepers are told that it stops. A keeper without a link is killed at
// once.
func TestTheEndOfADaemonIsTheEndOfItsJobs(t *testing.T) {
	j := hostOf(4, 10)
	k, end := aKeeper(t)
	lost, other := aKeeper(t)
	j.place("job-1", bob, j.d).keeper = k
	j.place("job-2", bob, j.d).keeper = lost
	j.place("job-3", bob, j.d).keeper = nil
	other.Close()
	before := time.Now()
	j.close()
	if !j.closed {
		t.Error("the daemon takes jobs")
	}
	for _, k := range []*keeper{k, lost} {
		if d := k.latest.Sub(before); d < limits.JobGrace+limits.KeeperExtra || d > time.Minute {
			t.Errorf("a keeper is killed within %v", d)
		}
		k.limit.Stop()
	}
	if _, err := end.Told(); !errors.Is(err, ctl.ErrBadRequest) { // before it was told to begin
		t.Errorf("the keeper is told %v", err)
	}
	if err := lost.link.Tell(&ctl.ToKeeper{}); err == nil {
		t.Error("the link of a keeper that cannot be told is open")
	}
}
