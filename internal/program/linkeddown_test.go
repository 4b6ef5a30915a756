package program

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/pdl/prog"
)

// Messages of a session that has ended are handled before the next one begins. Their room went
// with their session: nothing is owed for them, and the next session has a whole window.
func TestMessagesHandledBetweenSessionsOweNothing(t *testing.T) {
	for _, answer := range []bool{false, true} {
		f, a, b := newOpen(t)
		b.idle = true
		for range limits.ProgramWindow / cost(prog.MaxMessage) {
			a.post(a.toProcess(1), prog.MaxMessage, answer)
		}
		f.run(1e9)
		if b.Pending() == 0 {
			t.Fatal("no message has come")
		}
		f.end()
		b.idle = false
		for b.Pending() > 0 {
			b.Run(0)
		}
		if b.peer.owed != 0 || b.peer.used != 0 {
			t.Errorf("answer %v: %d bytes are owed, and %d used, of a session that has ended", answer, b.peer.owed, b.peer.used)
		}
		f.connect()
		p := a.post(a.toProcess(2), prog.MaxMessage, true)
		f.until("the message of the new session is handled", func() bool { _, told := a.told[p]; return told })
		f.run(1e8)
		f.wantNothingLeft("in the next session")
	}
}

// The numbers of messages go round. A number for which an answer is owed is left out, and so is 0.
func TestTheNumbersOfMessagesGoRound(t *testing.T) {
	f, a, b := newOpen(t)
	b.idle = true
	first := a.post(a.toProcess(1), 1, true)
	owed := a.lastID
	for _, c := range []struct{ last, want uint32 }{{owed - 1, owed + 1}, {1<<32 - 1, 1}, {1<<32 - 2, 1<<32 - 1}} {
		if c.want == owed {
			c.want++
		}
		a.lastID = c.last
		if got := a.nextID(); got != c.want {
			t.Errorf("behind number %d comes %d; expected %d", c.last, got, c.want)
		}
	}
	a.lastID = owed - 1
	second := a.post(a.toProcess(1), 2, true)
	b.idle = false
	f.until("both outcomes are told", func() bool {
		_, one := a.told[first]
		_, two := a.told[second]
		return one && two
	})
	f.wantNothingLeft("afterwards")
}
