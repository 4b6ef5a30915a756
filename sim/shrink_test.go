package sim_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// Two members end within 60 µs of each other. So the second one ends while the others shrink the
// group because of the first one. Every other member must come into the same group of four.
func TestSurvivorsOfADeathDuringAShrinkComeTogether(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		f := sim.New(sim.Config{Seed: seed, NICs: 3})
		s := &shrinkDeath{seed: seed}
		for i := range shrinkMembers {
			f.Process(i/2, fmt.Sprintf("m/%d", i), func(p *sim.Process) error { return s.member(p, i) })
		}
		if err := f.Run(time.Minute); err != nil {
			t.Fatalf("seed %d: %.2000v", seed, err)
		}
		if s.through != shrinkMembers-2 {
			t.Fatalf("seed %d: %d members have done their barriers; expected %d", seed, s.through, shrinkMembers-2)
		}
	}
}

const (
	shrinkMembers  = 6
	shrinkBarriers = 100 // barriers of the remaining members; after them, they are in one group
)

// shrinkDeath is one run of six members, two of which end.
type shrinkDeath struct {
	seed    uint64
	last    *weft.Group
	through int // members that have finished their barriers
}

func (s *shrinkDeath) member(p *sim.Process, i int) error {
	ctx := context.Background()
	g, err := p.Join(ctx, "m", shrinkMembers)
	if err != nil {
		return err
	}
	ended := s.end(p, i)
	for n := 0; n < shrinkBarriers; {
		err := g.Barrier(ctx)
		switch {
		case *ended:
			return nil
		case err == nil && g.Size() < shrinkMembers-2:
			return fmt.Errorf("rank %d of m is alone with %d others, in %v", i, g.Size()-1, g)
		case err == nil && g.Size() == shrinkMembers-2:
			n++
		case err != nil && !errors.Is(err, weft.ErrGroupBroken):
			return fmt.Errorf("barrier of m/%d: %w", i, err)
		case err != nil:
			n = 0
			if g, err = g.Shrink(ctx); *ended {
				return nil
			} else if err != nil {
				return fmt.Errorf("shrink of m/%d: %w", i, err)
			}
		}
	}
	if s.last != nil && s.last.Epoch() != g.Epoch() {
		return fmt.Errorf("m/%d is in %v, and another member in %v", i, g, s.last)
	}
	s.last = g
	s.through++
	return g.Close()
}

// end ends the process of each of two members after a while. It returns a flag that is set when
// it ends the process.
func (s *shrinkDeath) end(p *sim.Process, i int) *bool {
	ended := new(bool)
	first, second := int(s.seed%shrinkMembers), int((s.seed+1)%shrinkMembers)
	if i != first && i != second {
		return ended
	}
	p.Start("end", func(p *sim.Process) error {
		at := time.Millisecond
		if i == second {
			at += time.Duration(p.Rand().IntN(60_000)) * time.Nanosecond
		}
		if err := p.Runtime().Sleep(context.Background(), at); err != nil {
			return err
		}
		*ended = true
		return p.Weft().Close()
	})
	return ended
}
