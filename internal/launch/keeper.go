package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/mutate"
)

// keeper is one call of Keep. Its goroutines change the state under mu, and open gate for run:
//
//	hear        messages of the launcher
//	watch       the end of the launcher
//	obeyDaemon  words of the daemon
//	follow      the end of the caller's context
//	hearNotices the launcher's notices, which do not use the NICs
type keeper struct {
	p        *weft.Process
	rt       weft.Runtime
	reserved *ctl.Reserve
	o        KeepOptions
	daemon   Lifeline
	launcher weft.Peer
	kvs      *kvs

	launcherAt weft.Address
	born       time.Time // when its clock began

	ctx    context.Context // ends with Keep
	cancel context.CancelFunc
	sends  context.Context // of messages to the launcher; ends early if the launcher is gone
	mute   context.CancelFunc
	gate   *weft.Gate

	started *weft.Gate // open once set is final

	mu      sync.Mutex
	start   *Start        // the launcher's start, once it has come
	stages  bool          // staged content is coming
	set     Set           // nil before the ranks have started
	why     error         // why the ranks end; nil: no reason yet
	grace   time.Duration // of that end
	gone    error         // the launcher is gone
	ahead   ahead
	synced  bool // ahead is known
	acked   bool
	again   bool // the launcher has not received the last message
	ends    int  // calls of Set.End that have not returned
	over    bool // Set.Wait has returned
	lived   []Survivor
	notices *notices // nil: there is no path without the NICs
}

func newKeeper(p *weft.Process, r *ctl.Reserve, o KeepOptions, daemon Lifeline) *keeper {
	k := &keeper{p: p, rt: p.Runtime(), reserved: r, o: o, daemon: daemon}
	k.launcherAt = weft.Address{NIC: weft.NICID(r.Launcher.NIC), Slot: r.Launcher.Slot,
		Generation: r.Launcher.Generation}
	k.born = k.rt.Now()
	k.launcher = p.PeerAt(k.launcherAt)
	k.ctx, k.cancel = k.rt.WithTimeout(context.Background(), ever)
	k.sends, k.mute = k.rt.WithTimeout(k.ctx, ever)
	k.gate, k.started = k.rt.NewGate(), k.rt.NewGate()
	k.kvs = newKVS(k)
	return k
}

var (
	errNoStart  = fmt.Errorf("no start within %v", StartWithin)
	errAsked    = errors.New("the launcher ended the job")
	errKilled   = errors.New("its daemon was asked to end the job")
	errNoDaemon = errors.New("the daemon is gone")
	errStops    = errors.New("its NIC daemon stops, and ranks do not outlive it: " +
		"stop a daemon for an upgrade when no job runs")
)

// killedBy returns errKilled with the user who asked for the end.
func killedBy(user string) error {
	if user == "" {
		return errKilled
	}
	return fmt.Errorf("%w by %s", errKilled, user)
}

// run runs the keeper, from its reservation to its report.
func (k *keeper) run() error {
	k.until(func() bool { return k.why != nil || k.start != nil })
	var sum Summary
	if k.goesOn() {
		sum = k.runRanks()
	}
	k.started.Open()
	defer k.closeNotices()
	return k.report(sum)
}

// until waits until a condition of the state holds.
func (k *keeper) until(holds func() bool) {
	for {
		k.mu.Lock()
		enough := holds()
		k.mu.Unlock()
		if enough || k.gate.Wait(k.ctx) != nil {
			return
		}
	}
}

func (k *keeper) goesOn() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.why == nil
}

// change changes the state.
func (k *keeper) change(fn func()) {
	k.mu.Lock()
	fn()
	k.mu.Unlock()
	k.gate.Open()
}

// end ends the ranks. The first reason and the shortest grace count.
func (k *keeper) end(why error, grace time.Duration) {
	k.change(func() {
		first := k.why == nil
		if first {
			k.why = why
		} else if grace >= k.grace {
			return
		}
		k.grace = grace
		if k.set != nil {
			k.endSet(k.set, grace)
		}
	})
}

// endSet begins to end the ranks. The caller holds the lock.
func (k *keeper) endSet(s Set, grace time.Duration) {
	k.ends++
	why := k.why
	stops := errors.Is(why, errStops)
	k.rt.Go(func() {
		_ = k.daemon.Answer(&ctl.FromKeeper{Ending: true})
		// Before the ends of the ranks, since it is their cause.
		if stops || errors.Is(why, errKilled) {
			k.sayWithin(time.Second, endingMsg{stops, short(why.Error())})
		}
		lived := s.End(grace)
		k.change(func() { k.ends--; k.lived = lived })
	})
}

// runRanks starts the ranks, and returns when none is left.
func (k *keeper) runRanks() Summary {
	k.openNotices()
	set, err := k.o.Start(*k.start, k.callbacks())
	if err != nil {
		return Summary{Failure: short(err.Error()), NotStarted: true}
	}
	k.rt.Go(func() {
		set.Wait()
		k.change(func() { k.over = true })
	})
	k.change(func() {
		if k.set = set; k.why != nil {
			k.endSet(set, k.grace)
		}
	})
	k.started.Open()
	k.tellPIDs(set)
	k.until(func() bool { return k.over || k.why != nil })
	k.change(func() { // processes that ranks have left end too
		if k.ends == 0 {
			k.endSet(set, 0)
		}
	})
	k.until(func() bool { return k.ends == 0 })
	k.drain()
	k.mu.Lock()
	defer k.mu.Unlock()
	return Summary{Survivors: k.lived}
}

