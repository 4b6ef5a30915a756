package program

import (
	"testing"
	"time"

	"github.com/weftnet/weft/pdl/vm"
)

// clocked has two triggers. The second reads the clock eight times, and so advances it by eight
// steps.
const clocked = `PROGRAM clocked: VAR seen; TRIGGERS 1, 2; BEGIN END;
MESSAGE 1: BEGIN seen = 0 END;
MESSAGE 2: BEGIN
	seen = CLOCK; seen = CLOCK; seen = CLOCK; seen = CLOCK;
	seen = CLOCK; seen = CLOCK; seen = CLOCK; seen = CLOCK
END; END;`

// activate makes a program handle a message.
func (n *nicTest) activate(id, trigger uint32) {
	n.Datagram(9, datagram(id, trigger))
	n.Run(0)
}

func (n *nicTest) profile(id vm.ID) vm.Profile {
	n.t.Helper()
	info, ok := n.machine.Info(id)
	if !ok {
		n.t.Fatalf("program %d is not there", id)
	}
	return info.Profile
}

func TestAProgramsFirstActivationsAreAllTimed(t *testing.T) {
	n := newNIC(t)
	n.put(5, clocked, resident)
	n.engine.step = time.Microsecond
	for k := range int64(timedWhole - 1) { // the initialisation was one
		n.activate(5, 1)
		if got := n.profile(5).Time; got != 1000*(k+1) {
			t.Fatalf("%d activations of 1,000 ns each have taken %d", k+1, got)
		}
	}
}

// A timed activation stands for others, even if each of as many differs from the rest.
func TestTheTimeOfAProgramThatIsActivatedOftenIsThatOfAllItsActivations(t *testing.T) {
	for _, every := range []int{1, 2, timedEvery, timedEvery + 1, 3 * timedEvery} {
		n := newNIC(t)
		n.put(5, clocked, resident)
		n.engine.step = time.Nanosecond
		var took int64
		for k := range 100_000 {
			trigger := uint32(1)
			if took++; k%every == 0 {
				trigger = 2
				took += 8
			}
			n.activate(5, trigger)
		}
		if got := n.profile(5).Time; got < took*9/10 || got > took*11/10 {
			t.Errorf("with a long activation in %d: the profile says %d ns; expected %d, or nearly", every, got, took)
		}
	}
}

func TestHandlingAMessageAllocatesNothing(t *testing.T) { // decision 16
	n := newNIC(t)
	n.put(5, clocked, resident)
	message := datagram(5, 1)
	turn := func() {
		n.Datagram(9, message)
		n.Run(0)
	}
	turn()
	if got := testing.AllocsPerRun(1000, turn); got != 0 {
		t.Errorf("a message that activates a program allocates %v times", got)
	}
}
