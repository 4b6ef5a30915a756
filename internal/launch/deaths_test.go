package launch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/launch/launchtest"
	"github.com/weftnet/weft/sim"
)

// A death happens at one step of a job.
type death struct {
	name string
	dies func(j *job, launcher *sim.Process, host int)

	launcherLives bool
}

var deaths = []death{
	{"launcher killed", func(j *job, launcher *sim.Process, _ int) { j.F.Kill(launcher) }, false},
	{"launcher's host cut", func(j *job, _ *sim.Process, _ int) { j.F.Partition(0) }, true},
	{"launcher's daemon ends", func(j *job, _ *sim.Process, _ int) { j.StopDaemon(0) }, true},
	{"keeper killed", func(j *job, _ *sim.Process, host int) { j.killKeeper(host) }, true},
	{"host cut", func(j *job, _ *sim.Process, host int) { j.F.Partition(host) }, true},
	{"daemon ends", func(j *job, _ *sim.Process, host int) { j.StopDaemon(host) }, true},
	{"daemon stops", func(j *job, _ *sim.Process, host int) { j.Stop(host) }, true},
	{"daemon ends the job", func(j *job, _ *sim.Process, host int) { j.World.Kill(host, time.Second) }, true},
}

func (j *job) killKeeper(host int) {
	for _, k := range j.Hosts[host].Keepers {
		j.F.Kill(k.Process)
	}
}

// works is the program of the death tests: rank 1 ends first, and all write.
func works(r *launchtest.Rank) launch.Exit {
	for i := range 5 {
		r.Print(fmt.Sprintf("rank %d, line %d\n", r.Number, i))
		if !r.Sleep(time.Duration(5+r.Number) * time.Millisecond) {
			break
		}
	}
	return launch.Exit{}
}

// steps runs a job without a death, and returns its number of steps.
func steps(t *testing.T, hosts int) int {
	j := newJob(hosts, 2, works)
	if r := j.run(t); r.Status != 0 {
		t.Fatalf("%+v", r)
	}
	return len(j.Events)
}

// At every step and for every death: no rank starts unless all hosts were ready, no rank and no
// keeper is left, every slot becomes free, and a living launcher returns.
func TestNothingIsLeftWhoeverDiesAtWhicheverStep(t *testing.T) {
	const hosts = 4
	n := steps(t, hosts)
	for _, d := range deaths {
		t.Run(d.name, func(t *testing.T) {
			for at := range n {
				dieAt(t, d, hosts, at)
			}
		})
	}
}

func dieAt(t *testing.T, d death, hosts, at int) {
	j := newJob(hosts, 2, works)
	var launcher *sim.Process
	var what launchtest.Event
	host := 1 + at%(hosts-1)
	j.At = func(e launchtest.Event) {
		if len(j.Events) == at+1 {
			what = e
			j.F.After(0, func() { d.dies(j, launcher, host) })
		}
	}
	launcher = j.start()
	switch err := j.World.Run(launcher, 10*time.Minute, 40*time.Second); {
	case err != nil:
		t.Errorf("step %d, %+v: %v", at, what, err)
	case d.launcherLives && j.result == nil:
		t.Errorf("step %d, %+v: the launcher returned no result", at, what)
	case d.launcherLives && j.result.Status == 0 && slices.ContainsFunc(j.result.Ranks, func(r launch.RankEnd) bool { return r.Failed() }):
		t.Errorf("step %d, %+v: status 0 with %+v", at, what, j.result.Ranks)
	case j.took > 20*time.Second:
		t.Errorf("step %d, %+v: the launcher returned after %v: %+v", at, what, j.took, j.result)
	}
}

