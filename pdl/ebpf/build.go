package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A builder puts instructions and labels together. Several labels may stand at one place, which the assembler does not know.
type builder struct {
	ins    asm.Instructions
	label  string            // of the next instruction
	same   map[string]string // labels that stand where another stands
	labels int               // made so far by fresh
	jumps  int               // that depend on something, in the function at hand
	most   int               // of these, in any function
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

// place says that a label is here.
func (b *builder) place(label string) {
	if b.label != "" {
		b.same[label] = b.label
		return
	}
	b.label = label
}

// fresh makes a label that no other is called as.
func (b *builder) fresh() string {
	b.labels++
	return fmt.Sprintf("l%d", b.labels)
}

// jump goes to a label.
func (b *builder) jump(label string) { b.emit(asm.Ja.Label(label)) }

// function begins a function. The kernel wants to be told the type of one that is called for each turn of a loop, and then of all.
func (b *builder) function(name string) { b.begin(name, btf.StaticFunc, nil) }

// global begins a function that the kernel verifies by itself, for any numbers as its arguments.
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
	b.emit(btf.WithFuncMetadata(asm.Mov.Reg(asm.R5, asm.R1), // of no use, but an instruction that is always there
		&btf.Func{Name: name, Type: &btf.FuncProto{Return: integer, Params: arguments}, Linkage: linkage}))
}

// finish returns the instructions with each label under one name.
func (b *builder) finish() asm.Instructions {
	for i, in := range b.ins {
		if to, ok := b.same[in.Reference()]; ok && !in.IsLoadFromMap() {
			b.ins[i] = in.WithReference(to)
		}
	}
	return b.ins
}

// The maps of a program, as instructions refer to them until it is loaded.
const (
	mapData     = "data"
	mapTables   = "tables"
	mapSessions = "sessions"
	mapDisplays = "displays"
	mapBells    = "bells"
	mapSteps    = "steps"
)

// value puts the address of a map's value into a register, or of a place in it.
func (b *builder) value(dst asm.Register, of string, at int) {
	b.emit(asm.LoadMapValue(dst, 0, uint32(at)).WithReference(of))
}

// table puts a map itself into a register.
func (b *builder) table(dst asm.Register, of string) {
	b.emit(asm.LoadMapPtr(dst, 0).WithReference(of))
}

// turns calls a function at most as often as R1 says, until it returns 1. What R3 holds is given to it in R2.
func (b *builder) turns(function string) {
	b.emit(
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference(function),
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

// set stores a number in a word of memory.
func (b *builder) set(base asm.Register, at int, v int32) {
	b.emit(asm.Instruction{OpCode: asm.StoreImmOp(asm.DWord), Dst: base, Offset: int16(at), Constant: int64(v)})
}

// count adds a register to a word of the state, which is the lock's holder's. R0 is used.
func (b *builder) count(base asm.Register, at int, by asm.Register) {
	b.load(asm.R0, base, at)
	b.emit(asm.Add.Reg(asm.R0, by))
	b.store(base, at, asm.R0)
}

// reach puts the address of the frame that came into R5; R6 is the context. Frames that have less than n bytes in one piece go elsewhere. Calls that
// change the frame end it.
func (b *builder) reach(n int, short string) {
	b.emit(
		asm.LoadMem(asm.R5, asm.R6, ctxData, asm.Word), asm.LoadMem(asm.R4, asm.R6, ctxDataEnd, asm.Word),
		asm.Mov.Reg(asm.R3, asm.R5), asm.Add.Imm(asm.R3, int32(n)),
		asm.JGT.Reg(asm.R3, asm.R4, short),
	)
}

// Where the context of an XDP program says where its frame is.
const (
	ctxData    = 0
	ctxDataEnd = 4
)

// atomic is an instruction that other processors see done whole. Which it is stands in its last field, where the library leaves zero.
func atomic(op asm.AtomicOp, dst, src asm.Register, size asm.Size, at int16) asm.Instruction {
	in := op.Mem(dst, src, size, at)
	in.Constant = int64(op >> 8)
	return in
}
