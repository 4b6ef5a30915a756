package sim

import (
	"math/rand/v2"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/vni"
)

// straight is the straight way of a process into its NIC: they share an address space, and the simulator runs one thing at
// a time. Now and then it refuses, as it does in a program where somebody else has the engine just then, so that
// commands and calls mix in every order.
type straight struct {
	p      *Process
	engine *nic.Engine
	way    *nic.Straight
	rng    *rand.Rand
	hold   bool // the Send that is open may wait
}

// straightIn is one in how many calls that find the engine in use.
const straightIn = 4

// newStraight finds the straight way of a process that its NIC has taken in; nil if there is none.
func newStraight(p *Process) vni.Straight {
	if !p.seg.Direct() {
		return nil
	}
	way := p.host.engine.Straight(p.slot, p.gen, func() clock.Time { return p.f.s.now })
	if way == nil {
		return nil
	}
	return &straight{p: p, engine: p.host.engine, way: way, rng: stream(p.f.cfg.Seed, 1<<32+uint64(p.pid))}
}

// mine reports whether the process's NIC lives and is at work.
func (s *straight) mine() bool {
	n := s.p.host
	return n.engine == s.engine && !s.p.gone && !s.p.over && n.stalled <= n.f.s.now
}

func (s *straight) free() bool { return s.mine() && s.rng.IntN(straightIn) > 0 }

func (s *straight) Post(to *vni.Name, tag uint64, payload []byte) bool {
	if !s.free() {
		return false
	}
	next, sent := s.way.Post(to, tag, payload)
	s.p.host.schedule(next)
	return sent
}

func (s *straight) Meet(from *vni.Name, tag uint64, anyTag bool, buf []byte) vni.Met {
	if !s.free() || !s.way.Expect(from, tag, anyTag) {
		return vni.Met{}
	}
	m := s.way.Meet(s.p.f.s.now, buf)
	s.p.host.schedule(s.way.Due())
	return m
}

func (s *straight) Send(m vni.StraightSend) []byte {
	if !s.free() {
		return nil
	}
	m.Hold = m.Hold && s.rng.IntN(2) > 0 // what may wait need not: most that is sent here may
	s.hold = m.Hold
	return s.way.Send(&m)
}

func (s *straight) Sent() {
	n := s.p.host
	if s.hold && !s.way.Hold() {
		n.soon(noticeTime)
		return
	}
	n.schedule(s.way.Sent())
}

func (s *straight) SendMany(m vni.StraightSend, messages [][]byte) (sent int) {
	if !s.free() {
		return 0
	}
	m.Hold = true
	held := false
	for sent < len(messages) {
		if k := s.way.SendFrame(&m, messages[sent:]); k > 0 {
			sent += k
			continue
		}
		if k, _ := s.way.SendSegment(&m, messages[sent:]); k > 0 {
			sent += k
			held = true
			continue
		}
		m.Len = len(messages[sent])
		b := s.way.Send(&m)
		if b == nil {
			break
		}
		copy(b, messages[sent])
		sent++
		held = true
		s.way.Hold()
	}
	if held {
		s.p.host.schedule(s.way.Sent())
	}
	return sent
}

func (s *straight) Receive(r *vni.StraightReceive) bool {
	if !s.free() {
		return false
	}
	next, ok := s.way.Receive(r)
	s.p.host.schedule(next)
	return ok
}

func (s *straight) Cancel(r *vni.StraightReceive) {
	if n := s.p.host; n.engine == s.engine {
		s.way.Cancel(n.f.s.now, r)
		n.soon(noticeTime)
	}
}

func (s *straight) Swap(r *vni.StraightReceive, empty *vni.Batch) *vni.Batch {
	if s.p.host.engine != s.engine {
		return nil
	}
	return s.way.Swap(r, empty)
}

func (s *straight) Return(r *vni.StraightReceive, first int, batches ...*vni.Batch) {
	if n := s.p.host; n.engine == s.engine {
		s.way.Return(n.f.s.now, r, first, batches...)
		n.soon(noticeTime)
	}
}

func (s *straight) Close() {
	if n := s.p.host; n.engine == s.engine {
		s.way.Close(n.f.s.now)
		n.soon(noticeTime)
	}
}

func (s *straight) Idle() bool { return s.way.Idle() }
