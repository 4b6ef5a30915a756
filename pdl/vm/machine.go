package vm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/pdl/prog"
)

// Why a machine refuses.
var (
	ErrNoRoom    = errors.New("no room")
	ErrTaken     = errors.New("number taken")
	ErrNoProgram = errors.New("no such program")
	ErrInUse     = errors.New("an activation is under way")
)

// A Config says what a NIC gives its programs. All of it is allocated when the machine is made.
type Config struct {
	Host      Host
	CodeWords int // of code memory, for all programs together
	DataWords int // of data memory
	Programs  int // at most
	Budget    int // instructions that one activation may execute
	Overlap   int // words by which the data of programs lie on one another: more than 0 only to see that it is noticed
}

// A Machine is the virtual machine of one NIC.
type Machine struct {
	cfg      Config
	code     []prog.Word // PANIC-10
	data     []int64
	programs []*program    // by where their code begins, which is the order of their data as well
	table    []*program    // by id: open addressing, twice as large as it need be
	shift    uint8         // of the hash
	unknown  uint64        // messages for programs that there are not
	last     int           // what the last activation has cost
	members  []Destination // of the SEND to all that is executed
	after    int64         // by how many ns it delays the message that it judged
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// New makes a machine without programs.
func New(cfg Config) (*Machine, error) {
	switch {
	case !littleEndian:
		return nil, errors.New("new virtual machine: this processor is big-endian, and programs see memory as words of a little-endian one")
	case cfg.Host == nil || cfg.CodeWords < 1 || cfg.DataWords < prog.Registers || cfg.Programs < 1 || cfg.Budget < 1:
		return nil, fmt.Errorf("new virtual machine: %d words of code, %d of data, %d programs, a budget of %d: expected 1, %d, 1, 1 and more, and a host",
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

// slot is where the search for an id begins.
func (m *Machine) slot(id ID) uint64 { return uint64(id) * 0x9e3779b97f4a7c15 >> m.shift }

// find returns the program with an id, nil if there is none.
func (m *Machine) find(id ID) *program {
	mask := uint64(len(m.table) - 1)
	for i := m.slot(id) & mask; ; i = (i + 1) & mask {
		p := m.table[i]
		if p == nil || p.id == id {
			return p
		}
	}
}

// index makes the table anew. Programs come and go seldom.
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

// Load verifies a module and places it in memory, moving other programs if need be (PANIC-12). Its number is id, or, if
// that is 0, one that is free. Nothing of it runs before Start.
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

// Replace puts another version in the place of a program, between two activations, under the same number and with the same
// profile. If the layouts match, its data stays and it goes on as it is; else it is as if newly loaded. kept says which.
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

// Unload takes a program out.
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

// Exchange gives two programs each other's numbers, between two activations, so that one takes the place of the other, with its
// profile. If keep is set and their layouts match, the one that becomes a has the data of the one that was, and goes on as
// that was; kept says so.
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

// Renumber gives a program another number.
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

// Stop stops a program for a reason of its NIC's, which is counted as if it had aborted an activation; None is not. Where the NIC has refused a
// message for that reason, that is why its activation was aborted, and it is counted once. The program must not be in one.
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

// Merge adds to a program's profile what it has done elsewhere.
func (m *Machine) Merge(id ID, done Profile) {
	if p := m.find(id); p != nil {
		p.profile.Add(&done)
	}
}

// Last is what the last activation that has ended has cost of its budget.
func (m *Machine) Last() int { return m.last }

// Charge adds to the time of a program's profile, in units of the caller's.
func (m *Machine) Charge(id ID, time int64) {
	if p := m.find(id); p != nil {
		p.profile.Time += time
	}
}

// An Info is what is to be said of a program that is loaded.
type Info struct {
	ID        ID
	Module    *prog.Module
	Begun     bool  // it has been started
	Running   bool  // and has not stopped
	LastAbort Cause // None if it never was
	Profile   Profile
}

// Info describes a program.
func (m *Machine) Info(id ID) (Info, bool) {
	p := m.find(id)
	if p == nil {
		return Info{}, false
	}
	return Info{p.id, p.module, p.state != loaded, p.state != loaded && p.state != stopped, p.profile.LastCause, p.profile}, true
}

// IDs lists the programs in the order of their numbers.
func (m *Machine) IDs() []ID {
	var ids []ID
	for _, p := range m.programs {
		ids = append(ids, p.id)
	}
	slices.Sort(ids)
	return ids
}

// Unknown is how many messages were for programs that there are not.
func (m *Machine) Unknown() uint64 { return m.unknown }

// Audit says which programs lie on one another, if any do.
func (m *Machine) Audit() error {
	for i := 1; i < len(m.programs); i++ {
		p, q := m.programs[i-1], m.programs[i]
		if p.codeBase+len(p.code) > q.codeBase || p.dataBase+len(p.mem) > q.dataBase {
			return fmt.Errorf("virtual machine: programs %d and %d overlap", p.id, q.id)
		}
	}
	return nil
}

// Variable returns a copy of a variable of a program, by its name in the source.
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
