package program

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A program is put in place in two steps, so that it can be put in place on many NICs, or on none
// (PANIC-2):
//
//	Prepare ─► prepared: verified, in memory ── Commit ──► live; the replaced one is kept
//	               │ Undo, PrepareWithin                   │ Undo          │ Settle, PrepareWithin
//	               ▼                                       ▼               ▼
//	             gone                                    gone: as before  the replaced one is gone
//
// Commit never fails for lack of a resource, so a fabric that has prepared can commit. The
// engine's caller can call it only between two activations, so a program replaces another between
// two activations.

// Reasons for a refusal by the table.
var (
	ErrNoProgram = vm.ErrNoProgram
	ErrTaken     = vm.ErrTaken
	ErrGuarded   = errors.New("the process has a guard")
	ErrDelays    = errors.New("the program cannot guard there")
	ErrNotTheirs = errors.New("the process is another user's")
	ErrNoRoom    = vm.ErrNoRoom
	ErrNoTrigger = errors.New("no such trigger")
	ErrInactive  = errors.New("the program takes no messages")
	ErrKey       = errors.New("no such preparation, or it has run out")
	ErrState     = errors.New("the program is not in a state for that")
)

// A Spec says which program is to be loaded, and how.
type Spec struct {
	Module   *prog.Module
	ID       vm.ID // 0: a free number
	Replace  bool  // the program with the number; if that is 0, with the module's name
	Start    bool  // run the initialisation at once, unless it continues the program before
	Resident bool  // messages of other NICs arrive as datagrams, and may be lost
	// Guards is the process whose messages it filters. Zero: none, or that of the guard that it
	// replaces.
	Guards   vni.Name
	Outgoing bool   // it filters messages from that process, not to it
	Trigger  uint32 // the trigger for these messages
	Owner    Owner  // the user that has loaded it
	GuardAny bool   // it may guard processes of every user, not only of its owner
}

// loaded is a program that has been put in place.
type loaded struct {
	id           vm.ID
	spec         Spec
	log          log
	activated    uint32 // number of activations, modulo 2³²: see timed
	refusals     int    // messages that could not be sent, since refusedSince
	refusedSince clock.Time
	resident     Resident   // the program in the driver; nil: none
	inDriver     bool       // the driver has the variables
	unbegun      bool       // its initialisation was aborted
	merged       vm.Profile // the part of its profile there that the machine's includes
	// dropped counts messages that it has kept from the process that it guards, or refused to
	// send.
	dropped uint64
	delayed uint64   // messages of the process that it guards
	stop    vm.Cause // the reason to stop it after its activation; None: no stop
}

// prepared is a program on its way to its place, or the program that it has replaced.
type prepared struct {
	key      uint64
	spec     Spec
	hidden   vm.ID // number of the one that is not in its place; 0: none
	replaced *loaded
	resident Resident // until Commit
	// live is the program that Commit has put in place, which may have been unloaded since; nil:
	// not committed.
	live  *loaded
	kept  bool // it has the data of the program that it replaced
	until clock.Time
}

// hiddenID returns a number for a program that is not in its place. No message can have it, since
// it is a process's number.
func (t *Table) hiddenID() vm.ID { return ProcessBit | vm.ID(t.lastKey&0x7fff_ffff) }

// Prepare verifies a program and takes memory for it. The key names it for Commit.
func (t *Table) Prepare(s Spec) (key uint64, id vm.ID, err error) {
	fail := func(err error) (uint64, vm.ID, error) {
		return 0, 0, fmt.Errorf("load program %s: %w", s.Module.Name, err)
	}
	if err := t.start(); err != nil {
		return fail(err)
	}
	old, err := t.placeOf(&s)
	if err == nil {
		err = t.mayGuard(&s, old)
	}
	switch {
	case err != nil:
		return fail(err)
	case len(t.prepared) >= limits.ProgramPrepared:
		return fail(fmt.Errorf("%w: %d others are being loaded", ErrNoRoom, len(t.prepared)))
	case old == nil && len(t.loaded)+t.fresh() >= limits.Programs:
		return fail(fmt.Errorf("%w: %d programs are loaded, which is all there may be", ErrNoRoom, len(t.loaded)))
	}
	t.lastKey++
	p := &prepared{
		key: t.lastKey, spec: s, hidden: t.hiddenID(), replaced: old, until: t.nic.Now().Add(limits.PrepareWithin),
	}
	if _, err := t.machine.Load(p.hidden, s.Module); err != nil {
		return 0, 0, err
	}
	t.prepared = append(t.prepared, p)
	t.nic.CheckAt(p.until)
	return p.key, s.ID, nil
}

// fresh returns how many prepared programs replace none.
func (t *Table) fresh() (n int) {
	for _, p := range t.prepared {
		if p.replaced == nil && p.live == nil {
			n++
		}
	}
	return n
}

