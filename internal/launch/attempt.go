package launch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/mutate"
)

// attempt is one life of a job: its first start, or a restart. The goroutines of the launcher, and
// one for each host, share its state under mu. They open gate after each change.
type attempt struct {
	*launcher
	number int
	ctx    context.Context // ends with the attempt
	cancel context.CancelFunc
	gate   *weft.Gate // wakes run

	mu        sync.Mutex
	notes     []Note // of the step under mu
	hosts     []*host
	at        map[weft.Address]*host
	ranks     []rank
	readers   []int // living ranks that read input
	failed    *failure
	failures  []failure // failures that have a time
	begun     bool      // starts were queued
	ending    bool
	ended     time.Duration // the launcher's clock when it ended the job
	grace     time.Duration // of the end
	deadline  time.Time     // of the end
	refusals  []HostRefusal
	survivors []HostSurvivor
	kvsBytes  int   // put into the key-value space
	severed   error // set when the NIC of this process is gone
}

// rank is what the launcher knows of a rank.
type rank struct {
	RankEnd
	host  *host
	over  bool // the rank has ended, or counts as ended
	wants bool // the rank has read its input
}

// failure is a failure of an attempt.
type failure struct {
	status int
	cause  string
	retry  bool    // a restart may help
	when   *moment // of a rank's death or a host's loss; otherwise nil
}

func newAttempt(l *launcher, number int) *attempt {
	a := &attempt{launcher: l, number: number, at: make(map[weft.Address]*host), ranks: make([]rank, l.o.size())}
	a.ctx, a.cancel = l.rt.WithTimeout(l.ctx, ever)
	a.gate = l.rt.NewGate()
	a.readers, _ = l.o.readers()
	for i := range l.o.Hosts {
		h := &host{Host: &l.o.Hosts[i], index: i, gate: l.rt.NewGate(), skew: newSkew()}
		h.ctx, h.quit = l.rt.WithTimeout(a.ctx, ever)
		a.hosts = append(a.hosts, h)
		for _, r := range h.Ranks {
			a.ranks[r].host, a.ranks[r].Rank, a.ranks[r].Node = h, r, h.Name
		}
	}
	return a
}

// lock begins a step of the state. unlock ends it, and reports the notes of the step.
func (a *attempt) lock() { a.mu.Lock() }

func (a *attempt) unlock() {
	notes := a.notes
	a.notes = nil
	a.mu.Unlock()
	a.gate.Open()
	for _, n := range notes {
		a.note(n)
	}
}

func (a *attempt) tell(n Note) { a.notes = append(a.notes, n) }

// run runs the attempt, from the first reservation to the last end.
func (a *attempt) run() *Result {
	defer a.cancel()
	a.reserve()
	a.stage()
	a.start()
	a.until(func() bool { return a.ending || a.all((*host).done) })
	a.finish()
	a.lock()
	a.decide()
	a.unlock()
	if a.cutOff() {
		a.partFromKeepers()
	}
	return a.result()
}

// until waits until a condition of the state holds, or until the attempt ends.
func (a *attempt) until(holds func() bool) {
	for {
		a.mu.Lock()
		enough := holds() || a.ending || a.severed != nil
		a.mu.Unlock()
		if enough || a.gate.Wait(a.ctx) != nil {
			return
		}
	}
}

// finish waits until the end of every host is known and acknowledged, or until the deadline.
// Before the deadline, it asks the daemons to end keepers that do not end by themselves.
func (a *attempt) finish() {
	for insisted := false; a.o.Defect != mutate.LaunchRestartHasty; {
		a.mu.Lock()
		if a.deadline.IsZero() {
			a.deadline = a.rt.Now().Add(Patience)
		}
		left := a.deadline.Sub(a.rt.Now())
		enough := a.all((*host).settled) || a.severed != nil
		if insist := left - Patience/2; a.ending && !insisted && insist > 0 {
			left = insist
		} else if !insisted {
			insisted = true
			a.insist()
		}
		a.mu.Unlock()
		if enough || left <= 0 {
			return
		}
		_ = within(a.ctx, a.rt, left, a.gate.Wait)
	}
}

// insist asks the daemons of all hosts that are not done to end the job there. The caller holds the
// lock.
func (a *attempt) insist() {
	for _, h := range a.hosts {
		if h.state == hostReady || h.state == hostStarted {
			a.rt.Go(func() { a.kill(h) })
		}
	}
}

// kill asks a host's daemon to end the job there.
func (a *attempt) kill(h *host) {
	if d, ok := a.desk.(Killer); ok {
		_ = within(a.ctx, a.rt, Patience, func(ctx context.Context) error {
			return d.Kill(ctx, h.NIC, ctl.JobApplication(a.o.Job, a.number))
		})
	}
}

// all reports whether a predicate holds for every host.
func (a *attempt) all(holds func(*host) bool) bool {
	return !slices.ContainsFunc(a.hosts, func(h *host) bool { return !holds(h) })
}

// over reports whether no further phase may begin.
func (a *attempt) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ending || a.severed != nil
}

