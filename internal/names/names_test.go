package names

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// found checks that every NIC finds a name at an address.
func (f *fabric) found(name vni.Name, at vni.Address) {
	f.t.Helper()
	for _, n := range f.nics {
		if a, ok := n.Lookup(name); !ok || a != at {
			f.t.Errorf("NIC %d finds %v at %v, %v; want %v", n.id, name, a, ok, at)
		}
	}
}

// unknown checks that no NIC finds a name, or keeps a claim to it.
func (f *fabric) unknown(name vni.Name) {
	f.t.Helper()
	for _, n := range f.nics {
		if a, ok := n.Lookup(name); ok || n.undecided(name) {
			f.t.Errorf("NIC %d finds %v at %v, %v; claims are open: %v", n.id, name, a, ok, n.undecided(name))
		}
	}
}

func TestOfTwoClaimsAtOnceTheHomeConfirmsOne(t *testing.T) { // decision 15
	for home := range 3 {
		f := newFabric(t, 3)
		name := f.nics[home].homed()
		p, q := f.nics[0].claim(1, name), f.nics[1].claim(1, name)
		f.until("both claims end", func() bool { return p.over() && q.over() })
		if p.held == q.held || !errors.Is(errors.Join(p.why, q.why), ErrTaken) {
			t.Fatalf("home %d: held %v and %v; refused with %v and %v", home+1, p.held, q.held, p.why, q.why)
		}
		if q.held {
			p = q
		}
		f.run(time.Millisecond)
		f.found(name, p.at)
	}
}

// The home keeps what it has confirmed until it hears the outcome.
func TestAClaimThatIsGivenUpFreesTheName(t *testing.T) {
	f := newFabric(t, 3)
	a, b, home := f.nics[0], f.nics[1], f.nics[2]
	name := home.homed()
	a.keep = func(_ *Peer, op byte) bool { return op != wire.TableAnswer }
	p := a.claim(1, name)
	f.until("the home has granted it", func() bool { return len(a.kept) == 1 })
	a.End(p.at)
	f.run(time.Millisecond)
	f.unknown(name)
	a.release(false) // too late
	if _, ok := a.Lookup(name); ok || p.held {
		t.Error("the answer to a claim that was given up was taken")
	}
	q := b.claim(1, name)
	f.until("the next claim ends", q.over)
	if !q.held {
		t.Errorf("it is refused: %v", q.why)
	}
}

func TestAnAnswerCountsOnlyIfItIsTheHomes(t *testing.T) {
	f := newFabric(t, 3)
	a, home := f.nics[0], f.nics[2]
	name := home.homed()
	a.keep = func(*Peer, byte) bool { return false }
	p := a.claim(1, name)
	f.until("the home has granted it", func() bool { return len(a.kept) == 1 })
	answer := []byte{wire.TableAnswer, askGranted, 1, 0, 1, 23: 0}
	for _, granted := range []byte{0, askGranted} {
		answer[1] = granted
		if !a.Take(a.Peer(2), answer) || p.over() {
			t.Fatalf("answer %d of a NIC that is not the home was taken", granted)
		}
	}
	a.release(false)
	if !p.held {
		t.Error("the answer of the home was not taken")
	}
	answer[1] = 0
	if a.Take(a.Peer(3), answer); p.why != nil {
		t.Errorf("a late refusal was taken: %v", p.why)
	}
	f.run(time.Millisecond)
	f.found(name, p.at)
}

// A NIC that comes may be the new home of a name. A claim that the first home has not answered asks
// it.
func TestAClaimAsksANewHome(t *testing.T) {
	f := newFabric(t, 2)
	p := f.nics[0].claim(1, homedInTurn(3, 2, 1))
	f.nics[1].keep = func(_ *Peer, op byte) bool { return op != wire.TableAsk }
	f.until("the first home is asked", func() bool { return len(f.nics[1].kept) > 0 })
	f.add(3)
	f.until("the claim ends", p.over)
	if n := f.nics[0].cfg.Counts[vni.NICNamesUnconfirmed]; !p.held || n != 0 {
		t.Errorf("the claim holds: %v (%v); %d claims hold without a home's answer", p.held, p.why, n)
	}
}

// If its home is gone before it has answered, a claim asks the next home. When the first is back,
// its answer is late.
func TestAClaimAsksTheNextHomeIfTheFirstIsLost(t *testing.T) {
	f := newFabric(t, 3)
	a, home := f.nics[0], f.nics[2]
	name := home.homed()
	f.nics = f.nics[:2]
	p := a.claim(1, name)
	f.until("the claim ends", p.over)
	if !p.held || a.Peer(3).Up() {
		t.Errorf("held %v, refused with %v; the dead home seems to be up: %v", p.held, p.why, a.Peer(3).Up())
	}
	f.run(time.Millisecond)
	f.found(name, p.at)
}

