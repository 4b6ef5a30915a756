package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/pdl/prog"
)

// Reasons for which a machine refuses a call.
var (
	ErrNoRoom    = errors.New("no room")
	ErrTaken     = errors.New("number taken")
	ErrNoProgram = errors.New("no such program")
	ErrInUse     = errors.New("an activation is under way")
)

// A Config gives the resources of a machine. New allocates all of them.
type Config struct {
	Host      Host
	CodeWords int // of code memory, for all programs together
	DataWords int // of data memory
	Programs  int // largest number of programs
	Budget    int // largest number of instructions of one activation
	// Overlap is the number of words by which the data of neighbouring programs overlap. More
	// than 0 serves only to test that Audit notices it.
	Overlap int
}

// A Machine is the virtual machine of one NIC.
type Machine struct {
	cfg      Config
	code     []prog.Word // PANIC-10
	data     []int64
	programs []*program    // in the order of their code, which is also that of their data
	table    []*program    // by id; open addressing, at most half full
	shift    uint8         // of the hash of an id
	unknown  uint64        // messages for programs that do not exist
	last     int           // cost of the last activation
	members  []Destination // destinations of the current SEND to all
	after    int64         // delay of the message that the last activation judged, in ns
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// New returns a machine without programs.
func New(cfg Config) (*Machine, error) {
	switch {
	case !littleEndian:
		return nil, errors.New(
			"new virtual machine: this processor is big-endian, " +
				"and programs see memory as words of a little-endian one")
	case cfg.Host == nil || cfg.CodeWords < 1 || cfg.DataWords < prog.Registers || cfg.Programs < 1 || cfg.Budget < 1:
		return nil, fmt.Errorf(
			"new virtual machine: %d words of code, %d of data, %d programs, a budget of %d: "+
				"expected 1, %d, 1, 1 and more, and a host",
			cfg.CodeWords, cfg.DataWords, cfg.Programs, cfg.Budget, prog.Registers)
	}
	m := &Machine{cfg: cfg, code: make([]prog.Word, cfg.CodeWords), data: make([]int64, cfg.DataWords), shift: 64}
	size := 1
	for ; size < 2*cfg.Programs; size *= 2 {
		m.shift--
	}
	m.table = make([]*program, size)
	return m, nil
}

// slot returns the index at which the search for an id begins.
func (m *Machine) slot(id ID) uint64 { return uint64(id) * 0x9e3779b97f4a7c15 >> m.shift }

// find returns the program with an id, or nil.
func (m *Machine) find(id ID) *program {
	mask := uint64(len(m.table) - 1)
	for i := m.slot(id) & mask; ; i = (i + 1) & mask {
		p := m.table[i]
		if p == nil || p.id == id {
			return p
		}
	}
}

// index rebuilds the table. Programs seldom come or go.
func (m *Machine) index() {
	clear(m.table)
	mask := uint64(len(m.table) - 1)
	for _, p := range m.programs {
		i := m.slot(p.id) & mask
		for m.table[i] != nil {
			i = (i + 1) & mask
		}
		m.table[i] = p
	}
}

// Load verifies a module and places it in memory. If necessary it moves other programs. The
// program gets the number id, or a free one if id is 0. It does not run before Start.
func (m *Machine) Load(id ID, module *prog.Module) (ID, error) {
	p, err := m.load(id, module)
	if err != nil {
		return 0, fmt.Errorf("load program %s: %w", module.Name, err)
	}
	return p.id, nil
}

func (m *Machine) load(id ID, module *prog.Module) (*program, error) {
	if err := module.Verify(); err != nil {
		return nil, err
	}
	if len(m.programs) >= m.cfg.Programs {
		return nil, fmt.Errorf("%w: %d programs are loaded, which is all there may be", ErrNoRoom, len(m.programs))
	}
	if id == 0 {
		for id = 1; m.find(id) != nil; id++ {
		}
	} else if p := m.find(id); p != nil {
		return nil, fmt.Errorf("%w: %d is %s", ErrTaken, id, p.module.Name)
	}
	p := &program{id: id, module: module}
	if err := m.place(p); err != nil {
		return nil, err
	}
	m.index()
	return p, nil
}

// Replace replaces a program by another version with the same number and the same profile. It
// fails with ErrInUse during an activation. If the layouts match, the program keeps its data and
// its state, and kept is true. Otherwise it is as if newly loaded.
func (m *Machine) Replace(id ID, module *prog.Module) (kept bool, err error) {
	fail := func(err error) (bool, error) { return false, fmt.Errorf("replace program %d: %w", id, err) }
	old := m.find(id)
	switch {
	case old == nil:
		return fail(ErrNoProgram)
	case old.inUse():
		return fail(ErrInUse)
	}
	if err := module.Verify(); err != nil {
		return fail(err)
	}
	p := &program{id: id, module: module, profile: old.profile}
	if err := m.place(p); err != nil {
		return fail(err)
	}
	if kept = module.SameLayout(old.module); kept {
		copy(p.mem, old.mem)
		p.state = old.state
	}
	m.remove(old)
	return kept, nil
}

// Unload removes a program.
func (m *Machine) Unload(id ID) error {
	p := m.find(id)
	switch {
	case p == nil:
		return fmt.Errorf("unload program %d: %w", id, ErrNoProgram)
	case p.pending > 0 || p.state == running:
		return fmt.Errorf("unload program %d: %w", id, ErrInUse)
	}
	m.remove(p)
	return nil
}

func (m *Machine) remove(p *program) {
	m.programs = slices.DeleteFunc(m.programs, func(q *program) bool { return q == p })
	m.index()
}

// Exchange exchanges the numbers and the profiles of two programs, so that one takes the place
// of the other. It fails with ErrInUse during an activation. If keep is set and the layouts
// match, the program that gets number a also takes over the data and the state of the old one,
// and kept is true.
func (m *Machine) Exchange(a, b ID, keep bool) (kept bool, err error) {
	p, q := m.find(a), m.find(b)
	switch {
	case p == nil || q == nil:
		return false, fmt.Errorf("exchange programs %d and %d: %w", a, b, ErrNoProgram)
	case p.inUse() || q.inUse():
		return false, fmt.Errorf("exchange programs %d and %d: %w", a, b, ErrInUse)
	}
	p.id, q.id = q.id, p.id
	p.profile, q.profile = q.profile, p.profile
	if kept = keep && p.module.SameLayout(q.module); kept {
		copy(q.mem, p.mem)
		q.state = p.state
	}
	m.index()
	return kept, nil
}

// Renumber changes the number of a program.
func (m *Machine) Renumber(from, to ID) error {
	p := m.find(from)
	switch {
	case p == nil:
		return fmt.Errorf("renumber program %d: %w", from, ErrNoProgram)
	case m.find(to) != nil:
		return fmt.Errorf("renumber program %d: %w: %d", from, ErrTaken, to)
	}
	p.id = to
	m.index()
	return nil
}

// Stop stops a program for a reason of its NIC. The reason counts as an aborted activation,
// unless it is None. If the NIC has refused a message for that reason, the activation was
// aborted for SendRefused, and this abort is counted under why instead. Stop does nothing during
// an activation.
func (m *Machine) Stop(id ID, why Cause) {
	p := m.find(id)
	if p == nil || p.inUse() {
		return
	}
	if p.state = stopped; why != None {
		if p.profile.LastCause == SendRefused {
			p.profile.Aborts[SendRefused]--
		}
		p.profile.LastCause = why
		p.profile.Aborts[why]++
	}
}

// Merge adds to a program's profile what the program has done elsewhere.
func (m *Machine) Merge(id ID, done Profile) {
	if p := m.find(id); p != nil {
		p.profile.Add(&done)
	}
}

// Last returns the cost of the last activation that has ended, as counted against its budget.
func (m *Machine) Last() int { return m.last }

// Charge adds to the time in a program's profile, in units of the caller.
func (m *Machine) Charge(id ID, time int64) {
	if p := m.find(id); p != nil {
		p.profile.Time += time
	}
}

// An Info describes a loaded program.
type Info struct {
	ID        ID
	Module    *prog.Module
	Begun     bool  // it was started
	Running   bool  // it was started and has not stopped
	LastAbort Cause // None if it was never aborted
	Profile   Profile
}

// Info returns the description of a program. ok is false if there is none with this id.
func (m *Machine) Info(id ID) (Info, bool) {
	p := m.find(id)
	if p == nil {
		return Info{}, false
	}
	return Info{p.id, p.module, p.state != loaded,
		p.state != loaded && p.state != stopped, p.profile.LastCause, p.profile}, true
}

// IDs returns the numbers of the programs, in ascending order.
func (m *Machine) IDs() []ID {
	var ids []ID
	for _, p := range m.programs {
		ids = append(ids, p.id)
	}
	slices.Sort(ids)
	return ids
}

// Unknown returns the number of messages for programs that do not exist.
func (m *Machine) Unknown() uint64 { return m.unknown }

// Audit returns an error if two programs overlap in memory.
func (m *Machine) Audit() error {
	for i := 1; i < len(m.programs); i++ {
		p, q := m.programs[i-1], m.programs[i]
		if p.codeBase+len(p.code) > q.codeBase || p.dataBase+len(p.mem) > q.dataBase {
			return fmt.Errorf("virtual machine: programs %d and %d overlap", p.id, q.id)
		}
	}
	return nil
}

// Variable returns a copy of a program's variable, by its name in the source.
func (m *Machine) Variable(id ID, name string) ([]int64, error) {
	p := m.find(id)
	if p == nil {
		return nil, fmt.Errorf("variable %s of program %d: %w", name, id, ErrNoProgram)
	}
	for _, v := range p.module.Variables {
		if v.Name == name {
			return slices.Clone(p.mem[v.Base:][:v.Len]), nil
		}
	}
	return nil, fmt.Errorf("variable %s of program %d: it has none of this name", name, id)
}
