package nic

import (
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft/internal/clock"
)

func TestDelayedSendsSetOffByTimeAndThenByVerdict(t *testing.T) { // PANIC-7
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		e := &Engine{}
		for range 100 {
			e.delay(&send{}, clock.Time(1+rng.IntN(20)))
		}
		q := &e.expiry.departures
		for range 30 {
			q.drop(q.delayed[rng.IntN(len(q.delayed))])
		}
		last := departure{}
		for left := 70; left > 0; left-- {
			s := q.delayed[0]
			if d := s.departs; d.at < last.at || d.at == last.at && d.sequence < last.sequence {
				t.Fatalf("seed %d: a send of time %d, verdict %d is behind one of time %d, verdict %d", seed, d.at, d.sequence, last.at, last.sequence)
			}
			last = s.departs
			if q.drop(s); s.departs.place != 0 || len(q.delayed) != left-1 {
				t.Fatalf("seed %d: %d sends are left of %d", seed, len(q.delayed), left)
			}
		}
	}
}
