package parallel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/mutate"
)

// mostAhead is the number of operations by which a rank may be ahead of the next lower rank. The
// ranks keep the descriptions of twice as many operations, so the description of every operation can
// still be compared.
const mostAhead = 16

const historyLen = 4 * mostAhead

// A piece is data that an exchange sends to a rank.
type piece struct {
	to   int
	data []byte
}

// A want is data that an exchange expects from a rank. If open is true, the sender decides the
// length, at most limit bytes, and the exchange allocates buf.
type want struct {
	from  int
	buf   []byte
	open  bool
	limit int

	seq   uint64
	phase uint32
	got   int
	begun bool
	done  bool
}

// held is a message that came before the operation that expects it.
type held struct {
	head header
	data []byte
}

// begin starts a collective operation. The caller must call end.
func (m *Machine) begin(ctx context.Context, what description) error {
	if !m.busy.CompareAndSwap(false, true) {
		return &RankError{m.rank, what.name(), ErrBusy}
	}
	if err := m.unusable(&what); err != nil {
		m.busy.Store(false)
		return err
	}
	m.seq++
	m.phase, m.checked = 0, m.size == 1
	m.now = what
	m.past[m.seq%historyLen] = what
	if m.broken != nil {
		return m.end(ctx, m.broken)
	}
	if err := ctx.Err(); err != nil {
		return m.end(ctx, err)
	}
	for i := range m.early {
		if h := &m.early[i].head; h.seq == m.seq && h.what != what && m.defect != mutate.ParallelUnchecked {
			return m.end(ctx, m.differs(h))
		}
	}
	return nil
}

func (m *Machine) unusable(what *description) error {
	switch {
	case m.fault != nil:
		return m.fault
	case m.closed:
		return &RankError{m.rank, what.name(), ErrClosed}
	}
	return nil
}

// end ends an operation. If err is not nil, the machine fails at every rank.
func (m *Machine) end(ctx context.Context, err error) error {
	if err == nil {
		err = m.settle(ctx)
	}
	if err != nil {
		err = m.fail(err)
	}
	m.busy.Store(false)
	return err
}

// settle sends the check of the operation if no data went to the next rank, keeps the lower rank from
// falling behind too far, and waits until the data of the operation may change.
func (m *Machine) settle(ctx context.Context) error {
	if err := m.lag(ctx); err != nil {
		return err
	}
	return m.flush(ctx, m.seq)
}

