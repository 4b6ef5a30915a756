package launch_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/launch/launchtest"
	"github.com/weftnet/weft/sim"
)

// job is one simulated job.
type job struct {
	*launchtest.World
	options launch.Options
	console *launchtest.Console
	control func(*launch.Control)
	result  *launch.Result
	took    time.Duration // until Run returned
}

func newJob(hosts, perHost int, program func(*launchtest.Rank) launch.Exit) *job {
	j := &job{World: launchtest.New(sim.Config{Seed: sim.Seed(1), NICs: hosts}, perHost), console: launchtest.NewConsole()}
	j.Program = program
	j.options = j.Options(perHost)
	return j
}

// run runs the job, and checks the invariants of the world after everything has had time to end.
func (j *job) run(t *testing.T) *launch.Result {
	t.Helper()
	if err := j.World.Run(j.start(), 10*time.Minute, 40*time.Second); err != nil {
		t.Fatal(err)
	}
	if j.result == nil {
		t.Fatal("the launcher returned no result")
	}
	return j.result
}

func (j *job) start() *sim.Process {
	return j.Launch(j.options, j.console, j.control, func(r *launch.Result) { j.result, j.took = r, j.F.Elapsed() })
}

func hello(r *launchtest.Rank) launch.Exit {
	r.Print(fmt.Sprintf("hello from %d of %d\n", r.Number, r.Size))
	r.Sleep(10 * time.Millisecond)
	r.Print("goodbye\n")
	return launch.Exit{}
}

func sleeps(d time.Duration) func(*launchtest.Rank) launch.Exit {
	return func(r *launchtest.Rank) launch.Exit {
		r.Sleep(d)
		return launch.Exit{}
	}
}

func TestAJobThatEndsWellReportsEveryRankAndAllItsOutput(t *testing.T) {
	j := newJob(3, 2, hello)
	r := j.run(t)
	if r.Status != 0 || r.Cause != "" || len(r.Ranks) != 6 || len(r.Unknown) != 0 || r.Strangers != 0 {
		t.Fatalf("%+v", r)
	}
	for i, e := range r.Ranks {
		if e.Rank != i || e.Node != fmt.Sprintf("h%d", i/2) || !e.Known || e.PID == 0 {
			t.Errorf("rank %d: %+v", i, e)
		}
		if want := fmt.Sprintf("hello from %d of 6\ngoodbye\n", i); j.console.Of(i) != want {
			t.Errorf("rank %d wrote %q; expected %q", i, j.console.Of(i), want)
		}
	}
	if !j.console.Has(launch.NoteStarted) {
		t.Error("there was no note of the start")
	}
}

func TestTheFirstFailureDecidesTheStatusAndEndsTheOthers(t *testing.T) {
	j := newJob(3, 2, func(r *launchtest.Rank) launch.Exit {
		if r.Number == 3 {
			r.Sleep(50 * time.Millisecond)
			return launch.Exit{Status: 3}
		}
		r.Sleep(time.Hour)
		return launch.Exit{}
	})
	r := j.run(t)
	if r.Status != 3 || r.Cause != "rank 3 on h1: exited with status 3" {
		t.Errorf("status %d, %q", r.Status, r.Cause)
	}
	for i, e := range r.Ranks {
		if i != 3 && e.Signal != int(syscall.SIGTERM) {
			t.Errorf("rank %d: %+v; expected SIGTERM", i, e)
		}
	}
	if j.took > time.Second {
		t.Errorf("the job took %v", j.took)
	}
}

func TestARankThatIgnoresTermIsKilledAfterTheGrace(t *testing.T) {
	j := newJob(2, 1, func(r *launchtest.Rank) launch.Exit {
		if r.Number == 0 {
			r.Sleep(10 * time.Millisecond)
			return launch.Exit{Status: 1}
		}
		r.IgnoresTerm = true
		r.Sleep(time.Hour)
		return launch.Exit{}
	})
	j.options.Grace = 3 * time.Second
	r := j.run(t)
	if r.Ranks[1].Signal != int(syscall.SIGKILL) || j.took < 3*time.Second || j.took > 4*time.Second {
		t.Errorf("%+v after %v", r.Ranks[1], j.took)
	}
}

