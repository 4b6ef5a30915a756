package nic

import (
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/wire"
)

// Lost counts short messages whose sends have completed, but which their peer never acknowledged: the process is told how
// many there are, once, by the event that tells of the loss of the peer (decision 6).
func (h *handler) Lost(_ *rel.Endpoint, r wire.Record) {
	var env wire.Envelope
	n := 1
	switch r.Type() {
	case wire.TypeFrag:
		env = r.Frag()
	case wire.TypeRun:
		var lengths wire.Lengths
		env, lengths, _ = r.Run()
		n = lengths.Count()
	default:
		return
	}
	p := h.engine().process(env.SrcSlot)
	if p != nil && p.gen == env.SrcGen && env.Flags&wire.FlagAccept == 0 { // who waits for an Accept fails by itself
		p.lost += uint64(n)
	}
}

var _ rel.LossHandler = (*handler)(nil)

// takeLost returns that count and begins a new one.
func (p *process) takeLost() uint64 {
	n := p.lost
	p.lost = 0
	return n
}
