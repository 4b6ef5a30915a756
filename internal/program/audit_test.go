package program

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// The audit finds each limit that the table exceeds, and each contradiction between its parts.
func TestTheAuditFindsWhatATableDoesNotKeep(t *testing.T) {
	for what, c := range map[string]struct {
		change func(n *nicTest, pr *Peer)
		finds  bool
	}{
		"nothing":                         {func(*nicTest, *Peer) {}, false},
		"bytes that are not counted":      {func(n *nicTest, _ *Peer) { n.local-- }, true},
		"bytes that do not wait":          {func(n *nicTest, _ *Peer) { n.local++ }, true},
		"a peer's message is not its own": {func(n *nicTest, pr *Peer) { m := n.newMessage(5); m.peer = pr; n.push(m) }, false},
		"a queue that is too long": {func(n *nicTest, _ *Peer) {
			n.queue[n.head].cost, n.local = limits.ProgramQueue+1, limits.ProgramQueue+1
		}, true},
		"a queue that is full":              {func(n *nicTest, _ *Peer) { n.queue[n.head].cost, n.local = limits.ProgramQueue, limits.ProgramQueue }, false},
		"the least credit":                  {func(n *nicTest, _ *Peer) { n.credit = -3 * limits.ProgramPoll }, false},
		"less credit":                       {func(n *nicTest, _ *Peer) { n.credit = -3*limits.ProgramPoll - 1 }, true},
		"a guard that judges nothing":       {func(n *nicTest, _ *Peer) { clear(n.guards) }, true},
		"a gate that no program guards":     {func(n *nicTest, _ *Peer) { n.guards[gate{otherName, false}] = 10 }, true},
		"a gate of another program":         {func(n *nicTest, _ *Peer) { n.guards[gate{guardedName, false}] = 5 }, true},
		"a full window there":               {func(_ *nicTest, pr *Peer) { pr.inFlight = limits.ProgramWindow }, false},
		"more than a window there":          {func(_ *nicTest, pr *Peer) { pr.inFlight = limits.ProgramWindow + 1 }, true},
		"more than a window here":           {func(_ *nicTest, pr *Peer) { pr.used = limits.ProgramWindow + 1 }, true},
		"as much as may wait":               {func(_ *nicTest, pr *Peer) { pr.waiting = limits.ProgramWaiting }, false},
		"more than may wait":                {func(_ *nicTest, pr *Peer) { pr.waiting = limits.ProgramWaiting + 1 }, true},
		"more owed than was sent":           {func(_ *nicTest, pr *Peer) { pr.used, pr.owed = 1, 2 }, true},
		"less than nothing owed":            {func(_ *nicTest, pr *Peer) { pr.owed = -1 }, true},
		"less than nothing in flight":       {func(_ *nicTest, pr *Peer) { pr.inFlight = -1 }, true},
		"less than nothing that waits":      {func(_ *nicTest, pr *Peer) { pr.waiting = -1 }, true},
		"what was handled and not yet told": {func(_ *nicTest, pr *Peer) { pr.used, pr.owed = 2, 2 }, false},
	} {
		n, e := newNeighbour(t)
		n.put(5, shower)
		n.put(10, oddSource, guarding(guardedName))
		if err := n.Post(5, 1, nil); err != nil {
			t.Fatal(err)
		}
		pr := e.Peer(9)
		c.change(n, pr)
		if err := errors.Join(n.Audit(), pr.Audit()); (err != nil) != c.finds {
			t.Errorf("%s: the audit says %v", what, err)
		}
	}
}

// Every leftover of a message is found, here and for each peer.
func TestWhatIsLeftOfAMessageIsFound(t *testing.T) {
	for what, c := range map[string]struct {
		change func(n *nicTest, pr *Peer)
		finds  bool
	}{
		"nothing":                         {func(*nicTest, *Peer) {}, false},
		"a message in the queue":          {func(n *nicTest, _ *Peer) { n.push(n.newMessage(0)) }, true},
		"a command that waits":            {func(n *nicTest, _ *Peer) { n.held = append(n.held, held{}) }, true},
		"an answer that is due":           {func(n *nicTest, _ *Peer) { n.asked[1] = asked{} }, true},
		"a preparation":                   {func(n *nicTest, _ *Peer) { n.prepared = append(n.prepared, &prepared{}) }, true},
		"bytes that are counted":          {func(n *nicTest, _ *Peer) { n.local = 1 }, true},
		"a message in pieces":             {func(_ *nicTest, pr *Peer) { pr.assemblies = map[uint32]*message{1: {}} }, true},
		"a message that is not handled":   {func(_ *nicTest, pr *Peer) { pr.used, pr.owed = 2, 1 }, true},
		"room that is not yet given back": {func(_ *nicTest, pr *Peer) { pr.used, pr.owed, pr.inFlight = 2, 2, limits.ProgramWindow/2 }, false},
		"room that is never given back":   {func(_ *nicTest, pr *Peer) { pr.inFlight = limits.ProgramWindow/2 + 1 }, true},
		"a message that has not left":     {func(_ *nicTest, pr *Peer) { pr.out = append(pr.out, &outgoing{}) }, true},
		"bytes that wait":                 {func(_ *nicTest, pr *Peer) { pr.waiting = 1 }, true},
		"a command for the peer":          {func(_ *nicTest, pr *Peer) { pr.held = append(pr.held, held{}) }, true},
		"an answer that the peer owes":    {func(_ *nicTest, pr *Peer) { pr.asked = 1 }, true},
	} {
		n, e := newNeighbour(t)
		pr := e.Peer(9)
		c.change(n, pr)
		if err := errors.Join(n.Leaks(), pr.Leaks()); (err != nil) != c.finds {
			t.Errorf("%s: it says %v", what, err)
		}
		if unsent := len(pr.out) > 0 || len(pr.held) > 0; n.Unsent() != unsent {
			t.Errorf("%s: unsent %v", what, n.Unsent())
		}
	}
}

