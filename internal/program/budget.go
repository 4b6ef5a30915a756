package program

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// Programs may use all the time of an otherwise idle engine, and a tenth of the time of a busy
// one (PANIC-5). The engine reads no clock, so time is counted in instructions:
//
//	a poll that has done nothing else   the credit is ProgramPoll
//	one that has                        it grows by ProgramShare for each thing, up to ProgramPoll
//	a message                           costs its instructions and ProgramDispatch; Run stops when
//	                                    no credit is left
//
// An activation is not interrupted, so the credit may fall below zero by one activation. Later
// messages then wait until it has been earned. The instructions of a filter are charged too: a
// filter cannot wait, but messages that can wait do so for longer.
//
// Three limits end a program that would not end by itself. One activation has ProgramBudget
// instructions. Messages that follow from one another within the NIC are counted, and the
// ProgramChain-th stops its sender; this also ends a program that sends to itself again and
// again. A program whose messages are refused ProgramRefusals times within ProgramFlood is
// stopped for a flood.

// Run handles messages as far as the credit allows. work is the number of other things that the
// poll has done. Run returns the number of handled messages.
func (t *Table) Run(work int) (handled int) {
	t.earn(work)
	for t.Pending() > 0 && (t.credit > 0 || t.cfg.Defect == mutate.ProgramUnmetered) && t.mayHandle() {
		t.handle(t.pop())
		handled++
	}
	if handled > 0 {
		t.unhold()
	}
	return handled
}

// earn adds to the credit what a poll with this work has earned.
func (t *Table) earn(work int) {
	if work == 0 {
		t.credit = limits.ProgramPoll
		return
	}
	t.credit = min(t.credit+work*limits.ProgramShare, limits.ProgramPoll)
}

// Credit returns how many instructions may be executed before more are earned. It is for tests.
func (t *Table) Credit() int { return t.credit }

// The first timedWhole activations of a program are timed. After those, one in timedEvery is timed
// and stands for as many: two readings of the clock take longer than many activations.
const (
	timedWhole = 64
	timedEvery = 1 << timedBits
	timedBits  = 4
)

// timing is the timing of one activation.
type timing struct {
	stands int64 // the number of activations that it represents; 0: not timed
	begun  clock.Time
}

// timed begins to time an activation of a program. The timed activations are spread, since a
// program may do something else at regular intervals and is judged by all its work. The fraction
// of a multiple of the golden ratio has no period.
func (t *Table) timed(l *loaded) (m timing) {
	l.activated++
	switch {
	case l.activated <= timedWhole:
		m.stands = 1
	case l.activated*0x9e3779b9>>(32-timedBits) == 0:
		m.stands = timedEvery
	default:
		return timing{}
	}
	m.begun = t.nic.Clock()
	return m
}

// charge accounts for a message that a program has handled: its instructions and its time. It
// stops a program that has exceeded a limit.
func (t *Table) charge(l *loaded, o vm.Outcome, m timing) {
	t.sends = 0
	t.credit -= limits.ProgramDispatch
	if o == vm.NoProgram || o == vm.NoTrigger || o == vm.Inactive || o == vm.Busy {
		return
	}
	t.credit -= t.machine.Last()
	if m.stands > 0 {
		t.machine.Charge(l.id, m.stands*int64(t.nic.Clock()-m.begun))
	}
	if l.stop != vm.None {
		t.machine.Stop(l.id, l.stop)
		l.stop = vm.None
		t.count(vni.NICProgramsStopped)
	} else if o == vm.Aborted && t.outOfBudget(l.id) {
		t.count(vni.NICProgramsStopped)
	}
}

// outOfBudget reports whether a program has been stopped because an activation has used up its
// budget.
func (t *Table) outOfBudget(id vm.ID) bool {
	info, ok := t.machine.Info(id)
	return ok && !info.Running && info.LastAbort == vm.OutOfBudget
}

// refuse notes that a message of a program could not be sent.
func (t *Table) refuse(id vm.ID) {
	l := t.loaded[id]
	if l == nil {
		return
	}
	now := t.nic.Now()
	if l.refusals == 0 || now.Sub(l.refusedSince) > limits.ProgramFlood {
		l.refusals, l.refusedSince = 0, now
	}
	if l.refusals++; l.refusals >= limits.ProgramRefusals {
		l.stop, l.refusals = vm.Flood, 0
	}
}

// follows returns how many messages of this NIC precede the next local message in its chain. If
// the chain must end, ok is false and the sending program is stopped.
func (t *Table) follows(id vm.ID) (chain int, ok bool) {
	if t.current == nil {
		return 0, true
	}
	chain = t.current.chain + 1
	if chain < limits.ProgramChain || t.cfg.Defect == mutate.ProgramChainForgotten {
		return chain, true
	}
	if l := t.loaded[id]; l != nil {
		l.stop = vm.Recursion
	}
	return 0, false
}
