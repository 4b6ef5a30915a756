package program

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// driven is a program in a driver that handles nothing there.
type driven struct {
	data    []int64
	entered int
	closed  int
	stopped bool  // result of Leave and Profile
	fails   error // error of Borrow
}

func (d *driven) Enter(data []int64) error {
	d.data = slices.Clone(data)
	d.entered++
	return nil
}
func (d *driven) Leave() ([]int64, bool, error) { return d.data, d.stopped, nil }
func (d *driven) Borrow(_ []int64, f func(bool) bool) error {
	if d.fails == nil {
		f(d.stopped)
	}
	return d.fails
}
func (d *driven) Profile() (vm.Profile, bool, error) { return vm.Profile{}, d.stopped, nil }
func (d *driven) Lost() (Losses, error)              { return Losses{}, nil }
func (d *driven) Close() error                       { d.closed++; return nil }

// reside prepares a program that resides in the driver under number 5.
func (n *nicTest) reside(replace bool) (key uint64, d *driven) {
	n.t.Helper()
	key = n.prepare(oldSource, replace)
	d = &driven{}
	if err := n.Reside(key, d); err != nil {
		n.t.Fatal(err)
	}
	return key, d
}

// A program in the driver has descriptors there. However the program ends, the table closes it
// exactly once.
func TestAProgramInTheDriverIsClosedOnceWhateverEndsIt(t *testing.T) {
	type keys struct{ first, second uint64 }
	for what, end := range map[string]func(n *nicTest, k keys) error{
		"unloaded":                      func(n *nicTest, k keys) error { return errors.Join(n.Settle(k.second), n.Unload(5)) },
		"unloaded before it is settled": func(n *nicTest, k keys) error { return errors.Join(n.Unload(5), n.Settle(k.second)) },
		"undone after it was unloaded":  func(n *nicTest, k keys) error { return errors.Join(n.Unload(5), only(ErrState, n.Undo(k.second))) },
		"undone, and unloaded":          func(n *nicTest, k keys) error { return errors.Join(n.Undo(k.second), n.Unload(5)) },
		"unloaded when its time was over": func(n *nicTest, k keys) error {
			n.engine.now = n.engine.now.Add(limits.PrepareWithin)
			n.Expire()
			return n.Unload(5)
		},
	} {
		n := newNIC(t)
		var k keys
		var a, b *driven
		k.first, a = n.reside(false)
		if _, _, err := n.Commit(k.first); err != nil {
			t.Fatal(err)
		}
		if err := n.Settle(k.first); err != nil {
			t.Fatal(err)
		}
		k.second, b = n.reside(true)
		if _, _, err := n.Commit(k.second); err != nil {
			t.Fatal(err)
		}
		if a.closed != 0 || b.closed != 0 {
			t.Fatalf("%s: closed %d and %d times while either may be needed", what, a.closed, b.closed)
		}
		if err := end(n, k); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if a.closed != 1 || b.closed != 1 || len(n.List()) != 0 {
			t.Errorf("%s: the program that was replaced is closed %d times, and the other one %d times; %d are loaded", what, a.closed, b.closed, len(n.List()))
		}
	}
}

// only returns err unless it is the expected error.
func only(want, err error) error {
	if errors.Is(err, want) {
		return nil
	}
	return errors.Join(errors.New("expected: "+want.Error()), err)
}

// A preparation that never goes live is closed too, and a second program in the driver is
// refused.
func TestAPreparedProgramInTheDriverIsClosedOnce(t *testing.T) {
	for what, end := range map[string]func(n *nicTest, key uint64) error{
		"undone": func(n *nicTest, key uint64) error { return n.Undo(key) },
		"expired": func(n *nicTest, _ uint64) error {
			n.engine.now = n.engine.now.Add(limits.PrepareWithin)
			n.Expire()
			return nil
		},
	} {
		n := newNIC(t)
		key, d := n.reside(false)
		if err := n.Reside(key, &driven{}); !errors.Is(err, ErrState) {
			t.Errorf("%s: a second program in the driver: %v; expected %v", what, err, ErrState)
		}
		if err := end(n, key); err != nil || d.closed != 1 || n.Leaks() != nil {
			t.Errorf("%s: %v, closed %d times, %v", what, err, d.closed, n.Leaks())
		}
	}
}

