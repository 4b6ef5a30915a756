package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/mutate"
)

// reserve asks all hosts concurrently. It collects the refusals of all of them, and ends the
// attempt if there is one. A restart repeats refused requests for a while, because the slots of
// the earlier ranks become free only when their keepers have ended.
func (a *attempt) reserve() {
	repeat := a.rt.Now()
	if a.number > 0 {
		repeat = repeat.Add(RestartWithin)
	}
	next, answered := 0, 0
	for range min(InFlight, len(a.hosts)) {
		a.rt.Go(func() {
			for {
				a.mu.Lock()
				i := next
				next++
				enough := i >= len(a.hosts) || a.ending
				a.mu.Unlock()
				if enough {
					return
				}
				a.ask(a.hosts[i], repeat)
				a.lock()
				answered++
				a.unlock()
			}
		})
	}
	a.until(func() bool { return answered == len(a.hosts) })
	a.lock()
	defer a.unlock()
	if len(a.refusals) > 0 && a.o.Defect != mutate.LaunchUnready {
		a.fail(failure{status: StatusRefused, cause: refusalCause(a.refusals)})
		a.end(0)
	}
}

// refusalCause returns the sentence for the refusals of a job.
func refusalCause(l []HostRefusal) string {
	text := fmt.Sprintf("host %s: %s", l[0].Host, l[0].Text)
	switch n := len(l) - 1; n {
	case 0:
	case 1:
		text += ", and 1 more cause"
	default:
		text += fmt.Sprintf(", and %d more causes", n)
	}
	return text
}

// ask asks one host. If the host refuses, it repeats the request until the time repeat.
func (a *attempt) ask(h *host, repeat time.Time) {
	for {
		refusals := a.askOnce(h)
		if len(refusals) == 0 {
			return
		}
		if a.rt.Now().Before(repeat) && slices.ContainsFunc(refusals, passes) {
			if a.rt.Sleep(a.ctx, 100*time.Millisecond) != nil {
				return
			}
			continue
		}
		a.lock()
		h.state = hostRefused
		for _, r := range refusals {
			if a.o.Defect == mutate.LaunchRefusalForgotten {
				break
			}
			a.refusals = append(a.refusals, HostRefusal{Host: h.Name, Refusal: r})
		}
		a.unlock()
		return
	}
}

// passes reports whether a refusal may go away when the ranks of an earlier attempt have ended.
func passes(r ctl.Refusal) bool { return r.What == ctl.RefusedSlots || r.What == ctl.RefusedHost }

// askOnce asks one host. Without a refusal the host is ready, and its keeper is known.
func (a *attempt) askOnce(h *host) []ctl.Refusal {
	ask := a.o.reserve(a.number, h.index, a.p.Address())
	var reply *ctl.JobReply
	err := within(a.ctx, a.rt, ReserveWithin, func(ctx context.Context) (err error) {
		reply, err = a.desk.Reserve(ctx, h.NIC, ask)
		return err
	})
	switch {
	case err != nil:
		return []ctl.Refusal{unanswered(err)}
	case reply == nil:
		return []ctl.Refusal{unanswered(errors.New("no answer"))}
	case len(reply.Refusals) > 0:
		return reply.Refusals
	case !reply.Ready:
		return []ctl.Refusal{{What: ctl.RefusedHost, Text: "its daemon answered neither ready nor a refusal",
			Cure: "run the same release of Weft there"}}
	}
	return a.meet(h, KeeperName(ask), reply.Keeper)
}

// unanswered returns the refusal for a host that gave no answer.
func unanswered(err error) ctl.Refusal {
	r := ctl.Refusal{What: ctl.RefusedHost, Text: err.Error(), Cure: "look whether the host is up: weft nodes"}
	if errors.Is(err, context.DeadlineExceeded) {
		r.Text = fmt.Sprintf("no answer within %v", ReserveWithin)
	}
	return r
}

// meet finds the address of a keeper. The keeper is the process with its name on the NIC of its
// host: no other host can replace it. The host's answer contains the address, so the launcher
// need not wait until the name has reached its NIC.
func (a *attempt) meet(h *host, name weft.Name, told *ctl.Address) []ctl.Refusal {
	if told != nil {
		return a.met(h, name, weft.Address{NIC: weft.NICID(told.NIC), Slot: told.Slot, Generation: told.Generation})
	}
	var at weft.Address
	err := within(a.ctx, a.rt, Patience, func(ctx context.Context) (err error) {
		at, err = a.p.WaitName(ctx, name)
		return err
	})
	if err != nil {
		return []ctl.Refusal{unanswered(fmt.Errorf("its keeper %v cannot be found: %w", name, err))}
	}
	return a.met(h, name, at)
}

// met notes the address of a keeper, and begins to send to it.
func (a *attempt) met(h *host, name weft.Name, at weft.Address) []ctl.Refusal {
	if at.NIC != h.NIC {
		return []ctl.Refusal{{What: ctl.RefusedHost,
			Text: fmt.Sprintf("the name of its keeper, %v, belongs to a process on NIC %v", name, at.NIC),
			Cure: "look at that process with weft ps, and start the job again"}}
	}
	a.lock()
	defer a.unlock()
	h.keeper, h.state, h.sends, h.heard = at, hostReady, true, a.rt.Now()
	a.at[at] = h
	if a.ending {
		h.post(endMsg{})
	}
	a.rt.Go(func() { a.send(h) })
	return nil
}

// stage brings staged content to every host, and waits until each has it. Serve goes on for
// keepers that serve the content to others.
func (a *attempt) stage() {
	if a.o.Stage == nil || a.over() {
		return
	}
	manifest := a.o.Stage.Manifest(a.number)
	a.rt.Go(func() {
		if err := a.o.Stage.Serve(a.ctx, a.p, a.number); err != nil && a.ctx.Err() == nil {
			a.launcher.stop(&ending{status: StatusFailed, cause: fmt.Sprintf("staging: %v", err)})
		}
	})
	a.lock()
	for _, h := range a.hosts {
		h.post(stageMsg{len(a.hosts), manifest})
	}
	a.unlock()
	a.until(func() bool { return a.all(func(h *host) bool { return h.staged || h.done() }) })
	a.lock()
	defer a.unlock()
	if len(a.refusals) > 0 {
		a.fail(failure{status: StatusRefused, cause: refusalCause(a.refusals)})
		a.end(0)
	}
}

// start begins the second phase, if every host is ready.
func (a *attempt) start() {
	if a.over() {
		return
	}
	a.lock()
	readers, _ := a.o.readers()
	if a.ending || a.o.Defect != mutate.LaunchUnready && !a.all(func(h *host) bool { return h.state == hostReady }) {
		a.unlock()
		return
	}
	a.begun = true
	for _, h := range a.hosts {
		for _, piece := range a.o.start(a.number, h.Host, readers).pieces() {
			h.post(piece)
		}
		h.state = hostStarted
	}
	a.unlock()
	a.until(func() bool { return a.all(func(h *host) bool { return h.taken || h.done() }) })
	if !a.over() {
		a.note(Note{Kind: NoteStarted})
	}
}
