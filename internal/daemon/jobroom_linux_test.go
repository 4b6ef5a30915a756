package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
)

// hostOf returns the jobs of a host with some slots, and a NIC with room for some processes. No
// daemon runs.
func hostOf(slots, processes int) *jobs {
	d := &Daemon{id: 7, log: slog.New(slog.NewTextHandler(io.Discard, nil)), control: &control{}}
	d.settings.config.Slots, d.settings.config.MaxProcesses = &slots, processes
	d.live.Store(d.settings.live(fabricKeys{}))
	return &jobs{d, newPlaces(false)}
}

var bob = &account{uid: anotherUser, name: "bob"}

func TestEachReasonForWhichAHostTakesNoRanksIsGiven(t *testing.T) {
	for _, c := range []struct {
		what                        string
		slots, processes, there     int // there: slots that another job has taken
		ranks                       int
		oversubscribe, same, closed bool
		refused                     []string // the subjects of the refusals
		tried                       bool     // the job is entered; its keeper looks for more causes
	}{
		{"all slots", 4, 5, 0, 4, false, false, false, nil, true},
		{"one rank more than slots", 4, 10, 0, 5, false, false, false, []string{ctl.RefusedSlots}, true},
		{"the slots that are left", 4, 10, 3, 1, false, false, false, nil, true},
		{"one more than are left", 4, 10, 3, 2, false, false, false, []string{ctl.RefusedSlots}, true},
		{"more than slots, asked for", 4, 10, 3, 9, true, false, false, nil, true},
		{"more than the NIC has room for", 4, 10, 0, 10, true, false, false, []string{ctl.RefusedSlots}, true},
		{"no slots", 0, 10, 0, 1, true, false, false, []string{ctl.RefusedSlots}, true},
		{"a job that is there", 4, 10, 1, 1, false, true, false, []string{ctl.RefusedHost}, false},
		{"a daemon that goes down", 4, 10, 0, 1, false, false, true, []string{ctl.RefusedHost}, false},
	} {
		j := hostOf(c.slots, c.processes)
		r := &ctl.Reserve{Job: "job-00000001", Ranks: c.ranks, Size: 16, First: 2, Oversubscribe: c.oversubscribe, Host: 3, Machine: "m"}
		if c.there > 0 {
			other := &ctl.Reserve{Job: "job-00000002", Ranks: c.there}
			if c.same {
				other.Job = r.Job
			}
			if b, no := j.take(bob, other, false); b == nil || no != nil {
				t.Fatalf("%s: the other job: %+v", c.what, no)
			}
		}
		j.closed = c.closed
		before := j.taken
		b, no := j.take(bob, r, false)
		var about []string
		for _, n := range no {
			about = append(about, n.What)
		}
		if !slices.Equal(about, c.refused) || (b != nil) != c.tried {
			t.Errorf("%s: refused for %q, tried: %v; expected %q and %v", c.what, about, b != nil, c.refused, c.tried)
			continue
		}
		taken := 0
		if c.refused == nil {
			taken = c.ranks
		}
		if j.taken-before != taken {
			t.Errorf("%s: %d slots are taken; expected %d", c.what, j.taken-before, taken)
		}
		if b == nil {
			continue
		}
		if b.on != j.d || b.account != bob || b.First != 2 || b.Host != 3 || b.Ranks != c.ranks || b.Machine != "m" || b.User != "bob" {
			t.Errorf("%s: the job is %+v", c.what, b.JobInfo)
		}
		j.forget(b)
		if j.taken != before || j.all[b.ID] != nil {
			t.Errorf("%s: behind its end %d slots are taken; expected %d", c.what, j.taken, before)
		}
		select {
		case <-b.done:
		default:
			t.Errorf("%s: its end is not told", c.what)
		}
	}
}

// If a request is refused already, its job has a keeper that looks for further causes, and no
// slots.
func TestAJobThatIsRefusedTakesNoSlots(t *testing.T) {
	j := hostOf(4, 10)
	b, no := j.take(bob, &ctl.Reserve{Job: "job-00000001", Ranks: 2}, true)
	if b == nil || no != nil || j.taken != 0 || b.slots != 0 {
		t.Errorf("%+v, %d slots are taken", no, j.taken)
	}
	if no := j.lacking(nil, &ctl.Reserve{Job: "job-00000002", Ranks: 5}); len(no) != 1 || no[0].What != ctl.RefusedSlots || no[0].Cure == "" {
		t.Errorf("a user who is not here is told %+v; expected the lack of slots", no)
	}
}

func TestAnotherNICHoldsSoManyReservationsAndLeavesNothing(t *testing.T) {
	j := hostOf(4, 10)
	var leave []func()
	for nic := range 2 {
		for i := range limits.ReservesOfPeer {
			f, no := j.enter(deploy.Asker{NIC: 8 + 1<<nic, User: fmt.Sprint(i)}) // of any user
			if no != nil {
				t.Fatalf("reservation %d of NIC %d: %+v", i, nic, no)
			}
			leave = append(leave, f)
		}
		if _, no := j.enter(deploy.Asker{NIC: 8 + 1<<nic, User: "another"}); no == nil || no.What != ctl.RefusedHost {
			t.Errorf("one more reservation of NIC %d is taken", nic)
		}
	}
	if n := len(j.reserving); n != 2*limits.ReservesOfPeer {
		t.Errorf("%d reservations are counted; expected %d", n, 2*limits.ReservesOfPeer)
	}
	for _, f := range leave {
		f()
	}
	if len(j.reserving)+len(j.reservers) != 0 {
		t.Errorf("behind all, %d reservations of %d askers are counted", len(j.reserving), len(j.reservers))
	}
}

// endingJob enters a job with slots whose keeper ends its ranks.
func (j *jobs) endingJob(id string, slots int) *job {
	b := &job{on: j.d, account: bob, slots: slots, done: make(chan struct{}), keeper: &keeper{ending: true, cmd: &exec.Cmd{Process: &os.Process{Pid: -1}}}}
	b.ID = id
	j.all[id] = b
	j.taken += slots
	return b
}

// The next job of a script finds the slots of the one before free.
func TestARequestAboutSlotsWaitsForJobsThatEnd(t *testing.T) {
	settled := func(j *jobs, ctx context.Context, ranks int) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			j.settle(ctx, func(free int) bool { return ranks <= free })
		}()
		return done
	}
	isOver := func(what string, done <-chan struct{}) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the request waits", what)
		}
	}
	j := hostOf(4, 10)
	isOver("no job", settled(j, t.Context(), 5))
	b := j.endingJob("a", 3)
	isOver("enough slots", settled(j, t.Context(), 1))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	isOver("a daemon that goes down", settled(j, ended, 2))
	done := settled(j, t.Context(), 2)
	select {
	case <-done:
		t.Error("the request does not wait for the job that ends")
	case <-time.After(20 * time.Millisecond):
	}
	j.forget(b)
	isOver("a job that has ended", done)
	running := j.endingJob("b", 3)
	running.keeper.ending, running.keeper.started = false, []int{1}
	if j.ending(func(int) bool { return false }) != nil {
		t.Error("a job that runs is waited for")
	}
	running.keeper.ending, running.slots = true, 0
	if j.ending(func(int) bool { return false }) != nil {
		t.Error("a job without slots is waited for")
	}
	running.slots, running.keeper = 3, nil
	if j.ending(func(int) bool { return false }) != nil {
		t.Error("a job without a keeper is waited for")
	}
}