// A cut host is noticed by both sides within the time of silence, a message interval and the grace.
func TestACutHostEndsTheJobOnBothSides(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		r.IgnoresTerm = true
		r.Sleep(time.Hour)
		return launch.Exit{}
	})
	j.F.After(time.Second, func() { j.F.Partition(2) })
	emptied := time.Duration(0)
	var look func()
	look = func() {
		if j.Alive() == 0 {
			emptied = j.F.Elapsed()
			return
		}
		j.F.After(10*time.Millisecond, look)
	}
	j.F.After(2*time.Second, look)
	r := j.run(t)
	if r.Status != launch.StatusFailed || !strings.HasPrefix(r.Cause, "host h2: NIC unreachable for 2") || len(r.Unknown) != 1 {
		t.Errorf("%+v", r)
	}
	// The cut, unreachable_after, grace, and 1 s.
	const bound = time.Second + 2*time.Second + time.Second + time.Second
	if emptied == 0 || emptied > bound {
		t.Errorf("the last rank ended after %v; expected at most %v", emptied, bound)
	}
	if r.Ranks[2].Known || !strings.HasPrefix(r.Ranks[2].Cause, "host h2: NIC unreachable") {
		t.Errorf("rank 2: %+v", r.Ranks[2])
	}
}

func TestAKilledKeeperIsNoticedAtOnce(t *testing.T) {
	j := newJob(3, 1, sleeps(time.Hour))
	j.F.After(time.Second, func() { j.killKeeper(1) })
	r := j.run(t)
	if r.Cause != "host h1: its keeper ended without a report" || j.took > 2*time.Second {
		t.Errorf("%+v after %v", r, j.took)
	}
}

// Attachments do not survive the end of a daemon, so the ranks end before it, with that cause.
func TestAJobEndsWithTheCauseWhenADaemonStopsForAnUpgrade(t *testing.T) {
	for _, restarts := range []int{0, 1} {
		j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
			r.Sleep(5 * time.Second)
			return launch.Exit{}
		})
		if restarts > 0 {
			j.options.OnDeath = launch.OnDeath{Policy: launch.Restart, Restarts: restarts}
		}
		j.F.After(time.Second, func() { j.Stop(2) })
		r := j.run(t)
		if restarts == 0 && (r.Status != launch.StatusFailed || !strings.HasPrefix(r.Cause, "host h2: its NIC daemon stops, and ranks do not outlive it")) {
			t.Errorf("%+v", r)
		}
		if restarts > 0 && (r.Status != 0 || r.Restarts != 1) {
			t.Errorf("with a restart: %+v", r)
		}
	}
}

func TestAShrinkingJobSurvivesAHost(t *testing.T) {
	j := newJob(3, 2, sleeps(20*time.Second))
	j.options.OnDeath = launch.OnDeath{Policy: launch.Shrink}
	j.F.After(time.Second, func() { j.F.Partition(2) })
	r := j.run(t)
	if r.Status != 0 || !r.Ranks[4].Failed() || !r.Ranks[5].Failed() || r.Ranks[0].Failed() {
		t.Errorf("%+v", r)
	}
}

func TestAJobRestartsOnAHostThatComesBack(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		r.Sleep(5 * time.Second)
		return launch.Exit{}
	})
	j.options.OnDeath = launch.OnDeath{Policy: launch.Restart, Restarts: 1}
	j.F.After(time.Second, func() {
		heal := j.F.Partition(2)
		j.F.After(8*time.Second, heal)
	})
	if r := j.run(t); r.Status != 0 || r.Restarts != 1 {
		t.Errorf("%+v", r)
	}
}

