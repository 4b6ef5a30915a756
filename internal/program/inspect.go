package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/pdl/vm"
)

// log holds the last ProgramLog values that a program has displayed (PANIC-26).
type log struct {
	values []int64 // a ring, when it is full
	next   int     // index of the oldest in a full ring
	total  uint64
}

func (l *log) add(v int64) {
	l.total++
	if len(l.values) < limits.ProgramLog {
		l.values = append(l.values, v)
		return
	}
	l.values[l.next] = v
	l.next = (l.next + 1) % limits.ProgramLog
}

// Log returns the values that a program has displayed from its n-th value on, as far as they are
// kept, and the number of the first returned value.
func (t *Table) Log(id vm.ID, from uint64) (values []int64, first uint64, err error) {
	l := t.loaded[id]
	if l == nil {
		return nil, 0, fmt.Errorf("log of program %d: %w", id, ErrNoProgram)
	}
	kept := uint64(len(l.log.values))
	first = min(max(from, l.log.total-kept), l.log.total)
	for n := first; n < l.log.total; n++ {
		values = append(values, l.log.values[(uint64(l.log.next)+n-(l.log.total-kept))%kept])
	}
	return values, first, nil
}

// An Info is the description of a program for tools.
type Info struct {
	vm.Info
	Spec     Spec
	Shown    uint64 // values that it has displayed
	Dropped  uint64 // messages that it has kept from the process that it guards, or refused to send
	Delayed  uint64 // messages of the process that it guards
	InDriver bool   // it resides in the driver of the link
	Unbegun  bool   // its initialisation was aborted
	Lacks    string // the segments that it does not find there, and why
	Lost     Losses // losses there, since it arrived
}

// State returns the state of the program in a word.
func (i *Info) State() string {
	switch {
	case i.Running:
		return "running"
	case i.Begun:
		return "stopped"
	}
	return "loaded"
}

// List returns the programs by number.
func (t *Table) List() (l []Info) {
	for _, id := range t.ids() {
		info, _ := t.Info(id)
		l = append(l, info)
	}
	return l
}

// Info returns the description of a program.
func (t *Table) Info(id vm.ID) (Info, bool) {
	l := t.loaded[id]
	if l == nil {
		return Info{}, false
	}
	there := t.syncDriver(l)
	info, ok := t.machine.Info(id)
	info.Profile.Add(&there)
	info.LastAbort = info.Profile.LastCause
	i := Info{
		Info: info, Spec: l.spec, Shown: l.log.total, Dropped: l.dropped, Delayed: l.delayed, InDriver: l.inDriver,
		Unbegun: l.unbegun, Lacks: t.lacks(l),
	}
	if l.inDriver {
		// As with the profile there, unreadable values are left out.
		i.Lost, _ = l.resident.Lost()
	}
	return i, ok
}

// FindAll returns the numbers of all programs with a name, in ascending order. As in PDL, case
// does not matter.
func (t *Table) FindAll(name string) (ids []vm.ID) {
	for _, id := range t.ids() {
		if strings.EqualFold(t.loaded[id].spec.Module.Name, name) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Audit returns an error if the table exceeds a limit.
func (t *Table) Audit() error {
	local := 0
	for _, m := range t.queue[t.head:] {
		if m.peer == nil {
			local += m.cost
		}
	}
	if local != t.local || local > limits.ProgramQueue {
		return fmt.Errorf("programs: %d bytes of this NIC's messages wait, %d are counted, at most %d",
			local, t.local, limits.ProgramQueue)
	}
	if t.credit < -3*limits.ProgramPoll {
		return fmt.Errorf("programs: they have executed %d instructions more than they may", -t.credit)
	}
	if err := t.auditGuards(); err != nil {
		return err
	}
	if t.machine != nil {
		return t.machine.Audit()
	}
	return nil
}

// Audit returns an error if a peer exceeds a limit.
func (pr *Peer) Audit() error {
	if pr.used > limits.ProgramWindow || pr.inFlight > limits.ProgramWindow ||
		pr.waiting > limits.ProgramWaiting || min(pr.used-pr.owed, pr.owed, pr.inFlight, pr.waiting) < 0 {
		return fmt.Errorf(
			"peer %v has %d bytes of messages to programs here, %d of them handled, and %d there; %d wait",
			nicid.ID(pr.NIC()), pr.used, pr.owed, pr.inFlight, pr.waiting)
	}
	return nil
}

// Room returns the window room that the messages to a NIC's programs have taken. It also returns
// the unreturned room: that of the NIC's messages that were handled here. When nothing is in
// flight, taken on one NIC equals owed on the other.
func (t *Table) Room(nic uint64) (taken, owed int) {
	if pr := t.nic.Peer(nic); pr != nil {
		return pr.inFlight, pr.owed
	}
	return 0, 0
}

// Leaks returns an error if something is left. There may be nothing when no message is in flight.
func (t *Table) Leaks() error {
	if t.Quiet() && len(t.prepared) == 0 && t.local == 0 {
		return nil
	}
	return fmt.Errorf("programs: %d messages wait, %d commands, %d answers, %d preparations",
		t.Pending(), len(t.held), len(t.asked), len(t.prepared))
}

// Leaks returns an error if something is left between this NIC and a peer. Room that is handled
// and not yet returned is not a leak.
func (pr *Peer) Leaks() error {
	var errs []error
	if pr.used != pr.owed || len(pr.assemblies) > 0 {
		errs = append(errs, fmt.Errorf("peer %v: %d bytes of messages to programs are not handled, %d are in pieces",
			nicid.ID(pr.NIC()), pr.used-pr.owed, len(pr.assemblies)))
	}
	if len(pr.out) > 0 || pr.waiting > 0 || len(pr.held) > 0 || pr.asked > 0 || pr.inFlight > limits.ProgramWindow/2 {
		errs = append(errs, fmt.Errorf(
			"peer %v: %d messages to its programs wait, %d commands, %d answers, %d bytes are in its window",
			nicid.ID(pr.NIC()), len(pr.out), len(pr.held), pr.asked, pr.inFlight))
	}
	return errors.Join(errs...)
}
