package ebpf

import (
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// What a program has in its array map of one value, which the daemon maps too:
//
//	0        state      words of the list below
//	atIn     a frame    as it came, from the outer header on, and room behind it
//	atOut    a frame    the reply
//	atData   data       the program's words, registers first, as the virtual machine lays them out
//	…        room       as much again as the longest variable: to the verifier, a copy may begin at its last word and be as long as it
const (
	stateLock      = 8 * iota // 1: a processor is in an activation
	stateStatus               // below
	stateClock                // is added to the kernel's clock, or is what CLOCK reads
	stateNext                 // pc that the next turn begins at
	stateFuel                 // that the activation has left
	stateOutcome              // vm.Outcome of the activation, less unfinished
	stateCause                // vm.Cause of an aborted one
	statePC                   // where it was aborted
	stateLen                  // of the message, in bytes
	stateMost                 // bytes that the reply may have
	stateBound                // bytes of the longest reply that the trigger sends
	stateSent                 // 1: it has sent
	stateSentLen              // bytes,
	stateSentTo               // to this program
	stateSentAs               // and trigger
	stateFlags                // flags set and locks cleared
	stateSends                // replies that have left
	stateSendsLost            // that could not
	stateHanded               // messages that the engine handles, because the reply may not fit here
	stateDisplaysLost
	stateBusy        // messages lost, because another processor was at it for too long
	stateReplays     // messages whose counter was taken before
	stateActivations // as in vm.Profile
	stateInstructions
	stateRefused
	stateLastPC // where it was last aborted
	stateAborts // by cause
	stateEnd    = stateAborts + 8*16

	// The frame lies so that its message begins at a multiple of 8.
	frameSkew = 8 - messageAt%8
	messageAt = wire.OuterLen + wire.DatagramLen + wire.ProgramDatagramLen

	atIn       = (stateEnd + 63) &^ 63
	atFrame    = atIn + frameSkew
	atMessage  = atFrame + messageAt
	inLen      = frameSkew + mostFrame + mostFrame
	atOut      = (atIn + inLen + 63) &^ 63
	atReply    = atOut + frameSkew
	atAnswer   = atReply + messageAt
	outLen     = frameSkew + mostFrame + 64
	atData     = (atOut + outLen + 63) &^ 63
	mostFrame  = 2048
	mostLetter = mostFrame - messageAt - wire.TagLen - 8 // bytes of a message: 8 zeros follow it
)

// MostMessage is how long a message may be that a program handles in the driver, and its reply, in bytes, if the path carries it.
const MostMessage = mostLetter

// What stateStatus says.
const (
	statusLoaded = iota
	statusIdle
	statusStopped
)

// unfinished is stateOutcome while an activation is under way; else that is the outcome and 1.
const unfinished = 0

func outcome(o vm.Outcome) int32 { return int32(o) + 1 }

// at is where a word of the data lies.
func at(word int) int { return atData + 8*word }

// room is how large the value is for a module.
func room(m *prog.Module) int {
	longest := 1
	for _, w := range m.Code {
		if e, ok := w.Op().Effect(); ok && e.Imm == prog.Variable {
			longest = max(longest, w.Range().Len)
		}
	}
	return at(m.DataWords + longest)
}
