// Package prog is the form in which programs travel: the instruction set, the module that holds a program's code and what
// else a NIC must know of it, its encoding, its verifier and its disassembler. The compiler (pdl) makes modules, the
// virtual machine (pdl/vm) runs them; neither knows of the other.
//
//	63            32 31  24 23  16 15   8 7    0
//	┌───────────────┬──────┬──────┬──────┬──────┐
//	│      imm      │  C   │  B   │  A   │  op  │   an instruction: one word
//	└───────────────┴──────┴──────┴──────┴──────┘
//
// A, B and C name registers: the first 256 words of the program's data. What an opcode takes its fields for stands in one
// table, pdl/prog/opgen/table.go, and nowhere else: the effects table here, which verifier and disassembler go by, and the
// interpreter's switch are generated from it.
package prog

//go:generate sh -c "go run ./opgen effects >opcodes.go.new && mv opcodes.go.new opcodes.go"
//go:generate sh -c "go run ./opgen loop >../vm/loop.go.new && mv ../vm/loop.go.new ../vm/loop.go"

// A Word is one instruction.
type Word uint64

// An Op is an opcode. Zero is none, so that empty memory does not run.
type Op uint8

// Make puts an instruction together.
func Make(op Op, a, b, c uint8, imm int32) Word {
	return Word(op) | Word(a)<<8 | Word(b)<<16 | Word(c)<<24 | Word(uint32(imm))<<32
}

// Op returns the instruction's opcode.
func (w Word) Op() Op { return Op(w) }

// A returns the first field.
func (w Word) A() uint8 { return uint8(w >> 8) }

// B returns the second field.
func (w Word) B() uint8 { return uint8(w >> 16) }

// C returns the third field.
func (w Word) C() uint8 { return uint8(w >> 24) }

// Half returns B and C together as a signed number.
func (w Word) Half() int16 { return int16(w >> 16) }

// Imm returns the fourth field as a signed number.
func (w Word) Imm() int32 { return int32(w >> 32) }

// A Range is a variable as an instruction names it: its first word, and how many words it has.
type Range struct{ Base, Len int }

// Imm is how an instruction holds the range: the first word in the lower half, the number of words less one in the upper.
func (r Range) Imm() int32 { return int32(uint32(r.Base) | uint32(r.Len-1)<<16) }

// Has reports whether a register is a word of the variable.
func (r Range) Has(register uint8) bool {
	return int(register) >= r.Base && int(register) < r.Base+r.Len
}

// Range returns the variable that the fourth field names.
func (w Word) Range() Range {
	return Range{Base: int(w >> 32 & 0xffff), Len: int(w>>48) + 1}
}

// NearLimit returns the two halves of the fourth field: a jump's distance and the number compared with.
func (w Word) NearLimit() (distance, number int16) { return int16(w >> 32), int16(w >> 48) }

// A Kind says what a field of an instruction is.
type Kind uint8

// The kinds of A, B and C; those of registers come first. Zero is a field that is not used, and must be zero.
const (
	Unused Kind = iota
	Read        // a register that is read
	Write       // one that is written
	Modify      // one that is read and written
	Half        // of B: B and C are one signed number
	Small       // of C: a signed number
)

// The kinds of Imm.
const (
	Number    Kind = iota + Small + 1 // any number
	Divisor                           // not 0
	Shift                             // 0 to 63
	Target                            // a jump's distance from the next instruction
	NearLimit                         // the lower half is a Target, the upper a number
	Address                           // a word of the data
	Variable                          // a Range of the data
	Name                              // an entry of the module's names
	Unit                              // how many bytes an index into the packet counts: 1 or 8
)

// A Flow says where an instruction leads.
type Flow uint8

// The ways to go on.
const (
	Next   Flow = iota // to the next instruction
	Branch             // there, or to its target
	Jump               // to its target
	End                // the activation ends
)

// An Effect is all that is to be known of an opcode without running it.
type Effect struct {
	Name         string
	A, B, C, Imm Kind
	Args         int // a service reads this many registers from A on; 0 stands for A alone
	Flow         Flow
	Then         Op     // of a pair: what the next instruction is, which follows at once; else 0
	Mean         string // what it does, for readers
}

// Effect returns what is known of the opcode. ok is false for a number that is none.
func (op Op) Effect() (e *Effect, ok bool) {
	if op == 0 || op >= opEnd {
		return nil, false
	}
	return &effects[op], true
}

// pairs finds the opcode that does two.
var pairs = func() map[[2]Op]Op {
	m := make(map[[2]Op]Op)
	for op := Op(1); op < opEnd; op++ {
		if then := effects[op].Then; then != 0 {
			m[[2]Op{opOf(effects[op].Name[:len(effects[op].Name)-1]), then}] = op
		}
	}
	return m
}()

func opOf(name string) Op {
	for op := Op(1); op < opEnd; op++ {
		if effects[op].Name == name {
			return op
		}
	}
	return 0
}

// Fuse makes pairs of instructions that follow one another, where there is an opcode for both. Nothing moves: the second
// stays what it is.
func Fuse(code []Word) {
	for pc := 0; pc+1 < len(code); pc++ {
		if op, ok := pairs[[2]Op{code[pc].Op(), code[pc+1].Op()}]; ok {
			code[pc] = code[pc]&^0xff | Word(op)
			pc++
		}
	}
}

// Apart returns the instruction without the one that it is paired with, which follows it as before.
func (w Word) Apart() Word {
	if e, ok := w.Op().Effect(); ok && e.Then != 0 {
		return w&^0xff | Word(firsts[w.Op()])
	}
	return w
}

// firsts has for each opcode that does two the one that does the first.
var firsts = func() (l [opEnd]Op) {
	for of, pair := range pairs {
		l[pair] = of[0]
	}
	return l
}()

// String returns the opcode's name.
func (op Op) String() string {
	if e, ok := op.Effect(); ok {
		return e.Name
	}
	return "op?"
}

// Target returns where the instruction at pc may jump to. ok is false if it never jumps.
func (w Word) Target(pc int) (to int, ok bool) {
	e, known := w.Op().Effect()
	switch {
	case !known:
		return 0, false
	case e.Imm == Target:
		return pc + 1 + int(w.Imm()), true
	case e.Imm == NearLimit:
		near, _ := w.NearLimit()
		return pc + 1 + int(near), true
	}
	return 0, false
}

// The registers that the virtual machine sets before an activation; the others keep what they had.
const (
	PacketLen = 0 // bytes of the message that the activation handles
	Source    = 1 // the NIC id that it came from
	FirstFree = 2 // the first that is the program's own
)
