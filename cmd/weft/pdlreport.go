package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/vm"
)

// observe prints what has become of a message. What it cost is only known of activations that have ended in it.
func (r *pdlRun) observe(n *pdlNIC, m vm.Message, o vm.Outcome) {
	r.tell(n, fmt.Sprintf("message %d to %s, %d bytes", m.Trigger, r.name(n, m.Program), len(m.Payload)), m.Program, o, n.before[m.Program])
}

// ended prints what has become of an activation that was said to be waiting.
func (r *pdlRun) ended(n *pdlNIC, id vm.ID, o vm.Outcome) {
	r.tell(n, r.name(n, id)+" has waited", id, o, n.before[id])
}

// tell prints an activation and what came of it.
func (r *pdlRun) tell(n *pdlNIC, what string, id vm.ID, o vm.Outcome, before uint64) {
	now := n.instructions(id)
	n.before[id] = now
	fmt.Fprintf(r.out, "%s: %v", what, o)
	if now > before {
		fmt.Fprintf(r.out, ", %d instructions", now-before)
	}
	if o == vm.Aborted {
		r.aborted++
		info, _ := n.Machine.Info(id)
		fmt.Fprintf(r.out, ": %v in line %d", info.LastAbort, info.Profile.LastLine)
	}
	fmt.Fprintln(r.out)
	r.effects(n)
}

// effects prints what the programs of a NIC have done since the last time.
func (r *pdlRun) effects(n *pdlNIC) {
	for ; n.displayed < len(n.Displayed); n.displayed++ {
		d := n.Displayed[n.displayed]
		fmt.Fprintf(r.out, "  %s displays %d\n", r.name(n, d.Program), d.Value)
	}
	for ; n.sent < len(n.Sent); n.sent++ {
		s := n.Sent[n.sent]
		at := ""
		if s.To.NIC != 0 {
			at = " at " + registry.NICID(s.To.NIC).String()
			if r.at(s.To.NIC) == nil {
				at += ", which is not there"
			}
		}
		fmt.Fprintf(r.out, "  %s sends %s as %d to %d%s\n", r.name(n, s.From), hexText(s.Payload), s.To.Trigger, s.To.Program, at)
	}
	for ; n.delivered < len(n.Delivered); n.delivered++ {
		d := n.Delivered[n.delivered]
		fmt.Fprintf(r.out, "  %s delivers %s to byte %d of segment %d\n", r.name(n, d.Program), hexText(d.Data), d.Offset, d.Segment)
	}
	if flags := fmt.Sprint(n.Flags()); flags != n.flags && len(n.Flags()) > 0 {
		n.flags = flags
		at := ""
		if len(r.nics) > 1 {
			at = " at " + registry.NICID(n.ID).String()
		}
		fmt.Fprintf(r.out, "  flags that are set%s: %s\n", at, strings.Trim(flags, "[]"))
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
	for _, n := range r.nics {
		r.effects(n)
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPROGRAM\tACTIVATIONS\tINSTRUCTIONS\tREFUSED\tABORTED\tSTATE")
	for _, n := range r.nics {
		for _, id := range n.Machine.IDs() {
			info, _ := n.Machine.Info(id)
			state := "stopped"
			if info.Running {
				state = "running"
			}
			p := &info.Profile
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", r.name(n, id), p.Activations, p.Instructions, p.Refused, p.Aborted(), state)
		}
	}
	w.Flush()
}