func TestOneRefusalAmongManyHostsStartsNothingAndAllCausesCome(t *testing.T) {
	j := newJob(40, 1, hello)
	refuse := func(what string) func(*ctl.Reserve) []ctl.Refusal {
		return func(*ctl.Reserve) []ctl.Refusal {
			return []ctl.Refusal{{What: what, Text: "no " + what, Cure: "mend it"}}
		}
	}
	j.Hosts[17].Refuse, j.Hosts[33].Refuse = refuse(ctl.RefusedProgram), refuse(ctl.RefusedRole)
	j.Hosts[5].Slots = 0
	r := j.run(t)
	if r.Status != launch.StatusRefused || len(r.Refusals) != 3 || len(r.Ranks) != 0 {
		t.Fatalf("%+v", r)
	}
	for i, host := range []string{"h5", "h17", "h33"} {
		if r.Refusals[i].Host != host || r.Refusals[i].Cure == "" {
			t.Errorf("refusal %d: %+v", i, r.Refusals[i])
		}
	}
	for _, e := range j.Events {
		if e.What == "start" || e.What == "rank" {
			t.Fatalf("after a refusal: %+v", e)
		}
	}
	if j.console.Has(launch.NoteRank) {
		t.Errorf("after a refusal, ranks have ended: %+v", j.console.Notes)
	}
	if j.took > time.Second {
		t.Errorf("the refusal took %v", j.took)
	}
}

func TestInputIsReadOnlyWhenEveryReaderWantsIt(t *testing.T) {
	for _, c := range []struct {
		stdin   string
		readers []int
	}{{"", []int{0}}, {"0", []int{0}}, {"2", []int{2}}, {"all", []int{0, 1, 2, 3}}, {"none", nil}} {
		var j *job
		most := 0
		j = newJob(2, 2, func(r *launchtest.Rank) launch.Exit {
			for n := 1; ; n++ {
				text, ok := r.Read()
				if !ok {
					return launch.Exit{}
				}
				most = max(most, j.console.Asked-n)
				r.Print(text)
				r.Sleep(time.Duration(r.Number+1) * time.Millisecond)
			}
		})
		j.options.Stdin = c.stdin
		lines := []string{"one\n", "two\n", "three\n", "four\n"}
		j.console.Lines = lines
		if r := j.run(t); r.Status != 0 {
			t.Fatalf("stdin %q: %+v", c.stdin, r)
		}
		for n := range 4 {
			want := ""
			for _, reader := range c.readers {
				if reader == n {
					want = strings.Join(lines, "")
				}
			}
			if got := j.console.Of(n); got != want {
				t.Errorf("stdin %q: rank %d read %q; expected %q", c.stdin, n, got, want)
			}
		}
		if most > 1 {
			t.Errorf("stdin %q: %d lines were taken ahead of a rank", c.stdin, most)
		}
		if c.readers == nil && j.console.Asked > 0 {
			t.Errorf("stdin %q: the console was asked %d times", c.stdin, j.console.Asked)
		}
	}
}

func TestARankThatReadsNothingTakesOneLine(t *testing.T) {
	j := newJob(1, 1, sleeps(10*time.Second))
	j.console.Lines = []string{"one\n", "two\n", "three\n"}
	j.run(t)
	if j.console.Asked != 1 || len(j.console.Lines) != 2 {
		t.Errorf("the console was asked %d times", j.console.Asked)
	}
}

func TestAnEndedReaderDoesNotHoldBackTheOthers(t *testing.T) {
	j := newJob(2, 1, func(r *launchtest.Rank) launch.Exit {
		if r.Number == 0 {
			r.Read()
			return launch.Exit{}
		}
		for text, ok := r.Read(); ok; text, ok = r.Read() {
			r.Print(text)
		}
		return launch.Exit{}
	})
	j.options.Stdin = "all"
	j.console.Lines = []string{"one\n", "two\n", "three\n"}
	if r := j.run(t); r.Status != 0 || j.console.Of(1) != "one\ntwo\nthree\n" {
		t.Errorf("%+v; rank 1 read %q", r, j.console.Of(1))
	}
}

func TestSignalsReachEveryRankInOrder(t *testing.T) {
	got := map[int][]syscall.Signal{}
	j := newJob(2, 2, func(r *launchtest.Rank) launch.Exit {
		r.Sleep(time.Second)
		got[r.Number] = r.Signals
		return launch.Exit{}
	})
	want := []syscall.Signal{syscall.SIGUSR1, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH}
	j.control = func(c *launch.Control) {
		for i, s := range want {
			j.F.After(100*time.Millisecond+time.Duration(i)*time.Microsecond, func() { c.Signal(s) })
		}
	}
	if r := j.run(t); r.Status != 0 {
		t.Fatalf("%+v", r)
	}
	for n := range 4 {
		if fmt.Sprint(got[n]) != fmt.Sprint(want) {
			t.Errorf("rank %d got %v; expected %v", n, got[n], want)
		}
	}
	if !j.console.Has(launch.NoteStopped) || !j.console.Has(launch.NoteResumed) {
		t.Errorf("notes %+v; expected that the ranks were stopped and resumed", j.console.Notes)
	}
}

