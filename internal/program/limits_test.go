package program

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/vm"
)

// A NIC tells of its own programs. With the number of a process, it could redirect messages for a
// name to that process.
func TestNewsOfWhatCannotBeAProgramIsRefused(t *testing.T) {
	_, e, tell := newTeller(t)
	tell(5, "p", false)
	good := e.news[0]
	for what, change := range map[string]func(b []byte){
		"number 0":               func(b []byte) { b[4] = 0 },
		"a process's number":     func(b []byte) { b[7] |= 0x80 },
		"no name":                func(b []byte) { b[12] = 0 },
		"a name without an end":  func(b []byte) { b[newsLen-1] = 'x' },
		"a flag that is unknown": func(b []byte) { b[1] |= 4 },
	} {
		n := newNIC(t)
		var pr Peer
		b := append([]byte(nil), good...)
		if change(b); n.Take(&pr, b) || len(pr.programs) != 0 {
			t.Errorf("a record with %s is taken: %v", what, pr.programs)
		}
	}
	n := newNIC(t)
	var pr Peer
	if n.Take(&pr, good[:newsLen-1]) || !n.Take(&pr, good) {
		t.Error("a short record is taken, or a good one is refused")
	}
}

// A NIC has at most Programs of them, so a peer that tells of more takes no more memory.
func TestAPeerTellsOfABoundedNumberOfPrograms(t *testing.T) {
	_, e, tell := newTeller(t)
	n := newNIC(t)
	var pr Peer
	for id := range vm.ID(2*limits.Programs + 3) {
		tell(id+1, fmt.Sprint("p", id), false)
		n.Take(&pr, e.news[len(e.news)-1])
	}
	if len(pr.programs) != 2*limits.Programs || len(pr.names) != 2*limits.Programs || n.counts[vni.DropFormat] != 3 {
		t.Errorf("%d programs and %d names are kept, %d records dropped", len(pr.programs), len(pr.names), n.counts[vni.DropFormat])
	}
	tell(7, "renamed", false) // needs no room
	if n.Take(&pr, e.news[len(e.news)-1]); pr.programs[7].name != "renamed" || n.counts[vni.DropFormat] != 3 {
		t.Errorf("with all room taken, program 7 is %s; %d are dropped", pr.programs[7].name, n.counts[vni.DropFormat])
	}
}

func TestABoundedNumberOfProgramsIsPrepared(t *testing.T) {
	n := newNIC(t)
	m := module(t, shower)
	var last uint64
	for range limits.ProgramPrepared {
		key, _, err := n.Prepare(Spec{Module: m})
		if err != nil {
			t.Fatal(err)
		}
		last = key
	}
	if _, _, err := n.Prepare(Spec{Module: m}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("one preparation more than the limit: %v; expected %v", err, ErrNoRoom)
	}
	if err := n.Undo(last); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Prepare(Spec{Module: m}); err != nil {
		t.Errorf("after one was taken back: %v", err)
	}
}

func TestANICHasABoundedNumberOfSegments(t *testing.T) {
	n := newNIC(t)
	add := func(id uint32) error { return n.AddSegment(id, vni.AlignedBytes(8+SegmentTail)) }
	for id := range uint32(limits.Segments) {
		if err := add(id); err != nil {
			t.Fatal(err)
		}
		if err := add(id); !errors.Is(err, ErrSegmentBad) {
			t.Fatalf("a second segment %d: %v; expected %v", id, err, ErrSegmentBad)
		}
	}
	if err := add(limits.Segments); !errors.Is(err, ErrSegmentBad) {
		t.Errorf("one segment more than the limit: %v; expected %v", err, ErrSegmentBad)
	}
	if err := errors.Join(n.RemoveSegment(0), add(limits.Segments)); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
	if err := n.RemoveSegment(0); !errors.Is(err, ErrNoSegment) {
		t.Errorf("a second removal: %v; expected %v", err, ErrNoSegment)
	}
}

// A short command does not pass a long one that waits for room: processes rely on the order of
// their messages.
func TestCommandsThatWaitForRoomKeepTheirOrder(t *testing.T) {
	for what, to := range map[string]uint64{"in the queue here": 0, "for a peer": 9} {
		n, e := newNeighbour(t)
		n.put(5, shower)
		dst := vm.Destination{NIC: to, Program: 5, Trigger: 1}
		filled := 0
		for room := map[uint64]int{0: limits.ProgramQueue, 9: limits.ProgramWaiting}[to]; room >= cost(4096); room -= cost(4096) {
			n.Command(&command{}, dst, 4096, false)
			filled++
		}
		long, short := &command{}, &command{}
		n.Command(long, dst, 4096, false)
		if n.Command(short, dst, 0, false); short.reads != 0 {
			t.Errorf("%s: a command without bytes passes one of 4096 that waits behind %d", what, filled)
		}
		held := n.held
		if to != 0 {
			held = e.Peer(to).held
		}
		if len(held) != 2 || held[0].request != long || held[1].request != short {
			t.Errorf("%s: %d commands wait, or not in their order", what, len(held))
		}
	}
}

