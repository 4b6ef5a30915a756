package main

import (
	"slices"
	"syscall"
	"testing"

	"github.com/weftnet/weft/internal/launch"
)

// signals holds the signals that a relay has sent to the ranks.
type signals struct{ sent []syscall.Signal }

func (s *signals) Signal(n syscall.Signal) { s.sent = append(s.sent, n) }
func (s *signals) End(int, string)         {}

func TestWeftRunStopsAfterTheRanksOfARestartedJob(t *testing.T) {
	var to signals
	r := newRelay(&to, 2)
	for rank := range 2 {
		r.noted(launch.Note{Kind: launch.NoteRank, Rank: rank})
	}
	r.noted(launch.Note{Kind: launch.NoteRestart})
	if n := r.running(); n != 2 {
		t.Fatalf("%d ranks run after the restart; expected 2", n)
	}
	stopped := false
	r.stop = func() {
		stopped = true
		if n := r.running(); n != 0 {
			t.Errorf("weft run stops while %d ranks run", n)
		}
	}
	r.noted(launch.Note{Kind: launch.NoteStopped, Rank: 0})
	r.noted(launch.Note{Kind: launch.NoteStopped, Rank: 1})
	r.take(syscall.SIGTSTP)
	if !stopped || !slices.Equal(to.sent, []syscall.Signal{syscall.SIGTSTP}) {
		t.Errorf("stopped %v after the signals %v", stopped, to.sent)
	}
}
