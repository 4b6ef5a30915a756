package nic

import (
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The index finds what a search from the oldest message on finds, whatever messages come and go
// (QNIX-48: first come, first served).
func TestTheIndexOfUnexpectedMessagesFindsWhatASearchFinds(t *testing.T) {
	w := newFabric(t, 1, fault.Config{})
	p := w.process(0, "a/0").e.procs.at(1)
	rng := rand.New(rand.NewPCG(1, 2))
	e := w.engines[0]
	var sources []*source
	for i := range 4 {
		src := &source{key: sourceKey{slot: uint16(i + 2), gen: 1}, p: p, nic: e.cfg.ID}
		src.name, _ = vni.MakeName("s", uint32(i/2)) // two lives of one name
		p.sources[src.key] = src
		sources = append(sources, src)
	}
	s := &p.stray
	most, indexed := 0, 0
	port := func() uint64 { return rng.Uint64N(3) << vni.PortShift }
	for step := range 40_000 {
		if grows := step/4000%2 == 0; rng.IntN(10) < 5 == grows || rng.IntN(3) > 0 && grows {
			env := wire.Envelope{Tag: rng.Uint64N(200) | port()}
			s.add(e.newInbound(sources[rng.IntN(4)], &env, inboundStaged, 0))
		}
		r := &receive{p: p, tags: vni.TagsOf(rng.Uint64N(200)|port(), rng.IntN(4) == 0)}
		switch rng.IntN(3) {
		case 0:
			r.sender = sources[rng.IntN(4)].name
		case 1:
			of := sources[rng.IntN(4)]
			r.exact, r.from = true, vni.Address{NIC: of.nic, Slot: of.key.slot, Gen: of.key.gen}
		}
		var want *inbound
		for n := s.head; n != nil && want == nil; n = n.next {
			if r.wants(n.v.src, &n.v.env) {
				want = n.v
			}
		}
		got := s.find(e, r)
		if got != want {
			t.Fatalf("step %d: of %d messages, found %p; a search finds %p", step, s.n, got, want)
		}
		if got != nil && rng.IntN(4) > 0 {
			e.freeInbound(got)
		}
		most = max(most, s.n)
		if s.piles != nil {
			indexed++
		}
	}
	if most <= limits.SearchedMessages || indexed == 0 {
		t.Errorf("at most %d messages, indexed at %d steps: nothing was tried", most, indexed)
	}
	for s.n > 0 {
		e.freeInbound(s.front())
	}
	if s.piles != nil {
		t.Errorf("%d piles are left of no message", len(s.piles))
	}
}
