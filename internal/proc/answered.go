package proc

import "sync/atomic"

// answered notes which calls the process has answered. Each received call gets the next receipt.
// Its Message carries the receipt, and so does a copy of the Message. A receipt has a bit in a
// word. It shares the word with its neighbours, and with the receipts of other rounds:
//
//	receipt      31                     5 4     0
//	             block                    bit           words[block mod answeredWords]
//	word         63                    32 31    0
//	             block                    one bit per receipt of the block: the call is answered
//
// The first answer to a call of a later block at the same place takes over the word. So a call
// that is never answered costs nothing. Each of the newest answeredCalls receipts can be answered
// only once. A call with an older receipt is answered as often as the process asks. The caller's
// NIC takes the first reply and drops the others.
type answered struct {
	last  atomic.Uint32 // receipt
	words [answeredWords]atomic.Uint64
}

const (
	answeredWords = 1024
	answeredCalls = 32 * (answeredWords - 1) // a block less: the newest may have just begun
)

// init starts the receipts of a process at its own value. A Message that another process received
// is therefore mostly too old here, and marks none of this process's calls.
func (a *answered) init(slot uint16, gen uint32) {
	a.last.Store(uint32(slot)*0x9e3779b1 + gen*0x85ebca6b)
}

// received gives a received call its receipt, which is not 0.
func (a *answered) received(t *Token) {
	n := a.last.Add(1)
	if n == 0 {
		n = a.last.Add(1)
	}
	*t |= Token(n) << 32
}

// take reports whether a call may be answered now, and counts it as answered.
func (a *answered) take(receipt uint32) bool {
	w, block, bit := a.at(receipt)
	for {
		old := w.Load()
		bits := uint32(old)
		if uint32(old>>32) != block {
			if a.last.Load()-receipt >= answeredCalls {
				return true
			}
			bits = 0 // the bits belong to an older block
		}
		if bits&bit != 0 {
			return false
		}
		if w.CompareAndSwap(old, uint64(block)<<32|uint64(bits|bit)) {
			return true
		}
	}
}

// giveBack counts a call as not answered, because its reply failed.
func (a *answered) giveBack(receipt uint32) {
	w, block, bit := a.at(receipt)
	for {
		old := w.Load()
		if uint32(old>>32) != block || w.CompareAndSwap(old, old&^uint64(bit)) {
			return
		}
	}
}

func (a *answered) at(receipt uint32) (w *atomic.Uint64, block, bit uint32) {
	block = receipt >> 5
	return &a.words[block%answeredWords], block, 1 << (receipt & 31)
}