// placeOf determines the number of a program, and the program that it is to replace.
func (t *Table) placeOf(s *Spec) (old *loaded, err error) {
	if s.ID&ProcessBit != 0 {
		return nil, fmt.Errorf("%w: %d; numbers of programs are below %d", ErrTaken, s.ID, ProcessBit)
	}
	if s.Replace && s.ID == 0 {
		if id, ok := t.named(s.Module.Name); ok {
			s.ID = id
		}
	}
	if s.ID != 0 {
		old = t.loaded[s.ID]
	}
	for _, p := range t.prepared {
		if s.ID != 0 && p.spec.ID == s.ID && (p.live == nil || t.inPlace(p)) {
			return nil, fmt.Errorf("%w: %d is being loaded already", ErrTaken, s.ID)
		}
	}
	switch {
	case old != nil && !s.Replace:
		return nil, fmt.Errorf("%w: %d is %s; unload or replace it", ErrTaken, s.ID, old.spec.Module.Name)
	case old == nil && s.ID == 0:
		for s.ID = 1; t.numbered(s.ID); s.ID++ {
		}
	}
	return old, nil
}

// numbered reports whether a program has a number, or will have it.
func (t *Table) numbered(id vm.ID) bool {
	return t.loaded[id] != nil || slices.ContainsFunc(t.prepared, func(p *prepared) bool {
		return p.spec.ID == id && p.live == nil
	})
}

// inPlace reports whether the program that a preparation has put in place is still there. It may
// have been unloaded, and its number given to another.
func (t *Table) inPlace(p *prepared) bool { return p.live != nil && t.loaded[p.spec.ID] == p.live }

// PreparedBy returns the user that has made a preparation. Keys can be guessed, so no other user
// may commit it or undo it.
func (t *Table) PreparedBy(key uint64) (owner Owner, err error) {
	p, err := t.preparation(key)
	if err != nil {
		return Owner{}, err
	}
	return p.spec.Owner, nil
}

// preparation returns the preparation with a key.
func (t *Table) preparation(key uint64) (*prepared, error) {
	for _, p := range t.prepared {
		if p.key == key {
			return p, nil
		}
	}
	return nil, fmt.Errorf("program: %w: %d", ErrKey, key)
}

// Commit puts a prepared program in its place, and starts it if that was asked for. If kept is
// true, the program has taken over the data of its predecessor and continues with it. A stopped
// program leaves no data. Until Settle, Undo reverses all of it.
func (t *Table) Commit(key uint64) (id vm.ID, kept bool, err error) {
	p, err := t.preparation(key)
	if err != nil {
		return 0, false, err
	}
	id = p.spec.ID
	switch {
	case p.live != nil:
		return id, false, fmt.Errorf("commit program %s: %w: it has been", p.spec.Module.Name, ErrState)
	case p.replaced != t.loaded[id]: // it has been unloaded meanwhile
		return id, false, fmt.Errorf("commit program %s: %w: %d is another by now", p.spec.Module.Name, ErrState, id)
	case p.replaced == nil:
		err = t.machine.Renumber(p.hidden, id)
		p.hidden = 0
	default:
		if err = t.leave(p.replaced); err == nil {
			keep := t.running(id) && t.cfg.Defect != mutate.ReplaceForgets
			kept, err = t.machine.Exchange(id, p.hidden, keep)
		}
	}
	if err != nil {
		return id, false, err
	}
	l := &loaded{id: id, spec: p.spec, resident: p.resident}
	p.live, p.kept, p.resident, p.until = l, kept, nil, t.nic.Now().Add(limits.PrepareWithin)
	if p.replaced != nil {
		l.log, l.dropped, l.delayed = p.replaced.log, p.replaced.dropped, p.replaced.delayed
		// Otherwise Undo would find values of this program in the log of the one before.
		l.log.values = slices.Clone(l.log.values)
	}
	t.install(l, p.replaced)
	if p.spec.Start && !t.running(id) {
		t.Start(id)
	}
	return id, kept, t.enter(l)
}

// install makes a program live in the place of another, nil if there is none.
func (t *Table) install(l, before *loaded) {
	if before != nil && before.spec.gate() != l.spec.gate() {
		t.unguard(before)
	}
	t.loaded[l.id] = l
	if t.refer(l.spec.Module.Name); before != nil {
		t.refer(before.spec.Module.Name)
	}
	t.setGuard(l)
	t.announce(l, false)
}

// Undo reverses a preparation, or a Commit. Then all is as before, except for the actions of the
// program in the meantime. It touches nothing else. If the program has been unloaded meanwhile,
// its number is free or another's, so its predecessor cannot come back. The predecessor has ended
// with it, and Undo returns an error that says so.
func (t *Table) Undo(key uint64) error {
	p, err := t.preparation(key)
	if err != nil {
		return err
	}
	switch {
	case p.live == nil, t.cfg.Defect == mutate.UndoForgotten:
	case !t.inPlace(p) && t.cfg.Defect != mutate.UndoBlind:
		err = t.endReplaced(p)
	case p.replaced == nil:
		err = t.Unload(p.spec.ID)
	default:
		err = t.restore(p)
	}
	if p.hidden != 0 {
		err = errors.Join(err, t.machine.Unload(p.hidden))
	}
	t.drop(p)
	return errors.Join(err, quit(p.resident))
}

