package sim

import (
	"math/rand/v2"

	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/vni"
)

// straight is the straight way of a process into its NIC, by calls instead of commands. It refuses
// some calls, as a real one does while another caller holds the engine. So commands and calls mix
// in every order.
type straight struct {
	*nic.Direct
	turns  *turns
	rng    *rand.Rand
	refuse int // it refuses a call with probability 1/refuse
}

// newStraight returns the straight way of a registered process, or nil if it has none.
func newStraight(p *Process) vni.Straight {
	if !p.seg.Direct() {
		return nil
	}
	way := p.host.engine.Straight(p.slot, p.gen, p.f.s.clock)
	if way == nil {
		return nil
	}
	rng := stream(p.f.cfg.Seed, 1<<32+uint64(p.pid))
	t := &turns{p: p, engine: p.host.engine, rng: rng}
	return &straight{Direct: nic.NewDirect(way, t), turns: t, rng: rng, refuse: []int{2, 4, 64}[rng.IntN(3)]}
}

func (s *straight) refused() bool { return s.turns.stalled() || s.rng.IntN(s.refuse) == 0 }

func (s *straight) Post(to *vni.Name, tag uint64, payload []byte) bool {
	return !s.refused() && s.Direct.Post(to, tag, payload)
}

func (s *straight) Meet(from *vni.Name, tag uint64, anyTag bool, buf []byte) vni.Met {
	if s.refused() {
		return vni.Met{}
	}
	return s.Direct.Meet(from, tag, anyTag, buf)
}

func (s *straight) Send(m vni.StraightSend) []byte {
	if s.refused() {
		return nil
	}
	// A message that may wait is sent at once in half of the cases.
	m.Hold = m.Hold && s.rng.IntN(2) > 0
	return s.Direct.Send(m)
}

func (s *straight) Datagram(m vni.StraightSend, parts [][]byte) bool {
	if s.refused() {
		return false
	}
	m.Hold = m.Hold && s.rng.IntN(2) > 0
	return s.Direct.Datagram(m, parts)
}

func (s *straight) Flush() {
	if !s.turns.stalled() { // the frames are sent when the host continues
		s.Direct.Flush()
	}
}

func (s *straight) SendMany(m vni.StraightSend, messages [][]byte) (sent int) {
	if s.refused() {
		return 0
	}
	return s.Direct.SendMany(m, messages)
}

func (s *straight) Receive(r *vni.StraightReceive) bool {
	return !s.refused() && s.Direct.Receive(r)
}