// fail notes a failure. The first one counts, unless decide finds an earlier one. The caller
// holds the lock.
func (a *attempt) fail(f failure) {
	if f.when != nil && a.o.Defect != mutate.LaunchLastCause {
		a.failures = append(a.failures, f)
	}
	if a.failed == nil || a.o.Defect == mutate.LaunchLastCause {
		a.failed = &f
		a.tell(Note{Kind: NoteFailure, Text: f.cause})
	}
}

// end asks every keeper to end its ranks. A second call can only shorten the grace. The caller
// holds the lock.
func (a *attempt) end(grace time.Duration) {
	if a.ending && grace >= a.grace {
		return
	}
	if !a.ending {
		a.ended = a.clock(a.rt.Now())
	}
	a.ending, a.grace = true, grace
	a.deadline = a.rt.Now().Add(grace + Patience)
	for _, h := range a.hosts {
		if h.state == hostStarted || a.o.Defect != mutate.LaunchEndOnce {
			h.post(endMsg{grace: grace})
		}
	}
	a.hungry.Open()
}

// stop ends the attempt because of a wish of the user.
func (a *attempt) stop(e *ending) {
	a.lock()
	defer a.unlock()
	if !a.ending {
		a.fail(failure{status: e.status, cause: e.cause})
	}
	grace := a.o.grace()
	if e.now {
		grace = 0
	}
	a.end(grace)
}

// cut handles the end of this process's NIC: no keeper can be reached any more.
func (a *attempt) cut(err error) {
	a.lock()
	defer a.unlock()
	if a.severed == nil {
		a.severed = err
	}
}

// cutOff reports whether the NIC of this process has ended.
func (a *attempt) cutOff() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.severed != nil
}

// signal sends a signal to every rank.
func (a *attempt) signal(s int) {
	a.lock()
	defer a.unlock()
	for _, h := range a.hosts {
		if h.state == hostStarted {
			h.post(signalMsg{s})
		}
	}
}

// rankOver records the end of a rank at a moment, and applies the policy to a failure. The caller
// holds the lock.
func (a *attempt) rankOver(e Exit, known bool, when moment) {
	r := &a.ranks[e.Rank]
	if r.over {
		return
	}
	r.Exit, r.Known, r.over = e, known, true
	a.leaves(e.Rank)
	if !e.Failed() {
		a.tell(Note{Kind: NoteRank, Host: r.Node, Rank: e.Rank, Exit: &e, Known: known})
		return
	}
	cause := e.phrase() // the cause of the host, if the end of the rank is not known
	if known {
		cause = fmt.Sprintf("rank %d on %s: %s", e.Rank, r.Node, cause)
	}
	a.tell(Note{Kind: NoteRank, Host: r.Node, Rank: e.Rank, Exit: &e, Known: known, Text: cause})
	a.fail(failure{status: e.Code(), cause: cause, retry: true, when: &when})
	if a.o.OnDeath.Policy != Shrink && a.o.Defect != mutate.LaunchFailureKept {
		a.end(a.o.grace())
	}
}

// leaves removes a rank from those that read input.
func (a *attempt) leaves(rank int) {
	if i := slices.Index(a.readers, rank); i >= 0 {
		a.readers = slices.Delete(a.readers, i, i+1)
		a.hungry.Open()
	}
}

// retriable returns the failure if a restart may help, and otherwise nil.
func (a *attempt) retriable() *failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.o.OnDeath.Policy != Restart || a.failed == nil || !a.failed.retry || a.severed != nil {
		return nil
	}
	a.launcher.mu.Lock()
	defer a.launcher.mu.Unlock()
	if a.stopped != nil {
		return nil
	}
	return a.failed
}

// result returns the result of the job.
func (a *attempt) result() *Result {
	a.lock()
	defer a.unlock()
	r := &Result{Refusals: a.refusals, Survivors: a.survivors}
	for _, h := range a.hosts {
		if why := h.unknown(); why != "" {
			r.Unknown = append(r.Unknown, h.Name+": "+why)
		}
	}
	slices.SortStableFunc(r.Refusals, func(x,
		y HostRefusal) int {
		return cmp.Compare(a.indexOf(x.Host), a.indexOf(y.Host))
	})
	if a.begun && !a.all(func(h *host) bool { return h.unstarted }) {
		for i := range a.ranks {
			if !a.ranks[i].over {
				a.ranks[i].Cause = "its end is not known"
			}
			r.Ranks = append(r.Ranks, a.ranks[i].RankEnd)
		}
	}
	if a.severed != nil && a.failed == nil {
		a.failed = &failure{status: StatusFailed, cause: fmt.Sprintf("the NIC of weft run ended: %v", a.severed)}
	}
	if f := a.failed; f != nil && !a.survived() {
		r.Status, r.Cause = f.status, f.cause
	}
	return r
}

func (a *attempt) indexOf(name string) int {
	return slices.IndexFunc(a.hosts, func(h *host) bool { return h.Name == name })
}

// survived reports whether the job has shrunk and gone on: at least one rank has ended with
// status 0, and there were no failures but deaths of ranks.
func (a *attempt) survived() bool {
	if a.o.OnDeath.Policy != Shrink || a.ending || a.severed != nil {
		return false
	}
	return slices.ContainsFunc(a.ranks, func(r rank) bool { return r.over && !r.Failed() })
}