// drain waits until the launcher has the output of the ended ranks, if the launcher lives. It
// does not wait for a process that SIGKILL does not end.
func (k *keeper) drain() {
	k.mu.Lock()
	stuck := len(k.lived) > 0
	k.mu.Unlock()
	if stuck {
		k.rt.Go(func() {
			_ = k.rt.Sleep(k.ctx, Patience)
			k.change(func() { k.over = true })
		})
	}
	k.until(func() bool { return k.over })
}

// tellPIDs tells the daemon which processes the ranks are.
func (k *keeper) tellPIDs(s Set) {
	var pids []int
	for _, r := range s.Inspect() {
		pids = append(pids, r.PID)
	}
	_ = k.daemon.Answer(&ctl.FromKeeper{Started: pids})
}

// report sends the last message and waits for its acknowledgement. It repeats the message if the
// launcher shows that it has not received it. It waits only for an end that the launcher knows.
func (k *keeper) report(sum Summary) error {
	k.change(func() {
		if k.why != nil && sum.Failure == "" && !errors.Is(k.why, errAsked) {
			sum.Failure = short(k.why.Error())
		}
		if k.notices != nil {
			sum.Strangers = k.notices.refusals
		}
		sum.Ahead = k.ahead
		k.again = true
	})
	for {
		k.mu.Lock()
		again, done := k.again, k.parted()
		k.again = false
		k.mu.Unlock()
		switch {
		case again && done:
			k.sayWithin(time.Second, &sum)
			return k.reason()
		case again:
			_ = k.say(&sum)
		case done:
			return k.reason()
		}
		k.until(func() bool { return k.again || k.parted() })
	}
}

// parted reports whether the keeper need not wait for an acknowledgement. The caller holds the
// lock.
func (k *keeper) parted() bool {
	return k.acked || k.gone != nil || k.why != nil && !errors.Is(k.why, errAsked)
}

// reason returns why the ranks ended, or nil for the end of a job that the launcher knows.
func (k *keeper) reason() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.acked:
		return nil
	case k.why != nil:
		return k.why
	}
	return k.gone
}

// say sends a message to the launcher. It waits while the launcher is slow.
func (k *keeper) say(m message) error { return k.launcher.Send(k.sends, tag, m.append(nil)) }

// sayWithin sends a message to the launcher unless the launcher is slow.
func (k *keeper) sayWithin(d time.Duration, m message) {
	_ = within(k.sends, k.rt, d, func(ctx context.Context) error { return k.launcher.Send(ctx, tag, m.append(nil)) })
}

// callbacks returns the callbacks of the ranks. They report to the launcher.
func (k *keeper) callbacks() Callbacks {
	c := Callbacks{
		Output: func(rank, stream int, lines []byte) error {
			var head [6]byte
			for len(lines) > 0 {
				n := min(len(lines), maxPiece)
				h := outputMsg{rank: rank, stream: stream}.head(head[:0])
				if err := k.launcher.Send(k.sends, tag, h, lines[:n]); err != nil {
					return err
				}
				lines = lines[n:]
			}
			return nil
		},
		Want:  func(rank int) { _ = k.say(wantMsg{rank}) },
		State: func(rank int, stopped bool) { _ = k.say(stateMsg{rank, stopped}) },
		Ended: func(e Exit) {
			e.Cause, e.OOM = short(e.Cause), short(e.OOM)
			if k.o.Defect == mutate.KeeperEndedLost && e.Failed() {
				return
			}
			_ = k.say(k.ended(e))
		},
	}
	if k.start.PMI {
		c.KVS = k.kvs
	}
	return c
}

// short bounds a text of a message. It makes the text valid UTF-8, as JSON does: a path may hold
// any bytes, and JSON would lengthen the text beyond the bound.
func short(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	end := min(len(text), maxAbortText)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// follow ends the ranks when the caller's context ends. It looks once a second whether Keep has
// ended.
func (k *keeper) follow(ctx context.Context) {
	for k.ctx.Err() == nil {
		if err := k.rt.Sleep(ctx, time.Second); err != nil {
			k.mute()
			k.end(fmt.Errorf("the keeper was given up: %w", err), 0)
			return
		}
	}
}

// obeyDaemon handles the messages of the daemon. The end of the link is the end of the daemon.
// The ranks do not outlive a daemon that is upgraded either: its NIC, to which they are attached,
// ends with it.
func (k *keeper) obeyDaemon() {
	for {
		m, err := k.daemon.Told(k.ctx)
		switch {
		case k.ctx.Err() != nil:
			return
		case err != nil:
			k.tellDaemonGone()
			k.mute() // its NIC has ended too
			k.end(errNoDaemon, k.patience())
			return
		case m.Kill != nil:
			k.end(killedBy(m.Kill.By), time.Duration(m.Kill.Grace))
		case m.Stops:
			k.end(errStops, k.patience())
		case m.Report:
			k.mu.Lock()
			set := k.set
			k.mu.Unlock()
			var ranks []ctl.RankInfo
			if set != nil {
				ranks = set.Inspect()
			}
			_ = ctl.EachReport(ranks, k.daemon.Answer)
		}
	}
}

// patience returns the grace of an end that no user asked for: that of the start, or 0 before the
// start.
func (k *keeper) patience() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.start == nil {
		return 0
	}
	return time.Duration(k.start.Grace)
}
