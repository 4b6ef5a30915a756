package main

// An op is a row of the table: the one place that describes an opcode.
//
// A, B, C and Imm describe the fields of the instruction, by the names of the operand kinds in
// package prog. A field without a kind must be zero. Body is the action of the interpreter, in
// Go with these abbreviations:
//
//	$a $b $c   the registers that the fields name
//	$s         C as a small signed number      $h  B and C together as a signed number of 16 bits
//	$i         Imm as a number                 $var  the words of the variable that Imm names
//	$jump      take the jump of Imm            $near  take the jump of the lower half of Imm
//	$abort(x)  end the activation for this cause
//
// An op without a Body leaves the loop: it is a service, or it ends the activation.
type op struct {
	Name string // as the disassembler prints it
	A    string
	B    string
	C    string
	Imm  string
	Args int // number of registers from A on that a service reads
	// Flow is "" to go on with the next instruction, Branch for a possible jump, Jump for a
	// certain one, End for the end of the activation.
	Flow string
	Mean string // description for readers
	Body string
}

// Operand kinds. A shift by more than 63 places uses the lowest six bits of the count, as
// processors do.
const (
	w = "Write"
	r = "Read"
	m = "Modify"
)

// binary returns an operation on two registers.
func binary(name, operator string) op {
	return op{Name: name, A: w, B: r, C: r, Mean: "a = b " + operator + " c", Body: "$a = $b " + operator + " $c"}
}

// withConst returns an operation on a register and a constant in the instruction.
func withConst(name, operator, imm string) op {
	return op{Name: name, A: w, B: r, Imm: imm, Mean: "a = b " + operator + " imm", Body: "$a = $b " + operator + " $i"}
}

// set returns a comparison whose value is 1 or 0.
func set(name, operator string) op {
	return op{Name: name, A: w, B: r, C: r, Mean: "a = 1 if b " + operator + " c, else 0",
		Body: "if $b " + operator + " $c { $a = 1 } else { $a = 0 }"}
}

// compare returns a comparison with a conditional jump.
func compare(name, operator string) op {
	return op{Name: name, A: r, B: r, Imm: "Target", Flow: "Branch", Mean: "jump if a " + operator + " b",
		Body: "if $a " + operator + " $b { $jump }"}
}

func compareConst(name, operator string) op {
	return op{Name: name, A: r, B: "Half", Imm: "Target", Flow: "Branch", Mean: "jump if a " + operator + " number",
		Body: "if $a " + operator + " $h { $jump }"}
}

