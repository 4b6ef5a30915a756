package nic

import (
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/wire"
)

// Lost counts a short message whose send has completed, but which its peer never acknowledged: the process is told how
// many there are, once, by the event that tells of the loss of the peer (decision 6).
func (h *handler) Lost(_ *rel.Endpoint, r wire.Record) {
	if r.Type() != wire.TypeFrag {
		return
	}
	env := r.Frag()
	p := h.engine().process(env.SrcSlot)
	if p != nil && p.gen == env.SrcGen && env.Flags&wire.FlagAccept == 0 { // who waits for an Accept fails by itself
		p.lost++
	}
}

var _ rel.LossHandler = (*handler)(nil)

// takeLost returns that count and begins a new one.
func (p *process) takeLost() uint64 {
	n := p.lost
	p.lost = 0
	return n
}