// Prepared programs take places. The largest allowed number is loaded, and none beyond.
func TestPreparedProgramsCountAgainstTheLimit(t *testing.T) {
	n := newNIC(t)
	for id := range vm.ID(limits.Programs - 2) {
		n.put(id+1, shower)
	}
	m := module(t, shower)
	var keys []uint64
	for range 2 {
		key, _, err := n.Prepare(Spec{Module: m})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if _, _, err := n.Prepare(Spec{Module: m}); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("one program more than the limit is prepared: %v; expected %v", err, ErrNoRoom)
	}
	key, _, err := n.Prepare(Spec{Module: m, ID: 1, Replace: true})
	if err != nil {
		t.Fatalf("a program that replaces another takes no place: %v", err)
	}
	for _, key := range append(keys, key) {
		if _, _, err := n.Commit(key); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := n.Prepare(Spec{Module: m}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("with every place taken: %v; expected %v", err, ErrNoRoom)
	}
	if got := len(n.List()); got != limits.Programs {
		t.Errorf("%d programs are loaded, expected %d", got, limits.Programs)
	}
}

// Undone, a program continues where it was: in the driver, with the variables of its replacement.
func TestUndoneAProgramIsInTheDriverAgain(t *testing.T) {
	n := newNIC(t)
	first, a := n.reside(false)
	if _, _, err := n.Commit(first); err != nil {
		t.Fatal(err)
	}
	if err := n.Settle(first); err != nil {
		t.Fatal(err)
	}
	second, b := n.reside(true)
	if _, kept, err := n.Commit(second); err != nil || !kept || a.entered != 1 || b.entered != 1 {
		t.Fatalf("%v, kept %v; entered %d and %d times", err, kept, a.entered, b.entered)
	}
	b.data[0] = 40
	if err := n.Undo(second); err != nil {
		t.Fatal(err)
	}
	if info, _ := n.Info(5); a.entered != 2 || a.data[0] != 40 || !info.InDriver || info.State() != "running" {
		t.Errorf("entered %d times, with %d; in the driver %v, %s", a.entered, a.data[0], info.InDriver, info.State())
	}
}

// A program that stopped in the driver has stopped, however that is noticed first, and its
// replacement begins anew.
func TestAProgramThatStoppedInTheDriverHasStopped(t *testing.T) {
	for what, look := range map[string]func(n *nicTest){
		"a list":        func(n *nicTest) { n.List() },
		"a message":     func(n *nicTest) { n.push(n.messageFor(5)); n.run(2) },
		"a replacement": func(*nicTest) {},
	} {
		n := newNIC(t)
		key, d := n.reside(false)
		if _, _, err := n.Commit(key); err != nil {
			t.Fatal(err)
		}
		if err := n.Settle(key); err != nil {
			t.Fatal(err)
		}
		d.stopped = true
		if look(n); what != "a replacement" && n.running(5) {
			t.Errorf("after %s it runs", what)
		}
		key, _ = n.reside(true)
		if _, kept, err := n.Commit(key); err != nil || kept || !n.running(5) {
			t.Errorf("after %s, what replaces it has its data: %v, runs: %v, %v", what, kept, n.running(5), err)
		}
		if err := n.Undo(key); err != nil || n.running(5) {
			t.Errorf("after %s, undone, it runs: %v, %v", what, n.running(5), err)
		}
	}
}

// messageFor returns a message for trigger 1 of a program.
func (n *nicTest) messageFor(id vm.ID) *message {
	m := n.newMessage(0)
	m.Program, m.Trigger = id, 1
	return m
}

// Another processor may use the variables for too long. The message is lost, and its sender is
// not told that it was handled.
func TestAMessageThatFindsNoVariablesIsLostAndCounted(t *testing.T) {
	n := newNIC(t)
	key, d := n.reside(false)
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	d.fails = errors.New("busy")
	c := &command{}
	n.Command(c, vm.Destination{Program: 5, Trigger: 1}, 0, true)
	if n.run(2); n.engine.told[c] != vm.Busy || n.counts[vni.NICProgramDatagramsLost] != 1 || len(n.shown(5)) != 0 {
		t.Errorf("the sender is told %v, %d messages are counted as lost", n.engine.told[c], n.counts[vni.NICProgramDatagramsLost])
	}
}