// table is the instruction set. Its order gives the numbers, and modules hold these. So a new
// opcode comes at the end of its group, and needs a new version of the module's format.
var table = []op{
	{Name: "mov", A: w, B: r, Mean: "a = b", Body: "$a = $b"},
	{Name: "ldi", A: w, Imm: "Number", Mean: "a = imm", Body: "$a = $i"},
	{Name: "ldih", A: m, Imm: "Number", Mean: "a = a << 32 | imm, its 32 bits unsigned",
		Body: "$a = $a<<32 | int64(uint32($i))"},
	{Name: "ld", A: w, Imm: "Address", Mean: "a = data[imm]", Body: "$a = mem[$i]"},
	{Name: "st", A: r, Imm: "Address", Mean: "data[imm] = a", Body: "mem[$i] = $a"},
	{Name: "ldx", A: w, C: r, Imm: "Variable", Mean: "a = variable[c]", Body: "$index($c); $a = mem[at]"},
	{Name: "stx", A: r, C: r, Imm: "Variable", Mean: "variable[c] = a", Body: "$index($c); mem[at] = $a"},
	{Name: "lookup", A: w, Imm: "Name", Mean: "a = what the name stands for at this NIC"},
	{Name: "lookupat", A: w, B: r, Imm: "Name", Mean: "a = what the name stands for at NIC b"},

	binary("add", "+"), binary("sub", "-"), binary("mul", "*"),
	{Name: "div", A: w, B: r, C: r, Mean: "a = b / c, towards zero; aborts if c is 0",
		Body: "d := $c; if d == 0 { $abort(DivideByZero) }; $a = $b / d"},
	{Name: "mod", A: w, B: r, C: r, Mean: "a = b - b / c * c; aborts if c is 0",
		Body: "d := $c; if d == 0 { $abort(DivideByZero) }; $a = $b % d"},
	binary("and", "&"), binary("or", "|"), binary("xor", "^"),
	{Name: "shl", A: w, B: r, C: r, Mean: "a = b << c mod 64", Body: "$a = $b << (uint64($c) & 63)"},
	{Name: "shr", A: w, B: r, C: r, Mean: "a = b >> c mod 64, signed", Body: "$a = $b >> (uint64($c) & 63)"},
	{Name: "shru", A: w, B: r, C: r, Mean: "a = b >>> c mod 64, unsigned",
		Body: "$a = int64(uint64($b) >> (uint64($c) & 63))"},

	withConst("addi", "+", "Number"), withConst("muli", "*", "Number"),
	{Name: "rsubi", A: w, B: r, Imm: "Number", Mean: "a = imm - b", Body: "$a = $i - $b"},
	{Name: "divi", A: w, B: r, Imm: "Divisor", Mean: "a = b / imm, which is not 0",
		Body: "d := $i; if d == 0 { $abort(DivideByZero) }; $a = $b / d"},
	{Name: "modi", A: w, B: r, Imm: "Divisor", Mean: "a = b % imm, which is not 0",
		Body: "d := $i; if d == 0 { $abort(DivideByZero) }; $a = $b % d"},
	{Name: "divs", A: w, B: r, C: "Small", Imm: "Number", Mean: "a = b / (imm + 1), which is 1 << number, towards zero",
		Body: "v := $b; $a = (v + v>>63&$i) >> (uint64($s) & 63)"},
	{Name: "mods", A: w, B: r, Imm: "Number", Mean: "a = b % (imm + 1), which is a power of two",
		Body: "v := $b; $a = v - (v+v>>63&$i)&^$i"},
	withConst("andi", "&", "Number"), withConst("ori", "|", "Number"), withConst("xori", "^", "Number"),
	{Name: "shli", A: w, B: r, Imm: "Shift", Mean: "a = b << imm", Body: "$a = $b << (uint64($i) & 63)"},
	{Name: "shri", A: w, B: r, Imm: "Shift", Mean: "a = b >> imm, signed", Body: "$a = $b >> (uint64($i) & 63)"},
	{Name: "shrui", A: w, B: r, Imm: "Shift", Mean: "a = b >>> imm, unsigned",
		Body: "$a = int64(uint64($b) >> (uint64($i) & 63))"},

	set("seq", "=="), set("sne", "!="), set("slt", "<"), set("sle", "<="),

	{Name: "jmp", Imm: "Target", Flow: "Jump", Mean: "jump", Body: "$jump"},
	compare("jeq", "=="), compare("jne", "!="), compare("jlt", "<"), compare("jle", "<="),
	compareConst("jeqi", "=="), compareConst("jnei", "!="), compareConst("jlti", "<"), compareConst("jlei", "<="),
	compareConst("jgti", ">"), compareConst("jgei", ">="),

	// Superinstructions: frequent sequences in one step.
	{Name: "addx", A: w, B: r, C: r, Imm: "Variable", Mean: "a = b + variable[c]",
		Body: "$index($c); $a = $b + mem[at]"},
	{Name: "maddi", A: w, B: r, C: r, Imm: "Number", Mean: "a = b + c * imm", Body: "$a = $b + $c*$i"},
	{Name: "addandi", A: w, B: r, C: "Small", Imm: "Number", Mean: "a = (b + number) & imm",
		Body: "$a = ($b + $s) & $i"},
	{Name: "incjlt", A: m, B: r, C: "Small", Imm: "Target", Flow: "Branch", Mean: "a = a + number; jump if a < b",
		Body: "v := $a + $s; $a = v; if v < $b { $jump }"},
	{Name: "incjlti", A: m, C: "Small", Imm: "NearLimit", Flow: "Branch",
		Mean: "a = a + number; jump by the lower half of imm if a < the upper half",
		Body: "v := $a + $s; $a = v; if v < $i>>16 { $near }"},

	// The arriving packet, in place.
	{Name: "ldpw", A: w, C: r, Imm: "Number", Mean: "a = word c + imm of the packet", Body: "$word($c + $i); $a = v"},
	{Name: "ldpwi", A: w, Imm: "Number", Mean: "a = word imm of the packet", Body: "$word($i); $a = v"},
	{Name: "ldpb", A: w, C: r, Imm: "Number", Mean: "a = byte c + imm of the packet",
		Body: "$byte($c + $i); $a = int64(v)"},
	{Name: "ldpbi", A: w, Imm: "Number", Mean: "a = byte imm of the packet", Body: "$byte($i); $a = int64(v)"},
	{Name: "addpb", A: w, B: r, C: r, Imm: "Number", Mean: "a = b + byte c + imm of the packet",
		Body: "$byte($c + $i); $a = $b + int64(v)"},

	// Services: the loop ends, the machine calls the host, and the loop goes on.
	{Name: "clock", A: w, Mean: "a = the time in ns"},
	{Name: "lock", A: w, B: r, Mean: "a = 1 if lock b is set, else 0"},
	{Name: "setflag", A: r, Mean: "set flag a"},
	{Name: "clearlock", A: r, Mean: "clear lock a"},
	{Name: "display", A: r, Mean: "display a"},
	{Name: "send", A: r, Args: 5, Imm: "Variable", Mean: "send variable[a0], a1 bytes, as a2 to a3 at a4"},
	{Name: "sendhere", A: r, Args: 4, Imm: "Variable", Mean: "send variable[a0], a1 bytes, as a2 to a3 at this NIC"},
	{Name: "sendp", A: r, Args: 5, Imm: "Unit",
		Mean: "send the packet from byte a0 * imm, a1 bytes, as a2 to a3 at a4"},
	{Name: "sendphere", A: r, Args: 4, Imm: "Unit",
		Mean: "send the packet from byte a0 * imm, a1 bytes, as a2 to a3 at this NIC"},
	{Name: "deliver", A: r, Args: 4, Imm: "Variable", Mean: "begin: variable[a0] to byte a1 of segment a2, a3 bytes"},
	{Name: "deliverp", A: r, Args: 4, Imm: "Unit",
		Mean: "begin: packet from byte a0 * imm to byte a1 of segment a2, a3 bytes"},
	{Name: "get", A: r, Args: 4, Imm: "Variable", Mean: "begin: byte a1 of segment a2 to variable[a0], a3 bytes"},
	{Name: "copy", A: r, Args: 3, Imm: "Variable", Mean: "packet from byte a1 to variable[a0], a2 bytes"},
	{Name: "wait", Mean: "wait until every deliver and get of this activation has ended"},

	{Name: "await", Flow: "End", Mean: "end the activation"},
	{Name: "stop", Flow: "End", Mean: "end the activation and the program"},
	{Name: "pass", Flow: "End", Mean: "end the activation; the message it judged goes on"},
	{Name: "drop", Flow: "End", Mean: "end the activation; the message it judged ends here"},
}

