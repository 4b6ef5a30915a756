package parallel

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/mutate"
)

// mostAhead is the number of operations by which a rank may be ahead of the next lower rank. The
// ranks keep the descriptions of four times as many operations, so the description of every
// operation can still be compared.
const mostAhead = 16

const historyLen = 4 * mostAhead

// A piece is data that an exchange sends to a rank.
type piece struct {
	to   int
	data []byte
	unit int // each part has a multiple of unit bytes; 0 and more than maxData mean any length
}

// A want is data that an exchange expects from a rank. If open is true, the sender decides the
// length, at most limit bytes, and the exchange allocates buf. If each is not nil, the data has
// size bytes, and each gets every part in place of buf.
type want struct {
	from  int
	buf   []byte
	open  bool
	limit int
	size  int
	each  func(part []byte, offset int) error

	seq   uint64
	phase uint32
	got   int
	begun bool
	done  bool
}

// held is a message that arrived before the operation that expects it.
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

// settle sends the check of the operation if no data went to the next rank, keeps the lower rank
// from falling behind too far, and waits until the caller may change the data of the operation.
func (m *Machine) settle(ctx context.Context) error {
	if err := m.lag(ctx); err != nil {
		return err
	}
	return m.flush(ctx, m.seq)
}

// lag is like settle, but does not wait for the data.
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

// flush waits until the caller may change the data of an operation. It must not wait for the data
// of another operation, such as a halo in flight: two ranks that both did so would receive
// nothing, and would wait for each other.
func (m *Machine) flush(ctx context.Context, seq uint64) error {
	if m.size == 1 {
		return nil
	}
	return m.w.flush(ctx, seq)
}

// check describes this rank's operation to the next rank, unless data has already described it.
func (m *Machine) check(ctx context.Context) error {
	if m.checked || m.defect == mutate.ParallelCheckUnsent {
		return nil
	}
	return m.post(ctx, kindCheck, &piece{to: (m.rank + 1) % m.size})
}

// exchange sends pieces and waits for the data that this rank wants. Both may include this rank. A
// pair of ranks exchanges at most one piece in each direction. The pieces must not change until
// end.
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
		if err := m.post(ctx, kindData, &p); err != nil {
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

// part returns the length of the parts in which the data travels. Data of up to four short
// messages travels in short messages: these leave at once, and end without a poll by the other
// rank.
func (p *piece) part() int {
	n := maxData
	if len(p.data) <= 4*shortBytes {
		n = shortBytes
	}
	switch {
	case p.unit == 0 || p.unit > maxData:
		return n
	case p.unit > n:
		return p.unit
	}
	return n - n%p.unit
}

// post sends a message, in several parts if it is long.
func (m *Machine) post(ctx context.Context, kind uint32, p *piece) error {
	h := header{epoch: m.epoch, rank: uint32(m.rank), seq: m.seq, phase: m.phase, kind: kind,
		total: uint64(len(p.data)), what: m.now}
	if p.to == (m.rank+1)%m.size {
		m.checked = true
	}
	for from, n := 0, p.part(); ; from += n {
		to := min(from+n, len(p.data))
		h.offset = uint64(from)
		h.put(&m.head)
		err := m.w.post(ctx, p.to, &m.head, p.data[from:to])
		for err == errWireFull {
			if err = m.pump(ctx); err == nil {
				err = m.w.post(ctx, p.to, &m.head, p.data[from:to])
			}
		}
		if err != nil || to == len(p.data) {
			return err
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
		return nil // from an earlier machine
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
	if h.kind == kindData && (h.seq < m.seq || h.seq == m.seq && h.phase <= m.phase) {
		return fmt.Errorf("rank %d sends %d bytes that no operation here expects", h.rank, h.total)
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

// fill copies one part of a message to its destination, or passes it to each.
func (m *Machine) fill(w *want, h *header, data []byte) error {
	if !w.begun {
		w.begun = true
		switch {
		case w.open && h.total > uint64(w.limit):
			return fmt.Errorf("rank %d sends %d bytes; expected at most %d", h.rank, h.total, w.limit)
		case w.open:
			w.buf = make([]byte, h.total)
		case h.total != uint64(w.length()):
			return fmt.Errorf("rank %d sends %d bytes; expected %d", h.rank, h.total, w.length())
		}
	}
	all := w.length()
	if h.offset != uint64(w.got) || h.total != uint64(all) || len(data) > all-w.got {
		return fmt.Errorf("rank %d sends %d bytes from %d on of %d; expected those from %d on of %d",
			h.rank, len(data), h.offset, h.total, w.got, all)
	}
	if w.each == nil {
		copy(w.buf[w.got:], data)
	} else if err := w.each(data, w.got); err != nil {
		return err
	}
	if w.got += len(data); w.got == all {
		m.over(w)
	}
	return nil
}

// length returns the length of the data.
func (w *want) length() int {
	if w.each != nil {
		return w.size
	}
	return len(w.buf)
}

// over ends a want whose data is complete.
func (m *Machine) over(w *want) {
	w.done = true
	for i, x := range m.wants {
		if x == w {
			last := len(m.wants) - 1
			m.wants[i], m.wants[last] = m.wants[last], nil
			m.wants = m.wants[:last]
			break
		}
	}
}

// deliverEarly passes early messages to their wants, if there are such wants now.
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
