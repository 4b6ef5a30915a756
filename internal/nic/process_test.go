package nic

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
)

func TestTheProcessTableGrowsWithItsProcesses(t *testing.T) { // QNIX-33
	var table processTable
	table.init(limits.MaxProcesses, 7)
	small := table.bytes()
	if n := cap(table.slots); n > 1+limits.Processes {
		t.Errorf("an empty table has room for %d", n)
	}
	last := uint16(limits.MaxProcesses)
	for _, slot := range []uint16{0, 3, last} {
		if table.at(slot) != nil {
			t.Errorf("there is a process at slot %d", slot)
		}
		p := &process{slot: slot, gen: table.generation(slot)}
		if table.add(p); table.at(slot) != p || p.gen != 8 {
			t.Errorf("at slot %d there is %v, of generation %d", slot, table.at(slot), p.gen)
		}
	}
	if table.registered != 2 || table.bytes() <= small {
		t.Errorf("%d processes are registered in %d bytes, none in %d", table.registered, table.bytes(), small)
	}
	table.remove(table.at(last))
	var slots []uint16
	for p := range table.all {
		slots = append(slots, p.slot)
	}
	if len(slots) != 2 || slots[1] != 3 || table.registered != 1 || table.at(last) != nil || table.generation(last) != 9 {
		t.Errorf("slots %v, %d registered", slots, table.registered)
	}
}

func TestTheTableSaysOfEachProcessWhoseItIs(t *testing.T) { // QNIX-34
	f := newFabric(t, 1, fault.Config{})
	p := f.process(0, "a/0")
	got := p.e.Processes()
	if len(got) != 1 || got[0].Name != p.name || got[0].Slot != p.slot || got[0].Generation != p.gen || got[0].PID != 1 {
		t.Errorf("%+v; expected %v at slot %d, of generation %d and PID 1", got, p.name, p.slot, p.gen)
	}
}

// The next process at an entry of the process table has separate memory, and the memory of the
// former one is not looked at.
func TestAVNIIsTiedToItsEntryWhenItsProcessRegisters(t *testing.T) { // QNIX-36
	f := newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) { c.MaxProcesses = 2 })
	a, former := f.process(0, "a/0"), f.process(1, "b/0")
	former.exit()
	next := f.process(1, "b/0")
	for range 2 { // there are two entries, and the one that was used longest ago is taken
		if next.slot == former.slot {
			break
		}
		next.exit()
		next = f.process(1, "b/0")
	}
	f.known("b/0")
	if next.v.Identity().Slot != former.slot || next.gen == former.gen {
		t.Fatalf("slot %d, generation %d; before it %d", next.v.Identity().Slot, next.gen, former.gen)
	}
	old := former.recv("", 1, 0, make([]byte, 1))
	buf := make([]byte, 1)
	r := next.recv("", 1, 0, buf)
	a.wantSent(a.send("b/0", 1, 0, []byte("x")))
	next.wantReceived(r, buf, []byte("x"))
	if former.done(true, old) {
		t.Error("a receive in the former's memory took a message")
	}
}