// newer are opcodes that were added after the pairs. Their numbers follow those of the pairs, so
// older modules keep their meaning. A NIC with an older Weft refuses a module with one of them.
// Each is a service.
var newer = []op{
	{Name: "after", A: r, Mean: "if the message that is judged goes on, it does so a ns later"},
	{Name: "sendall", A: r, Args: 4, Imm: "Variable",
		Mean: "send variable[a0], a1 bytes, as a2 to the programs with name a3, of all NICs"},
	{Name: "sendpall", A: r, Args: 4, Imm: "Unit",
		Mean: "send the packet from byte a0 * imm, a1 bytes, as a2 to the programs with name a3, of all NICs"},
}

// pairs are opcodes that often follow one another. Each pair has an extra opcode, which executes
// the first and then at once the second. The word of the second stays as it is, since a jump may
// lead there. A pair saves a turn of the interpreter's loop, which costs more than most
// instructions. After a change of the list, measure all kernels (BenchmarkKernels in pdl): with
// too many pairs, or with one that needs many registers, the Go compiler keeps pc in memory.
var pairs = [][2]string{
	{"ldx", "jeq"}, {"ldx", "jne"}, {"ldx", "jlt"}, {"ldx", "jeqi"}, {"ldx", "jnei"}, {"ldx", "jlti"},
	{"ldi", "ldi"}, {"ldi", "ldih"}, {"mul", "shrui"}, {"andi", "shri"}, {"shri", "andi"},
	{"ldpb", "maddi"}, {"ldpb", "jeqi"}, {"ldpb", "jnei"},
	{"addx", "incjlt"}, {"addx", "incjlti"}, {"addpb", "incjlt"}, {"stx", "incjlt"}, {"stx", "incjlti"},
}
