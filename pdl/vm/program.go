package vm

import (
	"encoding/binary"
	"unsafe"

	"github.com/weftnet/weft/pdl/prog"
)

// A program is a loaded program. Its registers are the first words of its data, so between two
// services an activation is just two numbers: pc and limit.
//
// limit is the pc at which the budget ends. A jump moves pc and limit by the same distance, so
// limit − pc is always exactly the rest of the budget, and other instructions need no counting.
// If limit lies within the code, run gets the code only up to there, so the comparison at the
// end of the code also stops the program at the end of its budget. The next jump may move that
// place. Then run returns and is called again, which happens only near the end of a budget.
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
	cause    Cause  // of an exit with failed
	packet   []byte // the message being handled
	pending  int    // transfers that have begun and not ended
	broken   bool   // one of them was refused
	profile  Profile
}

// A state says what a program is doing.
type state uint8

const (
	loaded  state = iota // not initialised
	idle                 // a message may activate it
	running              //
	waiting              // an activation waits for its transfers
	ending               // its activation was aborted, and transfers still use its data
	stopped              //
)

// An exit is the reason for which run has returned.
type exit uint8

const (
	left   exit = iota // the instruction before pc is not for the loop
	failed             // with an error, in cause
	cut                // the code must be cut elsewhere, or the budget is used up
	addUp              // a loop that adds up an array has begun its second turn
)

// leave stores the state and returns from run.
func (p *program) leave(pc, limit int, why exit) exit {
	p.pc, p.limit = pc, limit
	return why
}

// fail stores the state and returns from run with an error. It is a separate function so that
// the loop stays small.
//
//go:noinline
func (p *program) fail(pc, limit int, cause Cause) exit {
	p.pc, p.limit, p.cause = pc, limit, cause
	return failed
}

// whole returns a word that lies completely within the packet.
func (p *program) whole(k uint64) int64 {
	return int64(binary.LittleEndian.Uint64(p.packet[k<<3:]))
}

// last returns the incomplete word at the packet's end, filled up with zeros. ok is false for
// any other k.
func (p *program) last(k int64) (v int64, ok bool) {
	if k != int64(len(p.packet)>>3) || len(p.packet)&7 == 0 {
		return 0, false
	}
	for i, b := range p.packet[k<<3:] {
		v |= int64(b) << (8 * i)
	}
	return v, true
}

// bytes returns n bytes of the data as a slice, from a word on.
func (p *program) bytes(word, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&p.mem[word:][: (n+7)/8 : (n+7)/8][0])), n)
}

// used returns how much of a budget the activation has used.
func (p *program) used(budget int) int { return budget - (p.limit - p.pc) }
