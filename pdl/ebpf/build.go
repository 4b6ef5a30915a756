package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A builder collects instructions and labels. It allows several labels at one place, which the
// assembler does not.
type builder struct {
	ins    asm.Instructions
	label  string            // label of the next instruction
	same   map[string]string // labels at the place of another label, by name
	labels int               // number of labels made by fresh
	jumps  int               // conditional jumps in the current function
	most   int               // largest number of these in a function
}

func newBuilder() *builder { return &builder{same: make(map[string]string)} }

// emit appends instructions.
func (b *builder) emit(list ...asm.Instruction) {
	for _, in := range list {
		if b.label != "" {
			in, b.label = in.WithSymbol(b.label), ""
		}
		if op := in.OpCode.JumpOp(); op != asm.InvalidJumpOp && op != asm.Ja && op != asm.Call && op != asm.Exit {
			b.jumps++
			b.most = max(b.most, b.jumps)
		}
		b.ins = append(b.ins, in)
	}
}

// place sets a label to the next instruction.
func (b *builder) place(label string) {
	if b.label != "" {
		b.same[label] = b.label
		return
	}
	b.label = label
}

// fresh returns a new, unique label.
func (b *builder) fresh() string {
	b.labels++
	return fmt.Sprintf("l%d", b.labels)
}

// jump goes to a label.
func (b *builder) jump(label string) { b.emit(asm.Ja.Label(label)) }

// function begins a function. The kernel demands the type of a function that it calls for each
// turn of a loop, and then those of all functions.
func (b *builder) function(name string) { b.begin(name, btf.StaticFunc, nil) }

// global begins a function that the kernel verifies separately, for any numbers as its
// arguments.
func (b *builder) global(name string, arguments ...string) {
	number := &btf.Int{Name: "unsigned long", Size: 8}
	var list []btf.FuncParam
	for _, a := range arguments {
		list = append(list, btf.FuncParam{Name: a, Type: number})
	}
	b.begin(name, btf.GlobalFunc, list)
}

func (b *builder) begin(name string, linkage btf.FuncLinkage, arguments []btf.FuncParam) {
	b.place(name)
	b.jumps = 0
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	// R5 is not used, but a function must have an instruction.
	b.emit(btf.WithFuncMetadata(asm.Mov.Reg(asm.R5, asm.R1),
		&btf.Func{Name: name, Type: &btf.FuncProto{Return: integer, Params: arguments}, Linkage: linkage}))
}

// finish returns the instructions with one label for each place.
func (b *builder) finish() asm.Instructions {
	for i, in := range b.ins {
		if to, ok := b.same[in.Reference()]; ok && !in.IsLoadFromMap() {
			b.ins[i] = in.WithReference(to)
		}
	}
	return b.ins
}

// The names by which instructions refer to the maps of a program, until it is loaded.
const (
	mapData     = "data"
	mapTables   = "tables"
	mapSessions = "sessions"
	mapDisplays = "displays"
	mapBells    = "bells"
	mapSteps    = "steps"
)

// value puts the address of a map's value, plus an offset, into a register.
func (b *builder) value(dst asm.Register, of string, at int) {
	b.emit(asm.LoadMapValue(dst, 0, uint32(at)).WithReference(of))
}

// table puts a map itself into a register.
func (b *builder) table(dst asm.Register, of string) {
	b.emit(asm.LoadMapPtr(dst, 0).WithReference(of))
}

// turns calls a function up to R1 times, until it returns 1. The function gets R3 as its second
// argument.
func (b *builder) turns(function string) {
	b.emit(
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.
			WithReference(function),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
	)
}

// load and store move a word of memory.
func (b *builder) load(dst, base asm.Register, at int) {
	b.emit(asm.LoadMem(dst, base, int16(at), asm.DWord))
}
func (b *builder) store(base asm.Register, at int, src asm.Register) {
	b.emit(asm.StoreMem(base, int16(at), src, asm.DWord))
}

// set stores a constant in a word of memory.
func (b *builder) set(base asm.Register, at int, v int32) {
	b.emit(asm.Instruction{OpCode: asm.StoreImmOp(asm.DWord), Dst: base, Offset: int16(at), Constant: int64(v)})
}

// count adds a register to a word of the state. The caller holds the lock. R0 is overwritten.
func (b *builder) count(base asm.Register, at int, by asm.Register) {
	b.load(asm.R0, base, at)
	b.emit(asm.Add.Reg(asm.R0, by))
	b.store(base, at, asm.R0)
}

// reach puts the address of the received frame into R5. R6 is the context. It jumps to short if
// the first part of the frame has less than n bytes. The address is invalid after a call that
// changes the frame.
func (b *builder) reach(n int, short string) {
	b.emit(
		asm.LoadMem(asm.R5, asm.R6, ctxData, asm.Word), asm.LoadMem(asm.R4, asm.R6, ctxDataEnd, asm.Word),
		asm.Mov.Reg(asm.R3, asm.R5), asm.Add.Imm(asm.R3, int32(n)),
		asm.JGT.Reg(asm.R3, asm.R4, short),
	)
}

// Offsets of the frame's bounds in the context of an XDP program.
const (
	ctxData    = 0
	ctxDataEnd = 4
)

// atomic returns an atomic instruction. Its kind is in the last field, which the library leaves
// zero.
func atomic(op asm.AtomicOp, dst, src asm.Register, size asm.Size, at int16) asm.Instruction {
	in := op.Mem(dst, src, size, at)
	in.Constant = int64(op >> 8)
	return in
}
