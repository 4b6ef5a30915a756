package program

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A program may reside in the driver of the NIC's link (pdl/ebpf): then datagrams for it are answered there, and the engine never sees them. The
// virtual machine keeps the program too. It runs the initialisation, and each message that comes to the engine all the same: from this NIC,
// reliably, or in pieces. There is one set of variables, which is in the driver; the machine borrows it for one activation:
//
//	Commit, Start ── initialisation ─► Enter: variables go to the driver ──► datagrams there
//	a message in the queue ──────────► Borrow: variables ─► machine ─► variables
//	replaced, unloaded, Undo ────────► Leave: variables come back

// A Resident is a program in the driver, compiled and loaded there. Its methods are called by the engine's caller.
type Resident interface {
	// Enter has the driver give it the datagrams that come from now on. Its variables begin with data.
	Enter(data []int64) error
	// Leave ends that, and returns the variables. It reports whether the program had stopped; what comes to it there is refused from now on.
	Leave() (data []int64, stopped bool, err error)
	// Borrow fills data with the variables, calls f while no message is handled in the driver, and has the variables be what data is then; with stop, the
	// program takes no more messages. f is told whether it has stopped. It allocates nothing: each message that the engine handles comes by it.
	Borrow(data []int64, f func(stopped bool) (stop bool)) error
	// Profile is what it has done in the driver.
	Profile() (p vm.Profile, stopped bool, err error)
	// Lost is what was lost there; of that the virtual machine, and so a profile, has nothing.
	Lost() (Losses, error)
	// Close takes it out of the driver for good.
	Close() error
}

// Losses count what was lost in the driver.
type Losses struct {
	Answers   uint64 // that could not leave
	Displays  uint64 // values for which there was no room
	Busy      uint64 // messages: another processor was at the program for too long
	Overtaken uint64 // messages: they had come before, or one that was sent later had
}

// A Driver is told which sessions there are: datagrams of others are not answered in it.
type Driver interface {
	Session(nic uint64, keys rel.DriverKeys)
	EndSession(nic uint64)
}

// SetDriver has a driver be told of sessions, beginning with those that there are.
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

// Reside gives a preparation its program in the driver, which it enters when it is committed. The table closes it from now on.
func (t *Table) Reside(key uint64, r Resident) error {
	p, err := t.preparation(key)
	if err != nil {
		return err
	}
	if !p.spec.Guards.IsZero() {
		return fmt.Errorf("program %s in the driver: %w: it guards %v, whose messages come by other ways too", p.spec.Module.Name, ErrState, p.spec.Guards)
	}
	if p.live != nil || p.resident != nil {
		return fmt.Errorf("program %s in the driver: %w", p.spec.Module.Name, ErrState)
	}
	p.resident = r
	return nil
}

// enter has a program that runs go on in the driver, if it may.
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

// leave has a program come back from the driver, with its variables.
func (t *Table) leave(l *loaded) error {
	if !l.inDriver {
		return nil
	}
	data, stopped, err := l.resident.Leave()
	there, _ := t.doneThere(l) // all of it, now that no more comes
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

// quit takes a program out of the driver for good.
func quit(r Resident) error {
	if r == nil {
		return nil
	}
	return r.Close()
}

// activate has the machine handle a message of a program, wherever its variables are.
func (t *Table) activate(l *loaded, m *vm.Message) vm.Outcome {
	if l.inDriver {
		return t.activateBorrowed(l, m)
	}
	return t.machine.Dispatch(m)
}

// activateBorrowed does that with variables that are in the driver: they are brought to where the machine has those of the program, and back.
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

// borrowed is the activation for which variables are borrowed, so that no function is made for each.
type borrowed struct {
	message *vm.Message
	by      *loaded
	outcome vm.Outcome
	handle  func(stopped bool) (stop bool)
}

// handleBorrowed has the machine handle the message: it refuses it, if the program has stopped in the driver.
func (t *Table) handleBorrowed(stopped bool) (stop bool) {
	m := t.borrowed.message
	if stopped {
		t.syncDriver(t.borrowed.by)
	}
	t.borrowed.outcome = t.machine.Dispatch(m)
	return !t.running(m.Program) || t.borrowed.by.stop != vm.None
}

// syncDriver has the machine know of a program that has stopped in the driver.
// It returns what the program has done there that is not in the machine's profile yet.
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

// doneThere is what a program has done in the driver that is not in the machine's profile yet, and whether it has stopped there.
func (t *Table) doneThere(l *loaded) (done vm.Profile, stopped bool) {
	p, stopped, err := l.resident.Profile()
	if err != nil {
		return vm.Profile{}, false
	}
	return p.Since(&l.merged), stopped
}

// stoppedThere stops a program that has stopped in the driver, if the machine does not know of it.
func (t *Table) stoppedThere(l *loaded, done *vm.Profile) {
	if !t.running(l.id) {
		return
	}
	t.machine.Stop(l.id, vm.None)
	if done.Aborts[vm.OutOfBudget] > 0 {
		t.count(vni.NICProgramsStopped)
	}
}

// Displayed notes what a program has displayed in the driver.
func (t *Table) Displayed(id vm.ID, value int64) {
	if l := t.loaded[id]; l != nil && l.resident != nil {
		l.log.add(value)
	}
}

// joinAll is errors.Join that keeps a single error as it is.
func joinAll(first, second error) error {
	if first == nil {
		return second
	}
	return errors.Join(first, second)
}
