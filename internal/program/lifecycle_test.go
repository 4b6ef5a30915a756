package program

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// An impossible step returns the reason, and leaves the table as it was.
func TestAStepOfALoadThatCannotBeDoneIsRefused(t *testing.T) { // PANIC-2
	type steps struct{ prepared, committed, unloaded, settled uint64 }
	for what, c := range map[string]struct {
		do   func(n *nicTest, k steps) error
		want error
	}{
		"commit of no preparation":       {func(n *nicTest, k steps) error { _, _, err := n.Commit(k.prepared + 99); return err }, ErrKey},
		"commit of what is settled":      {func(n *nicTest, k steps) error { _, _, err := n.Commit(k.settled); return err }, ErrKey},
		"a second commit":                {func(n *nicTest, k steps) error { _, _, err := n.Commit(k.committed); return err }, ErrState},
		"commit of what was replaced":    {func(n *nicTest, k steps) error { _, _, err := n.Commit(k.unloaded); return err }, ErrState},
		"settlement of no preparation":   {func(n *nicTest, k steps) error { return n.Settle(k.prepared + 99) }, ErrKey},
		"settlement before the commit":   {func(n *nicTest, k steps) error { return n.Settle(k.prepared) }, ErrState},
		"a second settlement":            {func(n *nicTest, k steps) error { return n.Settle(k.settled) }, ErrKey},
		"undoing no preparation":         {func(n *nicTest, k steps) error { return n.Undo(k.prepared + 99) }, ErrKey},
		"undoing what is settled":        {func(n *nicTest, k steps) error { return n.Undo(k.settled) }, ErrKey},
		"the owner of no preparation":    {func(n *nicTest, k steps) error { _, err := n.PreparedBy(k.settled); return err }, ErrKey},
		"a driver's program of no key":   {func(n *nicTest, k steps) error { return n.Reside(k.settled, &driven{}) }, ErrKey},
		"a driver's program when live":   {func(n *nicTest, k steps) error { return n.Reside(k.committed, &driven{}) }, ErrState},
		"unloading no program":           {func(n *nicTest, _ steps) error { return n.Unload(77) }, ErrNoProgram},
		"the log of no program":          {func(n *nicTest, _ steps) error { _, _, err := n.Log(77, 0); return err }, ErrNoProgram},
		"a process's number":             {func(n *nicTest, _ steps) error { return load(n, ProcessBit|4, false) }, ErrTaken},
		"a number that is taken":         {func(n *nicTest, _ steps) error { return load(n, 3, false) }, ErrTaken},
		"a number that is prepared":      {func(n *nicTest, _ steps) error { return load(n, 1, false) }, ErrTaken},
		"replacing what is prepared":     {func(n *nicTest, _ steps) error { return load(n, 1, true) }, ErrTaken},
		"replacing what is not settled":  {func(n *nicTest, _ steps) error { return load(n, 2, true) }, ErrTaken},
		"replacing by an unsettled name": {func(n *nicTest, _ steps) error { return loadNamed(n, "two") }, ErrTaken},
	} {
		n := newNIC(t)
		n.put(3, fmt.Sprintf(called, "three"))
		n.put(4, fmt.Sprintf(called, "four"))
		var k steps
		for id, key := range map[vm.ID]*uint64{1: &k.prepared, 2: &k.committed, 3: &k.settled, 4: &k.unloaded} {
			var err error
			if *key, _, err = n.Prepare(Spec{Module: module(t, fmt.Sprintf(called, map[vm.ID]string{1: "one", 2: "two", 3: "three", 4: "four"}[id])), ID: id, Replace: id > 2, Owner: Owner{User: "ann"}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []uint64{k.committed, k.settled} {
			if _, _, err := n.Commit(key); err != nil {
				t.Fatal(err)
			}
		}
		if owner, err := n.PreparedBy(k.prepared); err != nil || owner.User != "ann" {
			t.Errorf("the preparation is of %+v, %v", owner, err)
		}
		if err := errors.Join(n.Settle(k.settled), n.Unload(4)); err != nil {
			t.Fatal(err)
		}
		prepared, live, all := len(n.prepared), len(n.loaded), len(n.machine.IDs())
		if err := c.do(n, k); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; expected %v", what, err, c.want)
		}
		if len(n.prepared) != prepared || len(n.loaded) != live || len(n.machine.IDs()) != all {
			t.Errorf("%s: %d preparations, %d programs, %d in the machine; expected %d, %d, %d", what, len(n.prepared), len(n.loaded), len(n.machine.IDs()), prepared, live, all)
		}
	}
}

func load(n *nicTest, id vm.ID, replace bool) error {
	_, _, err := n.Load(Spec{Module: module(n.t, fmt.Sprintf(called, "other")), ID: id, Replace: replace})
	return err
}

func loadNamed(n *nicTest, name string) error {
	_, _, err := n.Load(Spec{Module: module(n.t, fmt.Sprintf(called, name)), Replace: true})
	return err
}

// Without a number, a program replaces the one of its name, or takes the lowest number that is
// neither used nor promised.
func TestAProgramWithoutANumberIsFoundAPlace(t *testing.T) {
	n := newNIC(t)
	n.put(1, fmt.Sprintf(called, "one"))
	n.put(6, fmt.Sprintf(called, "six"))
	if _, _, err := n.Prepare(Spec{Module: module(t, fmt.Sprintf(called, "two")), ID: 2}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		replace bool
		want    vm.ID
	}{{"six", true, 6}, {"six", false, 3}, {"one", true, 1}, {"new", true, 4}} {
		id, _, err := n.Load(Spec{Module: module(t, fmt.Sprintf(called, c.name)), Replace: c.replace, Start: true})
		if info, there := n.Info(id); err != nil || id != c.want || !there || info.Module.Name != c.name || !info.Running {
			t.Errorf("%s, replacing %v: number %d, %v, %s; expected %d", c.name, c.replace, id, err, info.State(), c.want)
		}
	}
	if len(n.loaded) != 4 {
		t.Errorf("%d programs are loaded, expected 4", len(n.loaded))
	}
}

// A commit may be undone for as long as a preparation may wait. Then the replaced program is
// removed.
func TestACommitIsSettledInTheEnd(t *testing.T) { // PANIC-2
	n := newNIC(t)
	n.put(5, oldSource)
	key := n.prepare(oldSource, true)
	n.engine.now = n.engine.now.Add(limits.PrepareWithin / 2)
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	n.engine.now = n.engine.now.Add(limits.PrepareWithin - time.Nanosecond)
	if n.Expire(); len(n.machine.IDs()) != 2 || len(n.prepared) != 1 {
		t.Errorf("%d programs are in the machine before the time is over, %d preparations", len(n.machine.IDs()), len(n.prepared))
	}
	n.engine.now = n.engine.now.Add(time.Nanosecond)
	if n.Expire(); len(n.machine.IDs()) != 1 || len(n.prepared) != 0 || !n.running(5) {
		t.Errorf("%d programs are in the machine then, %d preparations; it runs: %v", len(n.machine.IDs()), len(n.prepared), n.running(5))
	}
	if err := n.Undo(key); !errors.Is(err, ErrKey) {
		t.Errorf("undo of what is settled: %v", err)
	}
}

// A message from this NIC that no program would handle is refused with the reason. None is kept.
func TestAMessageThatNoProgramWouldHandleIsRefused(t *testing.T) { // PANIC-22
	n := newNIC(t)
	n.put(5, shower)
	n.put(6, shower, func(s *Spec) { s.Start = false })
	n.put(7, "PROGRAM s: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN STOP END; END;")
	if err := n.Post(7, 1, nil); err != nil {
		t.Fatal(err)
	}
	n.run(2)
	for i, c := range []struct {
		id      vm.ID
		trigger uint32
		length  int
		want    error
		text    string
	}{{9, 1, 0, ErrNoProgram, ""}, {6, 1, 0, ErrInactive, "never started"}, {7, 1, 0, ErrInactive, "is stopped"}, {5, 2, 0, ErrNoTrigger, "2; p has [1]"}} {
		err := n.Post(c.id, c.trigger, make([]byte, c.length))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || n.counts[vni.NICProgramsUnknown] != uint64(i+1) {
			t.Errorf("trigger %d of program %d: %v; %d are counted; expected %v %q", c.trigger, c.id, err, n.counts[vni.NICProgramsUnknown], c.want, c.text)
		}
	}
	if err := n.Post(5, 1, make([]byte, prog.MaxMessage+1)); err == nil || n.Pending() != 0 || n.local != 0 {
		t.Errorf("a message that is too long: %v; %d wait", err, n.Pending())
	}
	if err := n.Post(5, 1, make([]byte, prog.MaxMessage)); err != nil {
		t.Errorf("the longest message: %v", err)
	}
	for range limits.ProgramQueue/cost(prog.MaxMessage) - 1 {
		if err := n.Post(5, 1, make([]byte, prog.MaxMessage)); err != nil {
			t.Fatal(err)
		}
	}
	left := limits.ProgramQueue - n.local - limits.ProgramOverhead
	if err := n.Post(5, 1, make([]byte, left+1)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a byte more than the queue has room for: %v", err)
	}
	if err := n.Post(5, 1, make([]byte, left)); err != nil || n.local != limits.ProgramQueue {
		t.Errorf("the last bytes of the queue: %v; %d are taken", err, n.local)
	}
	if n.run(1000); n.local != 0 || n.Pending() != 0 {
		t.Errorf("%d bytes are taken when all were handled", n.local)
	}
}
