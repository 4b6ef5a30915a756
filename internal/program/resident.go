package program

import (
	"fmt"

	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A program may reside in the driver of the NIC's link (pdl/ebpf). Then datagrams for it are
// answered there, and the engine never sees them. The virtual machine keeps the program too. It
// runs the initialisation, and each message that still reaches the engine: from this NIC,
// reliably, or in pieces. There is one set of variables, in the driver. The machine borrows it
// for one activation:
//
//	Commit, Start ── initialisation ─► Enter: variables go to the driver ──► datagrams there
//	a message in the queue ──────────► Borrow: variables ─► machine ─► variables
//	replaced, unloaded, Undo ────────► Leave: variables come back

// A Resident is a program in the driver, compiled and loaded there. Its methods are called by the
// engine's caller.
type Resident interface {
	// Enter makes the driver deliver datagrams to the program from now on. Its variables begin
	// with data.
	Enter(data []int64) error
	// Leave ends that, and returns the variables. It reports whether the program had stopped.
	// Messages that arrive there are refused from now on.
	Leave() (data []int64, stopped bool, err error)
	// Borrow fills data with the variables, calls f while no message is handled in the driver,
	// and sets the variables to the new data. If f returns stop, the program accepts no more
	// messages. The argument of f says whether the program has stopped. Borrow allocates nothing,
	// since each message that the engine handles uses it.
	Borrow(data []int64, f func(stopped bool) (stop bool)) error
	// Profile returns the work of the program in the driver.
	Profile() (p vm.Profile, stopped bool, err error)
	// Lost returns the losses there. The virtual machine, and so a profile, does not see them.
	Lost() (Losses, error)
	// Close removes the program from the driver finally.
	Close() error
}

// Losses counts losses in the driver.
type Losses struct {
	Answers   uint64 // that could not leave
	Displays  uint64 // values for which there was no room
	Busy      uint64 // messages: another processor used the program for too long
	Overtaken uint64 // messages: duplicates, or later than one that was sent after them
}

// A Driver is told of the open sessions. It answers no datagrams of others.
type Driver interface {
	Session(nic uint64, keys rel.DriverKeys)
	EndSession(nic uint64)
}

// SetDriver tells a driver of sessions from now on, beginning with the open ones.
func (t *Table) SetDriver(d Driver) {
	t.driver = d
	for pr := range t.nic.Peers {
		t.tellDriver(pr)
	}
}

// tellDriver tells the driver, if there is one, of the session with a peer.
func (t *Table) tellDriver(pr *Peer) {
	if t.driver == nil {
		return
	}
	if keys, ok := pr.DriverKeys(); ok {
		t.driver.Session(pr.NIC(), keys)
	}
}

// Reside gives a preparation its program in the driver, which the program enters at Commit. The
// table is responsible for closing it from now on.
func (t *Table) Reside(key uint64, r Resident) error {
	p, err := t.preparation(key)
	if err != nil {
		return err
	}
	if !p.spec.Guards.IsZero() {
		return fmt.Errorf("program %s in the driver: %w: it guards %v, whose messages come by other ways too",
			p.spec.Module.Name, ErrState, p.spec.Guards)
	}
	if p.live != nil || p.resident != nil {
		return fmt.Errorf("program %s in the driver: %w", p.spec.Module.Name, ErrState)
	}
	p.resident = r
	return nil
}

// enter moves a running program to the driver, if it may go there.
func (t *Table) enter(l *loaded) error {
	if l.resident == nil || l.inDriver || !t.running(l.id) {
		return nil
	}
	data, err := t.machine.Data(l.id)
	if err == nil {
		err = l.resident.Enter(data)
	}
	if err != nil {
		return fmt.Errorf("program %s in the driver: %w", l.spec.Module.Name, err)
	}
	l.inDriver = true
	return nil
}

// leave moves a program back from the driver, with its variables.
func (t *Table) leave(l *loaded) error {
	if !l.inDriver {
		return nil
	}
	data, stopped, err := l.resident.Leave()
	there, _ := t.doneThere(l) // complete, since no more messages arrive
	t.machine.Merge(l.id, there)
	l.merged.Add(&there)
	l.inDriver = false
	if err == nil {
		err = t.machine.SetData(l.id, data)
	}
	if stopped {
		t.stoppedThere(l, &there)
	}
	if err != nil {
		return fmt.Errorf("program %s in the driver: %w", l.spec.Module.Name, err)
	}
	return nil
}

// quit removes a program from the driver finally.
func quit(r Resident) error {
	if r == nil {
		return nil
	}
	return r.Close()
}

// activate lets the machine handle a message of a program, wherever its variables are.
func (t *Table) activate(l *loaded, m *vm.Message) vm.Outcome {
	if l.inDriver {
		return t.activateBorrowed(l, m)
	}
	return t.machine.Dispatch(m)
}

// activateBorrowed does that with variables in the driver. They are copied to the machine's
// variables of the program, and back.
func (t *Table) activateBorrowed(l *loaded, m *vm.Message) vm.Outcome {
	data, err := t.machine.Words(l.id)
	if err == nil {
		t.borrowed.message, t.borrowed.by, t.borrowed.outcome = m, l, vm.Busy
		err = l.resident.Borrow(data, t.borrowed.handle)
		t.borrowed.message, t.borrowed.by = nil, nil
	}
	if err != nil {
		t.count(vni.NICProgramDatagramsLost)
		return vm.Busy
	}
	return t.borrowed.outcome
}

// borrowed is the activation for which variables are borrowed. It exists so that not every
// activation makes a function.
type borrowed struct {
	message *vm.Message
	by      *loaded
	outcome vm.Outcome
	handle  func(stopped bool) (stop bool)
}

// handleBorrowed passes the message to the machine. The machine refuses it if the program has
// stopped in the driver.
func (t *Table) handleBorrowed(stopped bool) (stop bool) {
	m := t.borrowed.message
	if stopped {
		t.syncDriver(t.borrowed.by)
	}
	t.borrowed.outcome = t.machine.Dispatch(m)
	return !t.running(m.Program) || t.borrowed.by.stop != vm.None
}

// syncDriver tells the machine that a program has stopped in the driver, if so. It returns the
// work of the program there that is not in the machine's profile yet.
func (t *Table) syncDriver(l *loaded) vm.Profile {
	if !l.inDriver {
		return vm.Profile{}
	}
	done, stopped := t.doneThere(l)
	if stopped {
		t.stoppedThere(l, &done)
	}
	return done
}

// doneThere returns the work of a program in the driver that is not in the machine's profile yet,
// and whether it has stopped there.
func (t *Table) doneThere(l *loaded) (done vm.Profile, stopped bool) {
	p, stopped, err := l.resident.Profile()
	if err != nil {
		return vm.Profile{}, false
	}
	return p.Since(&l.merged), stopped
}

// stoppedThere stops a program that has stopped in the driver, if the machine does not know that
// yet.
func (t *Table) stoppedThere(l *loaded, done *vm.Profile) {
	if !t.running(l.id) {
		return
	}
	t.machine.Stop(l.id, vm.None)
	if done.Aborts[vm.OutOfBudget] > 0 {
		t.count(vni.NICProgramsStopped)
	}
}

// Displayed notes a value that a program has displayed in the driver.
func (t *Table) Displayed(id vm.ID, value int64) {
	if l := t.loaded[id]; l != nil && l.resident != nil {
		l.log.add(value)
	}
}
