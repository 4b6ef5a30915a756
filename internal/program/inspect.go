package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/pdl/vm"
)

// log is what a program has displayed, the last ProgramLog values (PANIC-26).
type log struct {
	values []int64 // a ring, when it is full
	next   int     // where the oldest is then
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

// Log returns what a program has displayed from its n-th value on, as far as that is kept, and the number of the first returned.
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

// An Info is what is to be said of a program.
type Info struct {
	vm.Info
	Spec     Spec
	Shown    uint64 // values that it has displayed
	Dropped  uint64 // messages that it has kept from the process that it guards, or refused it
	Delayed  uint64 // messages of the process that it guards
	InDriver bool   // it resides in the driver of the link
	Unbegun  bool   // its initialisation was aborted
	Lacks    string // which segments it does not find there, and why
	Lost     Losses // there, since it came
}

// State is what may be done with the program, in a word.
func (i *Info) State() string {
	switch {
	case i.Running:
		return "running"
	case i.Begun:
		return "stopped"
	}
	return "loaded"
}

// List lists the programs by number.
func (t *Table) List() (l []Info) {
	for _, id := range t.ids() {
		info, _ := t.Info(id)
		l = append(l, info)
	}
	return l
}

// Info describes a program.
func (t *Table) Info(id vm.ID) (Info, bool) {
	l := t.loaded[id]
	if l == nil {
		return Info{}, false
	}
	there := t.syncDriver(l)
	info, ok := t.machine.Info(id)
	info.Profile.Add(&there)
	info.LastAbort = info.Profile.LastCause
	i := Info{Info: info, Spec: l.spec, Shown: l.log.total, Dropped: l.dropped, Delayed: l.delayed, InDriver: l.inDriver, Unbegun: l.unbegun, Lacks: t.lacks(l)}
	if l.inDriver {
		i.Lost, _ = l.resident.Lost() // as of the profile there, nothing is said of what cannot be read
	}
	return i, ok
}

// FindAll returns the numbers of all programs with a name, in ascending order. As in PDL, the case of
// letters does not count.
func (t *Table) FindAll(name string) (ids []vm.ID) {
	for _, id := range t.ids() {
		if strings.EqualFold(t.loaded[id].spec.Module.Name, name) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Audit says which of its limits the table does not keep, if any.
func (t *Table) Audit() error {
	local := 0
	for _, m := range t.queue[t.head:] {
		if m.peer == nil {
			local += m.cost
		}
	}
	if local != t.local || local > limits.ProgramQueue {
		return fmt.Errorf("programs: %d bytes of this NIC's messages wait, %d are counted, at most %d", local, t.local, limits.ProgramQueue)
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

// Audit says which of its limits a peer does not keep, if any.
func (pr *Peer) Audit() error {
	if pr.used > limits.ProgramWindow || pr.inFlight > limits.ProgramWindow || pr.waiting > limits.ProgramWaiting || min(pr.used-pr.owed, pr.owed, pr.inFlight, pr.waiting) < 0 {
		return fmt.Errorf("peer %v has %d bytes of messages to programs here, %d of them handled, and %d there; %d wait", nicid.ID(pr.NIC()), pr.used, pr.owed, pr.inFlight, pr.waiting)
	}
	return nil
}

// Room is what the messages to a NIC's programs have taken of its window, and what those of it that were handled here have yet to be given
// back; when nothing is under way, the one here is the other there.
func (t *Table) Room(nic uint64) (taken, owed int) {
	if pr := t.nic.Peer(nic); pr != nil {
		return pr.inFlight, pr.owed
	}
	return 0, 0
}

// Leaks says what is left; nothing may be when no message is under way.
func (t *Table) Leaks() error {
	if t.Quiet() && len(t.prepared) == 0 && t.local == 0 {
		return nil
	}
	return fmt.Errorf("programs: %d messages wait, %d commands, %d answers, %d preparations", t.Pending(), len(t.held), len(t.asked), len(t.prepared))
}

// Leaks says what is left between this NIC and a peer. Room that is handled and not yet given back is not a leak.
func (pr *Peer) Leaks() error {
	var errs []error
	if pr.used != pr.owed || len(pr.assemblies) > 0 {
		errs = append(errs, fmt.Errorf("peer %v: %d bytes of messages to programs are not handled, %d are in pieces", nicid.ID(pr.NIC()), pr.used-pr.owed, len(pr.assemblies)))
	}
	if len(pr.out) > 0 || pr.waiting > 0 || len(pr.held) > 0 || pr.asked > 0 || pr.inFlight > limits.ProgramWindow/2 {
		errs = append(errs, fmt.Errorf("peer %v: %d messages to its programs wait, %d commands, %d answers, %d bytes are in its window", nicid.ID(pr.NIC()), len(pr.out), len(pr.held), pr.asked, pr.inFlight))
	}
	return errors.Join(errs...)
}