// A process's number is never that of a program. It has the process's slot and as much of its
// generation as fits.
func TestTheNumberOfAProcessHasItsSlot(t *testing.T) {
	seen := map[vm.ID]bool{}
	for _, slot := range []uint16{0, 1, 77, 1<<slotBits - 1} {
		for _, gen := range []uint32{0, 1, 1<<(31-slotBits) - 1} {
			id := ProcessNumber(slot, gen)
			if id&ProcessBit == 0 || ProcessSlot(id) != slot || seen[id] {
				t.Errorf("slot %d, generation %d has number %#x, of slot %d", slot, gen, id, ProcessSlot(id))
			}
			seen[id] = true
			if again := ProcessNumber(slot, gen+1<<(31-slotBits)); again != id {
				t.Errorf("a generation that does not fit changes the number from %#x to %#x", id, again)
			}
		}
	}
}

// All programs of a name are found, in the order of their numbers, in any case.
func TestAllProgramsOfANameAreFound(t *testing.T) {
	n := newNIC(t)
	for id, name := range map[vm.ID]string{9: "pi", 3: "Pi", 5: "other", 7: "PI"} {
		n.put(id, fmt.Sprintf(called, name))
	}
	if got := n.FindAll("pI"); !slices.Equal(got, []vm.ID{3, 7, 9}) {
		t.Errorf("found are %v", got)
	}
	if got := n.FindAll("none"); len(got) != 0 {
		t.Errorf("found are %v", got)
	}
	var ids []vm.ID
	for _, i := range n.List() {
		ids = append(ids, i.ID)
	}
	if !slices.Equal(ids, []vm.ID{3, 5, 7, 9}) {
		t.Errorf("listed are %v", ids)
	}
}

// The engine may ask a guard that has just been unloaded: it passes nothing.
func TestAGuardThatIsUnloadedPassesNothing(t *testing.T) { // PANIC-7
	n := newNIC(t)
	n.put(10, oddSource, guarding(guardedName))
	n.put(11, tellSource, guardingOut(guardedName))
	in, out := n.engine.guards[guardedName], n.engine.ways[guardedName]
	if err := errors.Join(n.Unload(10), n.Unload(11)); err != nil {
		t.Fatal(err)
	}
	if drop := in(ownNIC, []byte{1}); !drop {
		t.Error("a message passes a guard that is unloaded")
	}
	if delay, pass := out(&Departure{}); pass || delay != 0 {
		t.Errorf("a departure passes a guard that is unloaded, after %v", delay)
	}
	if n.counts[vni.NICProgramsFiltered] != 2 {
		t.Errorf("%d are counted as filtered", n.counts[vni.NICProgramsFiltered])
	}
}

// A load that fails in the machine, at the guard or in the driver leaves nothing.
func TestALoadThatFailsLeavesNothing(t *testing.T) {
	huge := fmt.Sprintf("PROGRAM huge: VAR v[%d]; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;", 60_000)
	n := newNIC(t)
	n.engine.users = map[vni.Name]string{guardedName: "bob"}
	n.put(5, oldSource)
	var err error
	for id := vm.ID(20); err == nil && id < 30; id++ {
		_, _, err = n.Load(Spec{Module: module(t, huge), ID: id})
	}
	if err == nil || !errors.Is(err, ErrNoRoom) {
		t.Errorf("programs of more memory than there is: %v", err)
	}
	live, all := len(n.List()), len(n.machine.IDs())
	_, _, err = n.Load(Spec{Module: module(t, oddSource), ID: 10, Guards: guardedName, Trigger: 1, Owner: Owner{User: "ann"}})
	if !errors.Is(err, ErrNotTheirs) || !strings.Contains(err.Error(), `"bob"`) {
		t.Errorf("a guard of another user's process: %v", err)
	}
	if len(n.List()) != live || len(n.machine.IDs()) != all || live != all || n.Leaks() != nil || len(n.guards) != 0 {
		t.Errorf("%d programs, %d in the machine; %v", len(n.List()), len(n.machine.IDs()), n.Leaks())
	}
	d := newNIC(t)
	key := d.prepare(oldSource, false)
	r := &failing{at: "Leave"}
	if err := d.Reside(key, r); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Commit(key); err != nil {
		t.Fatal(err)
	}
	if err := d.Settle(key); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Load(Spec{Module: module(t, shower), ID: 5, Replace: true, Start: true}); !errors.Is(err, errDriver) || d.Leaks() != nil || len(d.machine.IDs()) != 1 {
		t.Errorf("a load in the place of a program that does not leave the driver: %v; %v, %d in the machine", err, d.Leaks(), len(d.machine.IDs()))
	}
	if info, _ := d.Info(5); info.Module.Name != "old" || !info.Running {
		t.Errorf("%s is there, %s", info.Module.Name, info.State())
	}
}
