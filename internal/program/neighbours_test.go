package program

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/vm"
)

// neighbours is an engine that knows peers, in the order of their ids. No pair with them ever
// opens.
type neighbours struct {
	*lone
	peers []*Peer
	taken int // buffers of transit memory in use
}

func (e *neighbours) Peers(yield func(*Peer) bool) {
	for _, pr := range e.peers {
		if !yield(pr) {
			return
		}
	}
}

func (e *neighbours) Peer(nic uint64) *Peer {
	for _, pr := range e.peers {
		if pr.NIC() == nic {
			return pr
		}
	}
	return nil
}

func (e *neighbours) TakeBuffer(n int) []byte { e.taken++; return make([]byte, n) }
func (e *neighbours) GiveBuffer([]byte)       { e.taken-- }

// command is a command of a process. reads counts how often its message was read.
type command struct{ reads int }

func (c *command) Read([]byte, uint64) { c.reads++ }

// newNeighbour returns a NIC that knows the NICs 8 and 9.
func newNeighbour(t *testing.T) (*nicTest, *neighbours) {
	n := newNIC(t)
	e := &neighbours{lone: n.engine}
	r := rel.New(rel.Config{NIC: ownNIC, Incarnation: 1, Secrets: secret.Seeded(1), MTU: 1472,
		UnreachableAfter: time.Second, ProbeEvery: time.Second}, struct{ rel.Handler }{})
	for _, id := range []uint64{8, 9} {
		ep, err := r.Open(id, netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:1", id)))
		if err != nil {
			t.Fatal(err)
		}
		e.peers = append(e.peers, &Peer{Endpoint: ep})
	}
	n.nic = e
	return n, e
}

// handled returns a peer's record of an outcome.
func handled(id uint32, o vm.Outcome) wire.Record {
	b := make(wire.Record, wire.HandledLen)
	(&wire.Handled{ID: id, Outcome: uint8(o)}).Put(b)
	return b
}

// unwatched checks that nothing waits for a peer any more.
func unwatched(t *testing.T, pr *Peer) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("NIC %d is still probed, though no answer is due", pr.NIC())
		}
	}()
	pr.Watch(-1) // panics if there is no watch to end
}

// A NIC can guess the number of a message that went to another NIC. Its answer is not the
// outcome.
func TestAnOutcomeCountsOnlyFromTheNICThatWasAsked(t *testing.T) {
	n, e := newNeighbour(t)
	c := &command{}
	n.Command(c, vm.Destination{NIC: 9, Program: 5, Trigger: 1}, 8, true)
	forged := n.lastID
	n.Handled(e.Peer(8), handled(forged, vm.Aborted))
	if o, told := e.told[c]; told {
		t.Fatalf("the word of NIC 8 ended a command to NIC 9, with %v", o)
	}
	n.Handled(e.Peer(9), handled(forged, vm.Stopped))
	if o := e.told[c]; o != vm.Stopped {
		t.Errorf("NIC 9 says %v, and the process is told %v", vm.Stopped, o)
	}
	n.Handled(e.Peer(9), handled(forged, vm.Aborted))
	if o := e.told[c]; o != vm.Stopped {
		t.Errorf("a second answer was taken: %v", o)
	}
}

// The memory of an abandoned command is used again: the command must not leave later, wherever it
// waits.
func TestACommandThatIsGivenUpIsNotTouchedAgain(t *testing.T) {
	for what, to := range map[string]uint64{"in the queue here": 0, "for a peer": 9} {
		n, e := newNeighbour(t)
		n.put(5, shower)
		full := limits.ProgramWaiting / cost(1024)
		if to == 0 {
			full = limits.ProgramQueue / cost(1024)
		}
		dst := vm.Destination{NIC: to, Program: 5, Trigger: 1}
		for range full {
			n.Command(&command{}, dst, 1024, false)
		}
		kept, given := &command{}, &command{}
		n.Command(given, dst, 1024, true)
		n.Command(kept, dst, 1024, false)
		if given.reads != 0 || kept.reads != 0 {
			t.Fatalf("%s: commands beyond the room are taken", what)
		}
		n.Forget(given)
		if to == 0 {
			n.run(1000)
		} else { // the pump of an open pair does the same
			pr := e.Peer(9)
			pr.waiting = 0
			n.unholdTo(pr)
		}
		_, ended := e.ended[given]
		_, told := e.told[given]
		if given.reads != 0 || ended || told {
			t.Errorf("%s: the command that was given up was read %d times, ended %v, answered %v", what, given.reads, ended, told)
		}
		if kept.reads != 1 || e.ended[kept] != vni.StatusOK {
			t.Errorf("%s: the command behind it was read %d times", what, kept.reads)
		}
	}
}

// The same holds for a command whose message has left, or waits to be handled: the message is
// handled, and no outcome is told.
func TestTheOutcomeOfACommandThatIsGivenUpIsToldToNobody(t *testing.T) {
	n, e := newNeighbour(t)
	n.put(5, shower)
	here, there := &command{}, &command{}
	n.Command(here, vm.Destination{Program: 5, Trigger: 1}, 8, true)
	n.Command(there, vm.Destination{NIC: 9, Program: 5, Trigger: 1}, 8, true)
	id := n.lastID
	n.Forget(here)
	n.Forget(there)
	n.run(2)
	n.Handled(e.Peer(9), handled(id, vm.Awaiting))
	if len(e.told) != 0 || len(n.shown(5)) != 1 {
		t.Errorf("%d outcomes are told, and the program has handled %d messages", len(e.told), len(n.shown(5)))
	}
}

// A session that ends discards everything that waits for the peer, and every command ends.
func TestTheEndOfASessionLeavesNothingForThePeer(t *testing.T) {
	n, e := newNeighbour(t)
	pr := e.Peer(9)
	dst := vm.Destination{NIC: 9, Program: 5, Trigger: 1}
	n.Command(&command{}, vm.Destination{NIC: 8, Program: 5, Trigger: 1}, 8, true)
	var all []*command
	for range 2 + limits.ProgramWaiting/cost(1024) { // the last ones are held
		c := &command{}
		all = append(all, c)
		n.Command(c, dst, 1024, true)
	}
	n.Record(pr, piece(7, 1000, 0, 1))
	if len(pr.held) == 0 || len(pr.out) == 0 || len(pr.assemblies) == 0 {
		t.Fatalf("%d commands are held, %d messages wait, %d come in pieces", len(pr.held), len(pr.out), len(pr.assemblies))
	}
	n.Down(pr, vni.StatusUnreachable)
	for i, c := range all {
		if s, ended := e.ended[c]; !ended || s != vni.StatusUnreachable {
			t.Fatalf("command %d of %d: ended %v, with %v", i+1, len(all), ended, s)
		}
	}
	if len(e.ended) != len(all) || len(n.asked) != 1 {
		t.Errorf("%d commands have ended and %d answers are due; expected %d, and 1 of NIC 8", len(e.ended), len(n.asked), len(all))
	}
	if err := pr.Leaks(); err != nil || e.taken != 1 {
		t.Errorf("%v; %d buffers are in use, expected 1 for NIC 8", err, e.taken)
	}
	unwatched(t, pr)
}
