// Package prog defines compiled programs: the instruction set, the module with a program's code
// and all that a NIC must know of it, its encoding, its verifier and its disassembler. The
// compiler (pdl) makes modules, and the virtual machine (pdl/vm) runs them. Neither knows the
// other.
//
//	63            32 31  24 23  16 15   8 7    0
//	┌───────────────┬──────┬──────┬──────┬──────┐
//	│      imm      │  C   │  B   │  A   │  op  │   an instruction: one word
//	└───────────────┴──────┴──────┴──────┴──────┘
//
// A, B and C name registers: the first 256 words of the program's data. One table,
// pdl/prog/opgen/table.go, defines the fields of all opcodes. The effects table in this package,
// which serves verifier and disassembler, and the interpreter's switch are generated from it.
package prog

//go:generate sh -c "go run ./opgen effects >opcodes.go.new && mv opcodes.go.new opcodes.go"
//go:generate sh -c "go run ./opgen loop >../vm/loop.go.new && mv ../vm/loop.go.new ../vm/loop.go"

// A Word is one instruction.
type Word uint64

// An Op is an opcode. Zero is none, so empty memory does not run.
type Op uint8

// Make returns the instruction with the given fields.
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

// Half returns B and C together as a signed number of 16 bits.
func (w Word) Half() int16 { return int16(w >> 16) }

// Imm returns the fourth field as a signed number of 32 bits.
func (w Word) Imm() int32 { return int32(w >> 32) }

// A Range is a variable as an instruction names it: its first word, and its number of words.
type Range struct{ Base, Len int }

// Imm returns the range as the fourth field of an instruction: the first word in the lower half,
// the number of words minus one in the upper half.
func (r Range) Imm() int32 { return int32(uint32(r.Base) | uint32(r.Len-1)<<16) }

// Has reports whether a register is a word of the variable.
func (r Range) Has(register uint8) bool {
	return int(register) >= r.Base && int(register) < r.Base+r.Len
}

// Range returns the variable that the fourth field names.
func (w Word) Range() Range {
	return Range{Base: int(w >> 32 & 0xffff), Len: int(w>>48) + 1}
}

// NearLimit returns the halves of the fourth field: the distance of a jump, and the number to
// compare with.
func (w Word) NearLimit() (distance, number int16) { return int16(w >> 32), int16(w >> 48) }

// A Kind is the meaning of a field of an instruction.
type Kind uint8

// The kinds of A, B and C; those of registers come first. Zero is an unused field, which must be
// zero.
const (
	Unused Kind = iota
	Read        // a register that the instruction reads
	Write       // a register that it writes
	Modify      // a register that it reads and writes
	Half        // for B: B and C are one signed number
	Small       // for C: a signed number
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
	Unit                              // bytes per step of an index into the packet: 1 or 8
)

// A Flow says which instruction comes next.
type Flow uint8

// The kinds of flow.
const (
	Next   Flow = iota // to the next instruction
	Branch             // to the next instruction, or to the target
	Jump               // to the target
	End                // the activation ends
)

// An Effect describes an opcode.
type Effect struct {
	Name         string
	A, B, C, Imm Kind
	// Args is the number of registers from A on that a service reads; 0 stands for A alone.
	Args int
	Flow Flow
	Then Op     // for a pair, the opcode of the instruction that follows; else 0
	Mean string // description for readers
}

// Effect returns the description of an opcode. ok is false if there is no such opcode.
func (op Op) Effect() (e *Effect, ok bool) {
	if op == 0 || op >= opEnd {
		return nil, false
	}
	return &effects[op], true
}

// pairs maps two opcodes to the one opcode that does both.
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

// Fuse marks pairs of adjacent instructions for which there is one opcode. It moves nothing: the
// second instruction stays as it is.
func Fuse(code []Word) {
	for pc := 0; pc+1 < len(code); pc++ {
		if op, ok := pairs[[2]Op{code[pc].Op(), code[pc+1].Op()}]; ok {
			code[pc] = code[pc]&^0xff | Word(op)
			pc++
		}
	}
}

// Apart returns the first instruction of a pair alone. The second follows it as before. It
// returns any other instruction unchanged.
func (w Word) Apart() Word {
	if e, ok := w.Op().Effect(); ok && e.Then != 0 {
		return w&^0xff | Word(firsts[w.Op()])
	}
	return w
}

// firsts maps the opcode of a pair to the first of its two.
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

// Target returns the index to which the instruction at pc may jump. ok is false if it never
// jumps.
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

// The registers that the virtual machine sets before an activation. The others keep their
// values.
const (
	PacketLen = 0 // length in bytes of the activation's message
	Source    = 1 // NIC id of the sender
	FirstFree = 2 // the first register for the program's variables
)
