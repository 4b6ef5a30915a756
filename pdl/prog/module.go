package prog

import (
	"crypto/sha256"
	"slices"
)

// A Module is a compiled program in the form that is loaded. It is relocatable, since its jumps
// are relative and its data begins at 0.
type Module struct {
	Name      string
	DataWords int       // of data, zero at the program's start; at least Registers
	Code      []Word    //
	Init      int       // index in Code of the initialisation
	Triggers  []Trigger // by number
	Names     []Symbol  // programs and nodes that the program addresses by name
	Variables []Var     // in source order; for tools and for SameLayout
	Lines     []Line    // by PC
}

// A Trigger is a number by which messages address a block of a program.
type Trigger struct {
	Number uint32
	Entry  int // index in Code of its block
}

// A Symbol is a name that a NIC resolves to a number when the program uses it.
type Symbol struct {
	Of   SymbolKind
	Name string
}

// A SymbolKind says whether a symbol names a program or a node.
type SymbolKind uint8

// The kinds of symbols.
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

// A Var is a variable of the source and its place in the data.
type Var struct {
	Name string
	Range
	Array bool
}

// A Line gives the source line of the code from PC up to the next Line.
type Line struct {
	PC   int
	Line int
}

// Find returns the trigger with the given number.
func (m *Module) Find(number uint32) (Trigger, bool) {
	for _, t := range m.Triggers {
		if t.Number == number {
			return t, true
		}
	}
	return Trigger{}, false
}

// LineAt returns the source line of an instruction, or 0 if it is unknown.
func (m *Module) LineAt(pc int) (line int) {
	for _, l := range m.Lines {
		if l.PC > pc {
			break
		}
		line = l.Line
	}
	return line
}

// Hash returns the SHA-256 of the program's contents, which identifies it. It is also the end of
// the encoding.
func (m *Module) Hash() [sha256.Size]byte {
	b := m.body()
	return sha256.Sum256(b)
}

// SameLayout reports whether both versions of a program lay out their data in the same way. Then
// one can replace the other and keep the data.
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

// Delays reports whether the program can delay the messages that it judges.
func (m *Module) Delays() bool {
	return slices.ContainsFunc(m.Code, func(w Word) bool { return w.Op() == After })
}

// UsesSegments reports whether the program accesses segments, or their locks and flags.
func (m *Module) UsesSegments() bool {
	return slices.ContainsFunc(m.Code, func(w Word) bool {
		switch w.Op() {
		case Deliver, Deliverp, Get, Lock, Setflag, Clearlock:
			return true
		}
		return false
	})
}
