package program

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A program that guards a process sees each message for it first, whichever way that comes (internal/nic/arrived.go), and ends in PASS or
// DROP. Of a message that is too long to have come whole there is no packet: PACKETLEN is 0. Whatever keeps a filter from a verdict
// drops the message: an error, and a filter that was stopped for one, or a forged message could make way for the next.

// guard is the filter that a program is.
func (t *Table) guard(id vm.ID, trigger uint32) GuardFunc {
	return func(nic uint64, payload []byte) (drop bool) {
		t.count(vni.NICProgramsFiltered)
		m := vm.Message{Program: id, Trigger: trigger, Source: nic, Payload: payload}
		l := t.loaded[id]
		if l == nil {
			return true
		}
		timed := t.timed(l)
		o := t.machine.Dispatch(&m)
		t.charge(l, o, timed)
		t.credit = max(t.credit, -limits.ProgramPoll) // it cannot be made to wait, so others must not wait for ever
		if t.cfg.Defect == mutate.FilterFailsOpen && o == vm.Aborted {
			return false
		}
		return !passes(o)
	}
}

// passes is the verdict of a filter's activation.
func passes(o vm.Outcome) bool { return o == vm.Passed || o == vm.Awaiting }
