package program

import (
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A program that guards a process sees each message for the process first, on every path
// (internal/nic/arrived.go), and ends in PASS or DROP. If a message is too long to have arrived
// whole, there is no packet: PACKETLEN is 0. If anything keeps a filter from a verdict, the
// message is dropped. That includes an error, and a filter that was stopped for one. Otherwise a
// forged message could make way for the next.
//
// A process has one guard. With a second, the first would judge nothing, so the second is
// refused. This also holds while a guard is prepared, or has been replaced and may come back. The
// replacement of a guard guards as well.

// mayGuard refuses a program for a process that another program guards. If a program replaces a
// guard and names no process, it gets the guard's process and trigger. A process loses its guard
// by an unload, not as a side effect.
func (t *Table) mayGuard(s *Spec, old *loaded) error {
	if old != nil {
		if err := t.mayEnd(&old.spec, s.Owner, s.GuardAny); err != nil {
			return err
		}
	}
	if s.Guards.IsZero() && old != nil && !old.spec.Guards.IsZero() {
		s.Guards, s.Trigger = old.spec.Guards, old.spec.Trigger
		s.Outgoing = old.spec.Outgoing
		if _, ok := s.Module.Find(s.Trigger); !ok {
			return fmt.Errorf("it replaces the guard of %v, and has no trigger %d to see messages by",
				s.Guards, s.Trigger)
		}
	}
	if s.Guards.IsZero() || t.cfg.Defect == mutate.GuardForgotten {
		return nil
	}
	if err := t.mayJudge(s); err != nil {
		return err
	}
	if !s.Outgoing && s.Module.Delays() {
		return fmt.Errorf(
			"%w: it delays messages (PASS AFTER), and is to guard messages to %v; "+
				"expected a guard of outgoing messages",
			ErrDelays, s.Guards)
	}
	return t.unguarded(s, old)
}

// unguarded refuses a guard for a place that another program has, or will have.
func (t *Table) unguarded(s *Spec, old *loaded) error {
	refuse := func(id vm.ID, by *Spec) error {
		return fmt.Errorf("%w: program %d (%s) guards %v; unload or replace that",
			ErrGuarded, id, by.Module.Name, s.gate())
	}
	if by := t.loaded[t.guards[s.gate()]]; by != nil && by != old {
		return refuse(by.id, &by.spec)
	}
	for _, p := range t.prepared {
		switch {
		case p.live == nil && p.spec.gate() == s.gate():
			return refuse(p.spec.ID, &p.spec)
		case t.inPlace(p) && p.replaced != nil && p.replaced.spec.gate() == s.gate():
			return refuse(p.replaced.id, &p.replaced.spec)
		}
	}
	return nil
}

// A gate is the place of a guard: before a process, or on its way out.
type gate struct {
	process  vni.Name
	outgoing bool
}

// String names the gate in errors.
func (g gate) String() string {
	if g.outgoing {
		return "outgoing messages of " + g.process.String()
	}
	return g.process.String()
}

// gate returns the place where a program is to guard; zero: nowhere.
func (s *Spec) gate() gate { return gate{s.Guards, s.Outgoing && !s.Guards.IsZero()} }

// setGuard installs a program as the judge of the messages at its gate, if it guards one.
func (t *Table) setGuard(l *loaded) {
	if l.spec.Guards.IsZero() {
		return
	}
	t.guards[l.spec.gate()] = l.id
	if l.spec.Outgoing {
		t.nic.GuardOutgoing(l.spec.Guards, t.outgoingGuard(l.id, l.spec.Trigger), l.spec.whose())
		return
	}
	t.nic.Guard(l.spec.Guards, t.guard(l.id, l.spec.Trigger), l.spec.whose())
}

// unguard ends that, if no other program guards the gate.
func (t *Table) unguard(l *loaded) {
	if t.guards[l.spec.gate()] != l.id {
		return
	}
	delete(t.guards, l.spec.gate())
	if l.spec.Outgoing {
		t.nic.GuardOutgoing(l.spec.Guards, nil, Whose{})
		return
	}
	t.nic.Guard(l.spec.Guards, nil, Whose{})
}

// auditGuards returns an error if a program is listed as a guard and judges nothing, or judges
// and is not listed.
func (t *Table) auditGuards() error {
	n := 0
	for _, id := range t.ids() {
		l := t.loaded[id]
		if l.spec.Guards.IsZero() {
			continue
		}
		if n++; t.guards[l.spec.gate()] != id {
			return fmt.Errorf("programs: %d is to guard %v, and program %d judges there",
				id, l.spec.gate(), t.guards[l.spec.gate()])
		}
	}
	if n != len(t.guards) {
		return fmt.Errorf("programs: %d guard processes, and messages for %d processes are judged", n, len(t.guards))
	}
	return nil
}

// guard returns the filter function of a program.
func (t *Table) guard(id vm.ID, trigger uint32) GuardFunc {
	return func(nic uint64, payload []byte) (drop bool) {
		t.count(vni.NICProgramsFiltered)
		m := vm.Message{Program: id, Trigger: trigger, Source: nic, Payload: payload}
		l := t.loaded[id]
		if l == nil {
			return true
		}
		o := t.judge(l, &m)
		if passes(o) || t.cfg.Defect == mutate.FilterFailsOpen && o == vm.Aborted {
			return false
		}
		l.dropped++
		return true
	}
}

// judge activates a guard for a message, which cannot wait until the needed credit is there.
func (t *Table) judge(l *loaded, m *vm.Message) vm.Outcome {
	timed := t.timed(l)
	o := t.machine.Dispatch(m)
	t.charge(l, o, timed)
	t.credit = max(t.credit, -limits.ProgramPoll) // or others would wait forever
	return o
}

// passes returns the verdict of a filter's activation.
func passes(o vm.Outcome) bool { return o == vm.Passed || o == vm.Awaiting }