func TestTheTimeoutEndsTheJob(t *testing.T) {
	j := newJob(2, 2, sleeps(time.Hour))
	j.options.Timeout = 5 * time.Second
	r := j.run(t)
	if r.Status != launch.StatusTimeout || j.took > 6*time.Second || !j.console.Has(launch.NoteTimeout) {
		t.Errorf("%+v after %v", r, j.took)
	}
}

func TestTheUserEndsAJobAndASecondWishKills(t *testing.T) {
	j := newJob(2, 2, func(r *launchtest.Rank) launch.Exit {
		r.IgnoresTerm = true
		r.Sleep(time.Hour)
		return launch.Exit{}
	})
	j.options.Grace = time.Minute
	j.control = func(c *launch.Control) {
		j.F.After(time.Second, func() { c.End(130, "interrupted") })
		j.F.After(2*time.Second, func() { c.Kill(130, "interrupted twice") })
	}
	r := j.run(t)
	if r.Status != 130 || r.Cause != "interrupted" || j.took > 3*time.Second {
		t.Errorf("%+v after %v", r, j.took)
	}
}

func TestAShrinkingJobGoesOn(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		if r.Number == 1 {
			return launch.Exit{Signal: 9}
		}
		r.Sleep(time.Second)
		return launch.Exit{}
	})
	j.options.OnDeath = launch.OnDeath{Policy: launch.Shrink}
	r := j.run(t)
	if r.Status != 0 || r.Ranks[1].Signal != 9 || r.Ranks[0].Failed() || !j.console.Has(launch.NoteFailure) {
		t.Errorf("%+v", r)
	}
}

func TestAShrinkingJobWithoutARankThatEndsWellFails(t *testing.T) {
	j := newJob(3, 1, func(r *launchtest.Rank) launch.Exit {
		r.Sleep(time.Duration(3-r.Number) * 100 * time.Millisecond)
		return launch.Exit{Status: 1 + r.Number}
	})
	j.options.OnDeath = launch.OnDeath{Policy: launch.Shrink}
	if r := j.run(t); r.Status != 3 || r.Cause != "rank 2 on h2: exited with status 3" {
		t.Errorf("%+v", r)
	}
}

func TestAJobRestartsUntilItEndsWell(t *testing.T) {
	j := newJob(3, 2, func(r *launchtest.Rank) launch.Exit {
		r.Print(fmt.Sprintf("life %d of %s\n", r.Restart, r.App))
		if r.Number == 4 && r.Restart < 2 {
			r.Sleep(time.Second)
			return launch.Exit{Signal: 11}
		}
		r.Sleep(3 * time.Second)
		return launch.Exit{}
	})
	j.options.OnDeath = launch.OnDeath{Policy: launch.Restart, Restarts: 3}
	r := j.run(t)
	if r.Status != 0 || r.Restarts != 2 {
		t.Fatalf("%+v", r)
	}
	if got, want := j.console.Of(0), "life 0 of job-00000001\nlife 1 of job-00000001.1\nlife 2 of job-00000001.2\n"; got != want {
		t.Errorf("rank 0 wrote %q; expected %q", got, want)
	}
}

func TestAJobRestartsAtMostSoOften(t *testing.T) {
	j := newJob(2, 1, func(r *launchtest.Rank) launch.Exit { return launch.Exit{Status: 7} })
	j.options.OnDeath = launch.OnDeath{Policy: launch.Restart, Restarts: 2}
	if r := j.run(t); r.Status != 7 || r.Restarts != 2 {
		t.Errorf("%+v", r)
	}
}

func TestARefusedRestartEndsTheJobWithItsFirstFailure(t *testing.T) {
	j := newJob(2, 1, func(r *launchtest.Rank) launch.Exit { return launch.Exit{Status: 7} })
	j.options.OnDeath = launch.OnDeath{Policy: launch.Restart, Restarts: 2}
	j.Hosts[1].Refuse = func(r *ctl.Reserve) []ctl.Refusal {
		if r.Restart == 0 {
			return nil
		}
		return []ctl.Refusal{{What: ctl.RefusedRole, Text: "the role was withdrawn"}}
	}
	if r := j.run(t); r.Status != 7 || r.Restarts != 0 || len(r.Ranks) != 2 || !strings.Contains(r.Cause, "restart 1 was refused: host h1: the role was withdrawn") {
		t.Errorf("%+v", r)
	}
}

func TestAConsoleThatTakesNoOutputEndsTheJob(t *testing.T) {
	j := newJob(2, 1, func(r *launchtest.Rank) launch.Exit {
		for r.Print("again and again\n") && r.Sleep(time.Millisecond) {
		}
		return launch.Exit{}
	})
	n := 0
	j.console.Slow = func() error {
		if n++; n > 10 {
			return syscall.EPIPE
		}
		return nil
	}
	if r := j.run(t); r.Status != 141 || !strings.Contains(r.Cause, "output") {
		t.Errorf("%+v", r)
	}
}
