package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/vm"
)

// observer returns the functions that record what the programs of a NIC do.
func (r *pdlRun) observer(n *pdlNIC) *program.Observer {
	return &program.Observer{
		More:    func() bool { return r.handled < r.messages },
		Handled: func(m *vm.Message, o vm.Outcome) { r.observe(n, m, o) },
		Sent: func(from vm.ID, to vm.Destination, payload []byte, taken bool) {
			n.sent = append(n.sent, sentMessage{from, to, slices.Clone(payload), taken})
		},
		Delivered: func(t vm.Transfer, data []byte) {
			n.delivered = append(n.delivered, deliveredBytes{t, slices.Clone(data)})
		},
		Displayed: func(from vm.ID, value int64) {
			n.displayed = append(n.displayed, displayedValue{from, value})
		},
	}
}

// observe prints the outcome of a message.
func (r *pdlRun) observe(n *pdlNIC, m *vm.Message, o vm.Outcome) {
	r.handled++
	r.tell(n, fmt.Sprintf("message %d to %s, %d bytes", m.Trigger, r.name(n, m.Program), len(m.Payload)), m.Program, o,
		n.before[m.Program])
}

// tell prints an activation and its effects.
func (r *pdlRun) tell(n *pdlNIC, what string, id vm.ID, o vm.Outcome, before uint64) {
	now := n.instructions(id)
	n.before[id] = now
	fmt.Fprintf(r.out, "%s: %v", what, o)
	if now > before {
		fmt.Fprintf(r.out, ", %d instructions", now-before)
	}
	if o == vm.Aborted {
		r.aborted++
		info, _ := n.programs.Info(id)
		fmt.Fprintf(r.out, ": %v in line %d", info.LastAbort, info.Profile.LastLine)
	}
	fmt.Fprintln(r.out)
	r.effects(n)
}

// effects prints what the programs of a NIC have done since the last call.
func (r *pdlRun) effects(n *pdlNIC) {
	for _, d := range n.displayed {
		fmt.Fprintf(r.out, "  %s displays %d\n", r.name(n, d.program), d.value)
	}
	for _, s := range n.sent {
		fmt.Fprintf(r.out, "  %s sends %s as %d to %d%s\n",
			r.name(n, s.from), hexText(s.payload), s.to.Trigger, s.to.Program, r.sentText(&s))
	}
	for _, d := range n.delivered {
		fmt.Fprintf(r.out, "  %s delivers %s to byte %d of segment %d\n",
			r.name(n, d.Program), hexText(d.data), d.Offset, d.Segment)
	}
	n.displayed, n.sent, n.delivered = n.displayed[:0], n.sent[:0], n.delivered[:0]
	if set := n.setFlags(); len(set) > 0 && fmt.Sprint(set) != n.flags {
		n.flags = fmt.Sprint(set)
		at := ""
		if len(r.nics) > 1 {
			at = " at " + registry.NICID(n.id).String()
		}
		fmt.Fprintf(r.out, "  flags that are set%s: %s\n", at, strings.Trim(n.flags, "[]"))
	}
}

// sentText names the NIC that a message is for. If the NIC of the sender refused the message, it
// adds why.
func (r *pdlRun) sentText(s *sentMessage) (text string) {
	if s.to.NIC != 0 {
		text = " at " + registry.NICID(s.to.NIC).String()
	}
	switch {
	case s.taken:
		return text
	case s.to.NIC != 0 && r.at(s.to.NIC) == nil:
		return text + ", which its NIC refuses: there is no such NIC"
	}
	return text + ", which its NIC refuses"
}

// hexText formats the first 32 bytes of b.
func hexText(b []byte) string {
	const most = 32
	more := ""
	if len(b) > most {
		more = "…"
	}
	return fmt.Sprintf("%d bytes %x%s", len(b), b[:min(len(b), most)], more)
}

// profile prints the cost of each program.
func (r *pdlRun) profile() {
	for _, n := range r.nics {
		r.effects(n)
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPROGRAM\tACTIVATIONS\tINSTRUCTIONS\tREFUSED\tABORTED\tSTATE")
	for _, n := range r.nics {
		for _, info := range n.programs.List() {
			p := &info.Profile
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n",
				r.name(n, info.ID), p.Activations, p.Instructions, p.Refused, p.Aborted(), info.State())
		}
	}
	w.Flush()
}