func TestANICConfirmsNothingBeforeItHasTheTablesOfAllOthers(t *testing.T) {
	f := newFabric(t, 3)
	a, b := f.nics[0], f.nics[1]
	held := make(map[vni.Name]*proc)
	for i := range uint16(40) {
		name := vni.Name{Index: uint32(i)}
		copy(name.App[:], "app")
		held[name] = a.claim(i+1, name)
	}
	f.run(10 * time.Millisecond)
	late := f.add(4)
	late.keep = func(from *Peer, _ byte) bool { return from.NIC() != 1 } // a's table is late
	f.until("it is up", func() bool { return b.Peer(4) != nil && b.Peer(4).synced && len(late.kept) > 0 })
	refused := 0
	for i := range uint16(40) {
		name := vni.Name{Index: uint32(i)}
		copy(name.App[:], "app")
		p := late.claim(i+1, name)
		if p.held {
			t.Fatalf("NIC 4 takes %v, which it cannot know to be free", name)
		}
	}
	f.run(10 * time.Millisecond)
	late.release(false)
	f.until("the claims end", func() bool {
		refused = 0
		for _, p := range late.procs {
			if p.held {
				t.Fatalf("%v has two owners", p.name)
			}
			if p.why != nil {
				refused++
			}
		}
		return refused == len(late.procs)
	})
	for name, p := range held {
		f.found(name, p.at)
	}
}

func TestTheEndOfAProcessMayOvertakeItsClaim(t *testing.T) { // QNIX-53, QNIX-A10
	f := newFabric(t, 2)
	a, b := f.nics[0], f.nics[1]
	name := a.homed()
	b.keep = func(*Peer, byte) bool { return false }
	p := a.claim(1, name)
	a.End(p.at)
	f.until("both records are there", func() bool { return len(b.kept) == 2 })
	b.release(true)
	f.unknown(name)
	if len(b.gone) != 1 || b.gone[0] != p.at {
		t.Errorf("NIC 2 says that %v have ended", b.gone)
	}
	f.run(limits.NameKeep + time.Second)
	if all, open := b.Len(); all+open > 0 {
		t.Errorf("NIC 2 keeps %d names, %d open claims", all, open)
	}
}

func TestATableIsCompleteWhenAllOfItHasCome(t *testing.T) {
	f := newFabric(t, 2)
	a := f.nics[0]
	for i := range uint16(3) {
		name := a.homed()
		name.Index += uint32(i)
		a.claim(i+1, name)
	}
	f.run(10 * time.Millisecond)
	late := f.add(3)
	late.keep = func(_ *Peer, op byte) bool { return op != wire.TableClaim }
	f.until("all but the claims has come", func() bool { return late.Peer(1) != nil && late.Peer(1).firstDue > 0 })
	p := late.Peer(1)
	for len(late.kept) > 0 {
		if p.told {
			t.Fatalf("the table is thought complete, %d claims before it is", len(late.kept))
		}
		last := late.kept[0]
		late.kept = late.kept[1:]
		last()
	}
	if !p.told || !p.synced {
		t.Errorf("all has come: complete %v, and what was promised %v", p.told, p.synced)
	}
}

// While the home judges a claim of a NIC, the NIC may hear of another claim whose process has
// already ended. That news does not end what the home grants. The claim waits until the other's
// end has arrived.
func TestAClaimThatTheHomeJudgesDoesNotEndByWhatOthersTell(t *testing.T) { // decision 15
	f := newFabric(t, 3)
	a := f.nics[0]
	name := f.nics[2].homed()
	p := a.claim(1, name)
	other := make([]byte, claimLen)
	other[0], other[2], other[4] = wire.TableClaim, 9, 1
	le.PutUint32(other[16:], name.Index)
	copy(other[20:], name.App[:])
	if !a.Take(a.Peer(2), other) {
		t.Fatal("the claim is no record of names")
	}
	f.run(time.Millisecond)
	if p.over() {
		t.Fatalf("it has ended though the other's end has not come: %v", p.why)
	}
	if other[0] = wire.TableEnd; !a.Take(a.Peer(2), other) {
		t.Fatal("the end is no record of names")
	}
	f.until("the claim ends", p.over)
	if p.why != nil {
		t.Errorf("it was refused: %v", p.why)
	}
	f.found(name, p.at)
}