// A peer returns only room of its own messages, and only in the session in which they were sent.
func TestRoomIsGivenBackOnce(t *testing.T) {
	n, e := newNeighbour(t)
	pr := e.Peer(9)
	pr.inFlight = 100
	b := make(wire.Record, wire.HandledLen)
	(&wire.Handled{Bytes: 101}).Put(b)
	if n.Handled(pr, b); pr.inFlight != 100 || n.counts[vni.DropFormat] != 1 {
		t.Errorf("a peer gives back 101 of 100 bytes: %d are in flight, %d records dropped", pr.inFlight, n.counts[vni.DropFormat])
	}
	(&wire.Handled{Bytes: 100}).Put(b)
	if n.Handled(pr, b); pr.inFlight != 0 {
		t.Errorf("a peer gives back all: %d bytes are in flight", pr.inFlight)
	}
	n.put(5, shower)
	for _, session := range []uint32{pr.Session(), pr.Session() + 1} { // the second is over
		n.Record(pr, piece(1, 4, 0, 1, 2, 3, 4))
		n.queue[len(n.queue)-1].session = session
		if session != pr.Session() {
			pr.used, pr.owed = 0, 0 // as Down does
		}
		n.run(2)
		if want := map[bool]int{true: cost(4), false: 0}[session == pr.Session()]; pr.owed != want || pr.Audit() != nil {
			t.Errorf("%d bytes are owed to the peer, expected %d: %v", pr.owed, want, pr.Audit())
		}
	}
}

// A guard may be removed by its loader before the process comes, by the process's user
// afterwards, and by an admin.
func TestAGuardIsTakenAwayByThoseWhomItConcerns(t *testing.T) {
	ann, bob := Owner{User: "ann", UID: 1}, Owner{User: "bob", UID: 2}
	for what, c := range map[string]struct {
		process string // its user; empty: the process is absent
		by      Owner
		any     bool
		may     bool
	}{
		"its loader, before the process comes":          {"", ann, false, true},
		"another user, before the process comes":        {"", bob, false, false},
		"the same name at another NIC, before it comes": {"", Owner{User: "ann", NIC: 9}, false, false},
		"its loader, of its own process":                {"ann", ann, false, true},
		"another user, of the loader's process":         {"ann", bob, false, false},
		"its loader, of another user's process":         {"bob", ann, false, false},
		"the process's user, though another loaded it":  {"bob", bob, false, true},
		"a user without a name, before it comes":        {"", Owner{UID: 3}, false, false},
		"an admin, before the process comes":            {"", bob, true, true},
		"an admin, of another user's process":           {"ann", bob, true, true},
	} {
		n := newNIC(t)
		n.put(10, oddSource, guarding(guardedName), func(s *Spec) { s.Owner = ann })
		n.put(11, shower)
		if c.process != "" {
			n.engine.users = map[vni.Name]string{guardedName: c.process}
		}
		unload := n.MayUnload(10, c.by, c.any)
		_, _, replace := n.Prepare(Spec{Module: module(t, oddSource), ID: 10, Replace: true, Owner: c.by, GuardAny: c.any})
		for does, err := range map[string]error{"unload": unload, "replace": replace} {
			if (err == nil) != c.may || err != nil && !errors.Is(err, ErrNotTheirs) {
				t.Errorf("%s wants to %s the guard: %v; may %v", what, does, err, c.may)
			}
			if user := cmp.Or(c.process, ann.User); err != nil && !strings.Contains(err.Error(), strconv.Quote(user)) {
				t.Errorf("%s wants to %s the guard: %v; expected that the error names %s", what, does, err, user)
			}
		}
		if err := n.MayUnload(11, c.by, false); err != nil {
			t.Errorf("%s wants to unload a program that guards nothing: %v", what, err)
		}
		if err := n.MayUnload(12, c.by, false); err != nil {
			t.Errorf("%s wants to unload a program that is not there: %v", what, err)
		}
	}
}