// endReplaced ends the replaced program of a preparation when it cannot come back.
func (t *Table) endReplaced(p *prepared) error {
	if p.replaced == nil {
		return nil
	}
	err := fmt.Errorf("undo program %s: %w: %d was unloaded meanwhile, and with it %s, which it had replaced",
		p.spec.Module.Name, ErrState, p.spec.ID, p.replaced.spec.Module.Name)
	return errors.Join(err, quit(p.replaced.resident))
}

// restore puts the replaced program of a preparation back in its place. It continues with the
// data of its successor, if that had taken over the data. If the successor has stopped, it
// continues with its own data from the time of the replacement, and runs as it did then.
func (t *Table) restore(p *prepared) error {
	id := p.spec.ID
	left := t.leave(p.live)
	keep := p.kept && left == nil && (t.running(id) || t.cfg.Defect == mutate.UndoStops)
	if _, err := t.machine.Exchange(id, p.hidden, keep); err != nil {
		return errors.Join(left, err)
	}
	// like the rest of the profile
	p.replaced.dropped, p.replaced.delayed = p.live.dropped, p.live.delayed
	t.install(p.replaced, p.live)
	return errors.Join(left, quit(p.live.resident), t.enter(p.replaced))
}

// Settle makes a Commit final.
func (t *Table) Settle(key uint64) error {
	p, err := t.preparation(key)
	if err != nil {
		return err
	}
	if p.live == nil {
		return fmt.Errorf("settle program %s: %w: it is not committed", p.spec.Module.Name, ErrState)
	}
	t.drop(p)
	if p.hidden == 0 {
		return nil
	}
	return errors.Join(quit(p.replaced.resident), t.machine.Unload(p.hidden))
}

func (t *Table) drop(p *prepared) {
	t.prepared = slices.DeleteFunc(t.prepared, func(q *prepared) bool { return q == p })
}

// Expire ends preparations whose time is over: committed programs stay, others go. It is called
// at the time of a CheckAt.
func (t *Table) Expire() {
	for _, p := range slices.Clone(t.prepared) {
		switch {
		case t.nic.Now() < p.until:
			t.nic.CheckAt(p.until)
		case p.live != nil:
			_ = t.Settle(p.key) // cannot fail for an existing preparation
		default:
			_ = t.Undo(p.key)
		}
	}
}

// Load puts a program in its place at once.
func (t *Table) Load(s Spec) (id vm.ID, kept bool, err error) {
	key, _, err := t.Prepare(s)
	if err != nil {
		return 0, false, err
	}
	if id, kept, err = t.Commit(key); err != nil {
		return 0, false, errors.Join(err, t.Undo(key))
	}
	return id, kept, t.Settle(key)
}

// Unload removes a program. Waiting messages for it find no program.
func (t *Table) Unload(id vm.ID) error {
	l := t.loaded[id]
	if l == nil {
		return fmt.Errorf("unload program %d: %w", id, ErrNoProgram)
	}
	if err := t.machine.Unload(id); err != nil {
		return err
	}
	err := quit(l.resident) // earlier datagrams have been handled; later ones find no program
	if t.cfg.Defect != mutate.GuardOutlives {
		t.unguard(l)
	}
	delete(t.loaded, id)
	t.refer(l.spec.Module.Name)
	t.announce(l, true)
	return err
}

// Start runs the initialisation of a program. From then on messages activate it.
func (t *Table) Start(id vm.ID) vm.Outcome {
	l := t.loaded[id]
	if l == nil {
		return vm.NoProgram
	}
	timed := t.timed(l)
	o := t.machine.Start(id)
	l.unbegun = o == vm.Aborted
	t.charge(l, o, timed)
	return o
}

// Begin is Start, and moves the program to the driver if it resides there.
func (t *Table) Begin(id vm.ID) (vm.Outcome, error) {
	o := t.Start(id)
	if l := t.loaded[id]; l != nil {
		return o, t.enter(l)
	}
	return o, nil
}

// running reports whether a program accepts messages.
func (t *Table) running(id vm.ID) bool {
	info, ok := t.machine.Info(id)
	return ok && info.Running
}

// ids returns the numbers of the programs, sorted.
func (t *Table) ids() []vm.ID { return slices.Sorted(maps.Keys(t.loaded)) }

// named returns the program of this NIC with a name. If several have it, it returns the lowest
// number.
func (t *Table) named(name string) (vm.ID, bool) {
	id, ok := t.names[name]
	return id, ok
}
