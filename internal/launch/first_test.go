package launch_test

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/launch/launchtest"
)

// culprit makes a program in which rank 2 fails at 50 ms, and the others fail 1 ms later because
// of it. The end of rank 2 is reported late.
func culprit(late time.Duration) func(*launchtest.Rank) launch.Exit {
	return func(r *launchtest.Rank) launch.Exit {
		// The ranks start one after the other.
		r.Sleep(50*time.Millisecond - time.Duration(r.Number)*100*time.Microsecond)
		if r.Number == 2 {
			r.Drains = late
			return launch.Exit{Status: 3}
		}
		r.Sleep(5 * time.Millisecond)
		return launch.Exit{Status: 1}
	}
}

func TestTheEarliestDeathDecidesThoughItIsReportedLate(t *testing.T) {
	for name, hosts := range map[string]int{"on one host": 1, "on other hosts": 4} {
		t.Run(name, func(t *testing.T) {
			j := newJob(hosts, 4/hosts, culprit(300*time.Millisecond))
			r := j.run(t)
			if want := "rank 2 on " + r.Ranks[2].Node + ": exited with status 3"; r.Status != 3 || r.Cause != want {
				t.Errorf("status %d, %q; expected 3, %q", r.Status, r.Cause, want)
			}
			if !j.console.Has(launch.NoteFailure) {
				t.Error("no note tells of the failure")
			}
		})
	}
}

func TestARestartNamesTheEarliestDeath(t *testing.T) {
	j := newJob(2, 2, func(r *launchtest.Rank) launch.Exit {
		if r.Restart > 0 {
			return launch.Exit{}
		}
		return culprit(300 * time.Millisecond)(r)
	})
	j.options.OnDeath = launch.OnDeath{Policy: launch.Restart, Restarts: 1}
	if r := j.run(t); r.Status != 0 || r.Restarts != 1 {
		t.Fatalf("%+v", r)
	}
	for _, n := range j.console.Notes {
		if want := "restart 1 of 1: rank 2 on h1: exited with status 3"; n.Kind == launch.NoteRestart && n.Text != want {
			t.Errorf("the note is %q; expected %q", n.Text, want)
		}
	}
}

// The keeper is killed with its rank, and the launcher waits for its last messages. Meanwhile,
// the other ranks fail because of it.
func TestAKilledKeeperIsTheCauseThoughOtherRanksFailMeanwhile(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		if r.Number == 1 {
			r.Sleep(time.Hour)
		}
		r.Sleep(time.Second + 30*time.Millisecond)
		return launch.Exit{Status: 1}
	})
	j.F.After(time.Second, func() { j.killKeeper(1) })
	if r := j.run(t); r.Status != launch.StatusFailed || r.Cause != "host h1: its keeper ended without a report" {
		t.Errorf("status %d, %q", r.Status, r.Cause)
	}
}

// The others notice the silence of a host a moment before the launcher.
func TestACutHostIsTheCauseThoughOtherRanksFailBeforeItIsNoticed(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		r.Sleep(2500 * time.Millisecond)
		return launch.Exit{Status: 1}
	})
	j.F.After(time.Second, func() { j.F.Partition(2) })
	if r := j.run(t); r.Status != launch.StatusFailed || len(r.Unknown) != 1 || r.Cause != "host "+r.Unknown[0] {
		t.Errorf("status %d, %q; expected the loss of h2", r.Status, r.Cause)
	}
}

// A wish of the user is not a failure that a later report can precede.
func TestAWishOfTheUserStaysTheCause(t *testing.T) {
	j := newJob(2, 1, func(r *launchtest.Rank) launch.Exit {
		r.Sleep(50 * time.Millisecond)
		r.Drains = 200 * time.Millisecond
		return launch.Exit{Status: 1}
	})
	j.control = func(c *launch.Control) {
		j.F.After(100*time.Millisecond, func() { c.End(130, "the user ended the job") })
	}
	if r := j.run(t); r.Status != 130 || r.Cause != "the user ended the job" {
		t.Errorf("status %d, %q", r.Status, r.Cause)
	}
}
