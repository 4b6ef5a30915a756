package ebpf

import (
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// The layout of a program's array map of one value, which the daemon maps, too:
//
//	0        state      words of the list below
//	atIn     a frame    as received, from the outer header on, with room behind it
//	atOut    a frame    the reply
//	atData   data       the program's words, registers first, as the virtual machine lays them out
//	…        room       as long as the longest variable: for the verifier, a copy may begin at
//	                    its last word and be as long as the variable
const (
	stateLock      = 8 * iota // 1: a processor is in an activation
	stateStatus               // see below
	stateClock                // added to the kernel's clock, or the value of CLOCK
	stateNext                 // pc at which the next turn begins
	stateFuel                 // fuel left for the activation
	stateOutcome              // vm.Outcome of the activation plus 1, or unfinished
	stateCause                // vm.Cause of an aborted activation
	statePC                   // pc at which it was aborted
	stateLen                  // length of the message, in bytes
	stateMost                 // largest length of the reply, in bytes
	stateBound                // length of the longest reply of the trigger, in bytes
	stateSent                 // 1: the program has sent
	stateSentLen              // length of the message sent, in bytes
	stateSentTo               // its program
	stateSentAs               // its trigger
	stateFlags                // number of flags set and locks cleared
	stateSends                // replies sent
	stateSendsLost            // replies that could not be sent
	// Messages passed to the engine, because the reply may not fit into the frame or the path.
	stateHanded
	stateDisplaysLost
	stateBusy        // messages lost, because another processor was busy for too long
	stateReplays     // messages whose counter was taken before
	stateActivations // as in vm.Profile
	stateInstructions
	stateRefused
	stateLastPC // pc of the last abort
	stateAborts // by cause
	stateEnd    = stateAborts + 8*16

	// The frame is placed so that its message begins at a multiple of 8.
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

// MostMessage is the longest message that a program handles in the driver, in bytes. It also
// limits the reply, if the path carries that much.
const MostMessage = mostLetter

// The values of stateStatus.
const (
	statusLoaded = iota
	statusIdle
	statusStopped
)

// unfinished is the value of stateOutcome during an activation. Afterwards it is the outcome
// plus 1.
const unfinished = 0

func outcome(o vm.Outcome) int32 { return int32(o) + 1 }

// at returns the offset of a word of the data.
func at(word int) int { return atData + 8*word }

// room returns the size of the map's value for a module, in bytes.
func room(m *prog.Module) int {
	longest := 1
	for _, w := range m.Code {
		if e, ok := w.Op().Effect(); ok && e.Imm == prog.Variable {
			longest = max(longest, w.Range().Len)
		}
	}
	return at(m.DataWords + longest)
}