// lag is settle without waiting for the data.
func (m *Machine) lag(ctx context.Context) error {
	if m.size == 1 {
		return nil
	}
	if err := m.check(ctx); err != nil {
		return err
	}
	for m.lower+mostAhead < m.seq && m.defect != mutate.ParallelCheckUnsent {
		if err := m.pump(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flush waits until the data of an operation may change. It must not wait for the data of another
// operation, such as a halo in flight: two ranks that both do so receive nothing, and wait for each other.
func (m *Machine) flush(ctx context.Context, seq uint64) error {
	if m.size == 1 {
		return nil
	}
	return m.w.flush(ctx, seq)
}

// check tells the next rank what this rank does, unless it has been told with data.
func (m *Machine) check(ctx context.Context) error {
	if m.checked || m.defect == mutate.ParallelCheckUnsent {
		return nil
	}
	return m.post(ctx, (m.rank+1)%m.size, kindCheck, nil)
}

// exchange sends pieces and waits for the data that this rank wants. Both may include this rank. A
// pair of ranks exchanges at most one piece in each direction. The pieces must not change until end.
func (m *Machine) exchange(ctx context.Context, pieces []piece, wants []want) error {
	if err := m.start(ctx, pieces, wants); err != nil {
		return err
	}
	return m.finish(ctx, wants)
}

// start is the first part of an exchange: it sends the pieces and registers the wants.
func (m *Machine) start(ctx context.Context, pieces []piece, wants []want) error {
	m.phase++
	for i := range wants {
		w := &wants[i]
		w.seq, w.phase = m.seq, m.phase
		if w.from != m.rank {
			m.wants = append(m.wants, w)
		}
	}
	for _, p := range pieces {
		if p.to == m.rank {
			if err := m.toSelf(p.data, wants); err != nil {
				return err
			}
			continue
		}
		if err := m.post(ctx, p.to, kindData, p.data); err != nil {
			return err
		}
	}
	if m.size > 1 {
		if err := m.check(ctx); err != nil {
			return err
		}
	}
	return m.deliverEarly()
}

// finish waits for the data of wants.
func (m *Machine) finish(ctx context.Context, wants []want) error {
	for i := range wants {
		for !wants[i].done {
			if wants[i].from == m.rank {
				return fmt.Errorf("a rank expects data from itself and sends none")
			}
			if err := m.pump(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Machine) toSelf(data []byte, wants []want) error {
	for i := range wants {
		if w := &wants[i]; w.from == m.rank && !w.done {
			h := header{rank: uint32(m.rank), total: uint64(len(data))}
			return m.fill(w, &h, data)
		}
	}
	return nil
}

// post sends a message, in several parts if it is long.
func (m *Machine) post(ctx context.Context, to int, kind uint32, data []byte) error {
	h := header{epoch: m.epoch, rank: uint32(m.rank), seq: m.seq, phase: m.phase, kind: kind,
		total: uint64(len(data)), what: m.now}
	if to == (m.rank+1)%m.size {
		m.checked = true
	}
	for {
		part := data[h.offset:min(h.offset+maxData, h.total)]
		h.put(&m.head)
		err := m.w.post(ctx, to, &m.head, part)
		for err == errWireFull {
			if err = m.pump(ctx); err == nil {
				err = m.w.post(ctx, to, &m.head, part)
			}
		}
		if err != nil {
			return err
		}
		if h.offset += uint64(len(part)); h.offset == h.total {
			return nil
		}
	}
}

// pump receives one message and gives it to its want.
func (m *Machine) pump(ctx context.Context) error {
	b, err := m.w.next(ctx, false)
	if err != nil {
		return err
	}
	if b == nil {
		return nil
	}
	return m.take(b)
}

// take handles a message.
func (m *Machine) take(b []byte) error {
	var h header
	data, ok := h.parse(b)
	if !ok || h.epoch != m.epoch || int(h.rank) >= m.size {
		return nil // of an earlier machine
	}
	if h.kind == kindFault {
		return m.heard(data)
	}
	if int(h.rank) == (m.rank+m.size-1)%m.size {
		m.lower = max(m.lower, h.seq)
	}
	if h.seq <= m.seq && m.seq-h.seq < historyLen && m.past[h.seq%historyLen] != h.what &&
		m.defect != mutate.ParallelUnchecked {
		return m.differs(&h)
	}
	if h.kind == kindCheck && h.seq <= m.seq {
		return nil
	}
	if w := m.wanted(&h); w != nil {
		return m.fill(w, &h, data)
	}
	if m.defect == mutate.ParallelEarlyLost && h.seq > m.seq {
		return nil
	}
	m.early = append(m.early, held{h, append([]byte(nil), data...)})
	return nil
}

// wanted returns the want of a message, or nil.
func (m *Machine) wanted(h *header) *want {
	for _, w := range m.wants {
		if w.seq == h.seq && w.phase == h.phase && w.from == int(h.rank) {
			return w
		}
	}
	return nil
}

// fill copies one part of a message to where it is wanted.
func (m *Machine) fill(w *want, h *header, data []byte) error {
	if !w.begun {
		w.begun = true
		switch {
		case w.open && h.total > uint64(w.limit):
			return fmt.Errorf("rank %d sends %d bytes; expected at most %d", h.rank, h.total, w.limit)
		case w.open:
			w.buf = make([]byte, h.total)
		case h.total != uint64(len(w.buf)):
			return fmt.Errorf("rank %d sends %d bytes; expected %d", h.rank, h.total, len(w.buf))
		}
	}
	if h.offset != uint64(w.got) || h.total != uint64(len(w.buf)) {
		return fmt.Errorf("rank %d sends the bytes from %d on of %d; expected those from %d on of %d",
			h.rank, h.offset, h.total, w.got, len(w.buf))
	}
	copy(w.buf[w.got:], data)
	w.got += len(data)
	if w.got < len(w.buf) {
		return nil
	}
	w.done = true
	for i, x := range m.wants {
		if x == w {
			last := len(m.wants) - 1
			m.wants[i], m.wants[last] = m.wants[last], nil
			m.wants = m.wants[:last]
			break
		}
	}
	return nil
}

// deliverEarly gives the early messages that are wanted now to their wants.
func (m *Machine) deliverEarly() error {
	kept := m.early[:0]
	for i := range m.early {
		e := &m.early[i]
		if e.head.kind == kindCheck && e.head.seq <= m.seq {
			continue
		}
		if w := m.wanted(&e.head); w != nil && e.head.kind == kindData {
			if err := m.fill(w, &e.head, e.data); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, *e)
	}
	clear(m.early[len(kept):])
	m.early = kept
	return nil
}

// differs returns the error of two ranks that called different operations.
func (m *Machine) differs(h *header) error {
	mine := m.past[h.seq%historyLen]
	return &MismatchError{Rank: m.rank, Op: mine.String(), Other: int(h.rank), Did: h.what.String()}
}

// fail makes the machine fail with err, here and at all other ranks. It returns the error that the
// machine has failed with.
func (m *Machine) fail(err error) error {
	if m.fault != nil {
		return m.fault
	}
	if errors.Is(err, ErrRankGone) {
		err = m.lastWords(err)
	}
	var mismatch *MismatchError
	var of *RankError
	if !errors.As(err, &mismatch) && !errors.As(err, &of) {
		err = &RankError{m.rank, m.now.name(), err}
	} else if of != nil && of.Op == "" { // of a wire, which knows no operations
		err = &RankError{of.Rank, m.now.name(), of.Err}
	}
	m.fault = err
	m.wants, m.early = nil, nil
	if m.size > 1 {
		m.tell(err)
	}
	return err
}

// lastWords looks for the fault that a rank told before it left, and returns it. If there is none, it
// returns err.
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

// tell sends a fault to all other ranks, as far as this is possible within a second, and leaves.
func (m *Machine) tell(err error) {
	ctx, cancel := m.within(tellWithin)
	defer cancel()
	if !m.heardFault && !errors.Is(err, ErrRankGone) && m.defect != mutate.ParallelFaultUntold {
		data := encodeFault(err)
		for i := range m.size - 1 {
			_ = m.post(ctx, (m.rank+1+i)%m.size, kindFault, data) // a rank that has left needs none
		}
	}
	_ = m.w.abandon(ctx, false)
}

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
	return b[:min(len(b), maxData)]
}

// heard returns the error that another rank has told.
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
