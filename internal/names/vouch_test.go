package names

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// downTimes are the times for which a killed program is down before its restart.
var downTimes = []time.Duration{10 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second,
	4 * time.Second, 6 * time.Second}

// killed makes a fabric of three NICs and a name of NIC 3 whose home is NIC home, and kills NIC
// 3.
func killed(t *testing.T, home int) (f *fabric, dead *node, name vni.Name) {
	f = newFabric(t, 3)
	name = f.nics[home].homed()
	p := f.nics[2].claim(1, name)
	f.until("the name is held", func() bool { return p.held })
	f.run(5 * time.Second) // nothing makes the others probe NIC 3
	dead = f.nics[2]
	f.kill(dead)
	return f, dead, name
}

func TestANICThatIsKilledAndStartedAtItsAddressHasItsNameAtOnce(t *testing.T) {
	for _, down := range downTimes {
		for home := range 3 {
			f, dead, name := killed(t, home)
			f.run(down)
			next := f.addAt(9, dead.port)
			started := f.now
			p := next.claim(1, name)
			f.until("the claim ends", p.over)
			if took := f.now.Sub(started); !p.held || took > 2*limits.GatherWithin {
				t.Errorf("home %d, started %v later: held %v after %v, error %v", home+1, down, p.held, took, p.why)
			}
			f.run(5 * time.Second)
			f.found(name, p.at)
		}
	}
}

func TestANICThatIsKilledAndStartedElsewhereHasItsNameWhenTheOldOneIsGivenUp(t *testing.T) {
	for _, down := range downTimes {
		for home := range 3 {
			f, _, name := killed(t, home)
			f.run(down)
			next := f.add(9)
			started := f.now
			p := next.claim(1, name)
			f.until("the claim ends", p.over)
			if took := f.now.Sub(started); !p.held || took > limits.ConfirmWithin+limits.GatherWithin {
				t.Errorf("home %d, started %v later: held %v after %v, error %v", home+1, down, p.held, took, p.why)
			}
			f.run(5 * time.Second)
			f.found(name, p.at)
		}
	}
}

// A stranger claims the name of a live process, from its own address, however long the owner has
// been silent.
func TestNoStrangerTakesTheNameOfANICThatLives(t *testing.T) {
	for _, idle := range downTimes {
		for home := range 3 {
			f := newFabric(t, 3)
			owner := f.nics[2].claim(1, f.nics[home].homed())
			f.until("the name is held", func() bool { return owner.held })
			f.run(idle)
			thief := f.add(9)
			for slot := range uint16(3) {
				p := thief.claim(1+slot, owner.name)
				f.until("the claim ends", p.over)
				if !errors.Is(p.why, ErrTaken) {
					t.Errorf("home %d, idle for %v: claim %d: held %v, error %v", home+1, idle, slot, p.held, p.why)
				}
			}
			f.run(5 * time.Second)
			if owner.lostTo != (vni.Address{}) {
				t.Errorf("home %d, idle for %v: the owner has lost its name to %v", home+1, idle, owner.lostTo)
			}
			f.found(owner.name, owner.at)
		}
	}
}

// The owner cannot be reached for a moment, but for less time than it takes to be given up.
func TestAShortSilenceOfTheOwnerGivesItsNameToNobody(t *testing.T) {
	for _, id := range []int{0, 1} { // of the home
		f := newFabric(t, 3)
		owner := f.nics[2].claim(1, f.nics[id].homed())
		f.until("the name is held", func() bool { return owner.held })
		f.run(5 * time.Second)
		thief := f.nics[1-id]
		f.cut = func(a, _ uint64) bool { return a == 3 }
		p := thief.claim(1, owner.name)
		f.run(limits.UnreachableAfter * 3 / 4)
		if p.over() {
			t.Fatalf("home %d: the claim has ended while the owner was silent: held %v, error %v", id+1, p.held, p.why)
		}
		f.cut = nil
		f.until("the claim ends", p.over)
		if !errors.Is(p.why, ErrTaken) || owner.lostTo != (vni.Address{}) {
			t.Errorf("home %d: held %v, error %v; the owner has lost its name to %v", id+1, p.held, p.why, owner.lostTo)
		}
		f.found(owner.name, owner.at)
	}
}
