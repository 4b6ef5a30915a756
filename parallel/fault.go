package parallel

import (
	"encoding/binary"
	"errors"

	"github.com/weftnet/weft/internal/mutate"
)

// differs returns the error of two ranks that called different operations.
func (m *Machine) differs(h *header) error {
	mine := m.past[h.seq%historyLen]
	return &MismatchError{Rank: m.rank, Op: mine.String(), Other: int(h.rank), Did: h.what.String()}
}

// fail makes the machine fail with err, here and at all other ranks. It returns the error that the
// machine has failed with.
func (m *Machine) fail(err error) error {
	switch {
	case m.fault != nil:
		return m.fault
	case m.closed: // its wire may now belong to the machine that Shrink returned
		return &RankError{m.rank, m.now.name(), ErrClosed}
	}
	if errors.Is(err, ErrRankGone) {
		err = m.lastWords(err)
	}
	var mismatch *MismatchError
	var of *RankError
	if !errors.As(err, &mismatch) && !errors.As(err, &of) {
		err = &RankError{m.rank, m.now.name(), err}
	} else if of != nil && of.Op == "" { // from a wire, which knows no operations
		err = &RankError{of.Rank, m.now.name(), of.Err}
	}
	m.fault = err
	m.wants, m.early = nil, nil
	if m.size > 1 {
		m.tell(err)
	}
	return err
}

// lastWords looks for the fault that a rank reported before it left, and returns it. If there is
// none, it returns err.
func (m *Machine) lastWords(err error) error {
	ctx, cancel := m.within(lastWordsWithin)
	defer cancel()
	for !m.heardFault {
		b, ended := m.w.next(ctx, true)
		if ended != nil {
			return err
		}
		if why := m.take(b); m.heardFault {
			return why
		}
	}
	return err
}

// tell sends a fault to all other ranks, as far as this is possible within a second, and leaves
// the machine.
func (m *Machine) tell(err error) {
	ctx, cancel := m.within(tellWithin)
	defer cancel()
	if !m.heardFault && !errors.Is(err, ErrRankGone) && m.defect != mutate.ParallelFaultUntold {
		data := encodeFault(err)
		for i := range m.size - 1 {
			// A rank that has left needs no fault.
			_ = m.post(ctx, kindFault, &piece{to: (m.rank + 1 + i) % m.size, data: data})
		}
	}
	_ = m.w.abandon(ctx, false)
}

// maxFault is the maximum length of a fault, so that every NIC accepts it at once.
const maxFault = 4 << 10

// encodeFault encodes an error as a cause, two ranks and two texts.
func encodeFault(err error) []byte {
	var mismatch *MismatchError
	var of *RankError
	b := []byte{causeOf(err)}
	switch {
	case errors.As(err, &mismatch):
		b = binary.LittleEndian.AppendUint32(b, uint32(mismatch.Rank))
		b = binary.LittleEndian.AppendUint32(b, uint32(mismatch.Other))
		b = append(b, mismatch.Op+"\x00"+mismatch.Did...)
	case errors.As(err, &of):
		b = binary.LittleEndian.AppendUint32(b, uint32(of.Rank))
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = append(b, of.Op+"\x00"+of.Err.Error()...)
	}
	return b[:min(len(b), maxFault)]
}

// heard returns the error that another rank has reported.
func (m *Machine) heard(b []byte) error {
	m.heardFault = true
	if len(b) < 9 {
		return &RankError{-1, m.now.name(), errors.New("another rank failed without a reason")}
	}
	rank, other := int(int32(binary.LittleEndian.Uint32(b[1:]))), int(int32(binary.LittleEndian.Uint32(b[5:])))
	texts := [2]string{}
	for i, at := 9, 0; i < len(b); i++ {
		if b[i] == 0 && at == 0 {
			at = 1
			texts[0], texts[1] = string(b[9:i]), string(b[i+1:])
		}
	}
	var cause error
	if int(b[0]) < len(causes) {
		cause = causes[b[0]]
	}
	if cause == ErrMismatch {
		return &MismatchError{Rank: rank, Op: texts[0], Other: other, Did: texts[1]}
	}
	return &RankError{rank, texts[0], &told{texts[1], cause}}
}
