package vm

import (
	"encoding/binary"
	"unsafe"

	"github.com/weftnet/weft/pdl/prog"
)

// A program is one that is loaded. Its registers are the first words of its data, so that between two services an activation
// is two numbers.
//
// limit is the pc at which the budget ends. A jump moves pc and limit by the same distance, so limit − pc is always what is
// left, exactly, and an instruction that does not jump costs no counting. When limit comes to lie within the code, the code is
// cut there for run, so that the comparison that guards the end of the code stops the program, too. The next jump may move
// the place of the cut; run is then left and entered anew, which only happens near the end of a budget.
type program struct {
	id       ID
	module   *prog.Module
	code     []prog.Word // of the machine's code memory
	mem      []int64     // of the machine's data memory
	codeBase int
	dataBase int

	state    state
	starting bool // the activation is the initialisation
	pc       int
	limit    int
	cause    Cause  // why run has returned failed
	packet   []byte // that is handled
	pending  int    // transfers that have begun and not ended
	broken   bool   // one of them was refused
	profile  Profile
}

// A state is what may be done with a program.
type state uint8

const (
	loaded  state = iota // not initialised
	idle                 // a message may activate it
	running              //
	waiting              // in the middle of an activation, for transfers
	ending               // its activation was aborted; transfers still use its data
	stopped              //
)

// An exit says why run has returned.
type exit uint8

const (
	left   exit = iota // the instruction before pc is not for the loop
	failed             // for the cause that is noted
	cut                // the code must be cut elsewhere, or the budget is used up
	addUp              // a loop that adds up an array has begun its second turn
)

// leave ends run.
func (p *program) leave(pc, limit int, why exit) exit {
	p.pc, p.limit = pc, limit
	return why
}

// fail ends run for an error. It stands apart so that the loop stays small.
//
//go:noinline
func (p *program) fail(pc, limit int, cause Cause) exit {
	p.pc, p.limit, p.cause = pc, limit, cause
	return failed
}

// whole returns a word of the packet that is whole there.
func (p *program) whole(k uint64) int64 {
	return int64(binary.LittleEndian.Uint64(p.packet[k<<3:]))
}

// last returns the word at the packet's end that is not whole there: what it lacks is zero. ok is false for any other k.
func (p *program) last(k int64) (v int64, ok bool) {
	if k != int64(len(p.packet)>>3) || len(p.packet)&7 == 0 {
		return 0, false
	}
	for i, b := range p.packet[k<<3:] {
		v |= int64(b) << (8 * i)
	}
	return v, true
}

// bytes views n bytes of the data, from a word on.
func (p *program) bytes(word, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&p.mem[word:][: (n+7)/8 : (n+7)/8][0])), n)
}

// used is how much of a budget the activation has used up.
func (p *program) used(budget int) int { return budget - (p.limit - p.pc) }
