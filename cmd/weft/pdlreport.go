package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/vm"
)

// observe prints what has become of a message. What it cost is only known of activations that have ended in it.
func (r *pdlRun) observe(m vm.Message, o vm.Outcome) {
	r.tell(fmt.Sprintf("message %d to %s, %d bytes", m.Trigger, r.name(m.Program), len(m.Payload)), m.Program, o, r.before[m.Program])
}

// tell prints an activation and what came of it.
func (r *pdlRun) tell(what string, id vm.ID, o vm.Outcome, before uint64) {
	now := r.instructions(id)
	r.before[id] = now
	fmt.Fprintf(r.out, "%s: %v", what, o)
	if now > before {
		fmt.Fprintf(r.out, ", %d instructions", now-before)
	}
	if o == vm.Aborted {
		r.aborted++
		info, _ := r.nic.Machine.Info(id)
		fmt.Fprintf(r.out, ": %v in line %d", info.LastAbort, info.Profile.LastLine)
	}
	fmt.Fprintln(r.out)
	r.effects()
}

// effects prints what programs have done since the last time.
func (r *pdlRun) effects() {
	for ; r.displayed < len(r.nic.Displayed); r.displayed++ {
		d := r.nic.Displayed[r.displayed]
		fmt.Fprintf(r.out, "  %s displays %d\n", r.name(d.Program), d.Value)
	}
	for ; r.sent < len(r.nic.Sent); r.sent++ {
		s := r.nic.Sent[r.sent]
		at := ""
		if s.To.NIC != 0 {
			at = " at " + registry.NICID(s.To.NIC).String()
		}
		fmt.Fprintf(r.out, "  %s sends %s as %d to %d%s\n", r.name(s.From), hexText(s.Payload), s.To.Trigger, s.To.Program, at)
	}
	for ; r.delivered < len(r.nic.Delivered); r.delivered++ {
		d := r.nic.Delivered[r.delivered]
		fmt.Fprintf(r.out, "  %s delivers %s to byte %d of segment %d\n", r.name(d.Program), hexText(d.Data), d.Offset, d.Segment)
	}
	if flags := fmt.Sprint(r.nic.Flags()); flags != r.flags && len(r.nic.Flags()) > 0 {
		r.flags = flags
		fmt.Fprintf(r.out, "  flags that are set: %s\n", strings.Trim(flags, "[]"))
	}
}

// hexText shows the first of some bytes.
func hexText(b []byte) string {
	const most = 32
	more := ""
	if len(b) > most {
		more = "…"
	}
	return fmt.Sprintf("%d bytes %x%s", len(b), b[:min(len(b), most)], more)
}

// profile prints what each program has cost.
func (r *pdlRun) profile() {
	r.effects()
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPROGRAM\tACTIVATIONS\tINSTRUCTIONS\tREFUSED\tABORTED\tSTATE")
	for _, id := range r.nic.Machine.IDs() {
		info, _ := r.nic.Machine.Info(id)
		state := "stopped"
		if info.Running {
			state = "running"
		}
		p := &info.Profile
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", r.name(id), p.Activations, p.Instructions, p.Refused, p.Aborted(), state)
	}
	w.Flush()
}