func TestAKeeperWithoutAStartGivesItsSlotsBack(t *testing.T) {
	j := newJob(2, 1, hello)
	// While it thinks, the keeper of host 0 waits.
	j.Hosts[1].Refuse = func(*ctl.Reserve) []ctl.Refusal {
		j.Hosts[1].Think(50 * time.Second)
		return []ctl.Refusal{{What: ctl.RefusedRole, Text: "no"}}
	}
	launcher := j.start()
	if err := j.Pass(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if k := j.Hosts[0].Keepers; len(k) != 1 || k[0].Over {
		t.Fatalf("keepers %+v; expected one that waits", k)
	}
	if err := j.World.Run(launcher, 10*time.Minute, 40*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestOutputWaitsForASlowConsoleAndNothingIsLost(t *testing.T) {
	const lines = 2000
	j := newJob(2, 2, func(r *launchtest.Rank) launch.Exit {
		for i := range lines {
			r.Print(fmt.Sprintf("%d %05d %s\n", r.Number, i, strings.Repeat("x", 1000)))
		}
		return launch.Exit{}
	})
	j.console.Slow = func() error { j.Launcher.Sleep(time.Millisecond); return nil }
	r := j.run(t)
	if r.Status != 0 {
		t.Fatalf("%+v", r)
	}
	for n := range 4 {
		got := strings.Split(strings.TrimSpace(j.console.Of(n)), "\n")
		for i, line := range got {
			if !strings.HasPrefix(line, fmt.Sprintf("%d %05d ", n, i)) {
				t.Fatalf("rank %d, line %d: %.20q", n, i, line)
			}
		}
		if len(got) != lines {
			t.Errorf("rank %d wrote %d lines; expected %d", n, len(got), lines)
		}
	}
}

func TestThePausedTerminalOfAnEndedJobLosesNothing(t *testing.T) {
	j := newJob(2, 1, func(r *launchtest.Rank) launch.Exit {
		r.Print("first\n")
		r.Print(strings.Repeat("y", 60_000) + "\n")
		r.Print("last\n")
		return launch.Exit{}
	})
	paused := false
	j.console.Slow = func() error {
		if !paused {
			paused = true
			j.Launcher.Sleep(5 * time.Minute)
		}
		return nil
	}
	if r := j.run(t); r.Status != 0 {
		t.Fatalf("%+v", r)
	}
	for n := range 2 {
		if text := j.console.Of(n); !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "last\n") {
			t.Errorf("rank %d wrote %d bytes", n, len(text))
		}
	}
}

func TestTheKeySpaceIsCompleteAfterABarrier(t *testing.T) {
	const hosts = 3
	seen := 0
	j := newJob(hosts, 1, func(r *launchtest.Rank) launch.Exit {
		for round := range 3 {
			if err := r.KVS.Put(fmt.Sprintf("key-%d-%d", round, r.Number), strings.Repeat("v", 1000*(1+r.Number))); err != nil {
				return launch.Exit{Status: 1}
			}
			for i := range 60 { // more than one message
				_ = r.KVS.Put(fmt.Sprintf("more-%d-%d-%d", round, r.Number, i), strings.Repeat("w", 1000))
			}
			if err := r.KVS.Barrier(r.Context()); err != nil {
				return launch.Exit{Status: 2}
			}
			for n := range hosts {
				if v, ok := r.KVS.Get(fmt.Sprintf("key-%d-%d", round, n)); ok && len(v) == 1000*(1+n) {
					seen++
				}
				if v, ok := r.KVS.Get(fmt.Sprintf("more-%d-%d-59", round, n)); !ok || len(v) != 1000 {
					return launch.Exit{Status: 3}
				}
			}
		}
		return launch.Exit{}
	})
	j.options.PMI = true
	if r := j.run(t); r.Status != 0 || seen != 3*hosts*hosts {
		t.Errorf("%+v; %d values were seen", r, seen)
	}
}

func TestAnAbortEndsTheJobWithItsStatus(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		if r.Number == 2 {
			r.KVS.Abort(2, 9, "no input file")
		}
		r.Sleep(time.Hour)
		return launch.Exit{}
	})
	j.options.PMI = true
	if r := j.run(t); r.Status != 9 || r.Cause != "rank 2 on h2: aborted: no input file" {
		t.Errorf("%+v", r)
	}
}

func TestABarrierDoesNotWaitForALostHost(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		if r.Number == 2 {
			r.Sleep(time.Hour)
		}
		if r.KVS.Barrier(r.Context()) != nil {
			return launch.Exit{Status: 1}
		}
		return launch.Exit{}
	})
	j.options.PMI = true
	j.options.OnDeath = launch.OnDeath{Policy: launch.Shrink}
	j.F.After(time.Second, func() { j.killKeeper(2) })
	if r := j.run(t); r.Status != 0 || r.Ranks[0].Failed() || r.Ranks[1].Failed() {
		t.Errorf("%+v", r)
	}
}
