package vm

import "github.com/weftnet/weft/pdl/prog"

// A loop of one pair, v = v + array[i] and then i = i + n with the jump back to both, mostly
// waits for memory in the interpreter: one turn writes a register, and the next reads it. So
// when such a loop jumps back to its beginning, run returns. addUp then executes the following
// turns with both variables at hand, exactly as many as the loop and the budget allow.
func (p *program) addUp() exit {
	add, step := p.code[p.pc], p.code[p.pc+1]
	r := (*[prog.Registers]int64)(p.mem)
	array := add.Range()
	v := p.mem[array.Base:][:array.Len]
	sum, i := r[add.B()], r[step.A()]
	_, number := step.NearLimit()
	bound := int64(number)
	ofRegister := step.Op() == prog.Incjlt
	if ofRegister {
		bound = r[step.B()]
	}
	if add.A() != add.B() || add.C() != step.A() || add.A() == step.A() ||
		ofRegister && (step.B() == add.A() || step.B() == step.A()) ||
		array.Has(add.A()) || array.Has(step.A()) {
		return cut // another loop, or one that reads its own results: execute it turn by turn
	}
	by := int64(int8(step.C()))
	begin, why := p.pc, cut
	for p.limit-begin >= 2 { // a turn has two instructions
		if uint64(i) >= uint64(len(v)) {
			p.pc, p.cause, why = begin+1, OutOfArray, failed
			break
		}
		sum += v[i]
		if i += by; i >= bound {
			p.pc = begin + 2
			break
		}
		p.limit -= 2
	}
	r[add.A()], r[step.A()] = sum, i
	return why
}
