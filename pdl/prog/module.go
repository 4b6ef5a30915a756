package prog

import (
	"crypto/sha256"
	"slices"
)

// A Module is a compiled program, as it is loaded: relocatable, since its jumps are relative and its data begins at 0.
type Module struct {
	Name      string
	DataWords int       // of data, zero when the program starts; Registers at least
	Code      []Word    //
	Init      int       // where the initialisation begins in Code
	Triggers  []Trigger // by number
	Names     []Symbol  // of programs and nodes that the program addresses by name
	Variables []Var     // in the order of the source; for tools, and to see whether two layouts match
	Lines     []Line    // by PC
}

// A Trigger is a number by which messages address a block of a program (PANIC-17).
type Trigger struct {
	Number uint32
	Entry  int // where its block begins in Code
}

// A Symbol is a name that a NIC turns into a number when the program uses it.
type Symbol struct {
	Of   SymbolKind
	Name string
}

// A SymbolKind is what a symbol names.
type SymbolKind uint8

// What symbols name.
const (
	ProgramName SymbolKind = iota + 1
	NodeName
)

// String returns the word for the kind.
func (k SymbolKind) String() string {
	if k == NodeName {
		return "node"
	}
	return "program"
}

// A Var is a variable of the source and where it lies.
type Var struct {
	Name string
	Range
	Array bool
}

// A Line says that the code from PC on, up to the next Line, was compiled from a line of the source.
type Line struct {
	PC   int
	Line int
}

// Find returns the trigger with a number.
func (m *Module) Find(number uint32) (Trigger, bool) {
	for _, t := range m.Triggers {
		if t.Number == number {
			return t, true
		}
	}
	return Trigger{}, false
}

// LineAt returns the source line of an instruction, 0 if the module does not say.
func (m *Module) LineAt(pc int) (line int) {
	for _, l := range m.Lines {
		if l.PC > pc {
			break
		}
		line = l.Line
	}
	return line
}

// Hash names the program by its contents: it is what the encoding ends in.
func (m *Module) Hash() [sha256.Size]byte {
	b := m.body()
	return sha256.Sum256(b)
}

// SameLayout reports whether a program's data means the same to another version of it, so that it may be kept when the
// one replaces the other.
func (m *Module) SameLayout(other *Module) bool {
	if m.DataWords != other.DataWords || len(m.Variables) != len(other.Variables) {
		return false
	}
	for i, v := range m.Variables {
		if v != other.Variables[i] {
			return false
		}
	}
	return true
}

// Delays reports whether the program delays messages that it judges.
func (m *Module) Delays() bool {
	return slices.ContainsFunc(m.Code, func(w Word) bool { return w.Op() == After })
}

// UsesSegments reports whether the program reads or changes segments, or locks and flags of such.
func (m *Module) UsesSegments() bool {
	return slices.ContainsFunc(m.Code, func(w Word) bool {
		switch w.Op() {
		case Deliver, Deliverp, Get, Lock, Setflag, Clearlock:
			return true
		}
		return false
	})
}
