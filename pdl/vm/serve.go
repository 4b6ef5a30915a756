package vm

import "github.com/weftnet/weft/pdl/prog"

// bytesPerUnit is the number of bytes that are copied for the price of one instruction. Copying
// is charged to the budget.
const bytesPerUnit = 64

// serve executes an instruction that needs the host.
func (m *Machine) serve(p *program, w prog.Word) Cause {
	r := (*[prog.Registers]int64)(p.mem)
	h := m.cfg.Host
	switch w.Op() {
	case prog.Clock:
		r[w.A()] = h.Clock()
	case prog.Ldpw, prog.Ldpwi: // the incomplete word, which the loop leaves to serve
		k := int64(w.Imm())
		if w.Op() == prog.Ldpw {
			k += r[w.C()]
		}
		v, ok := p.last(k)
		if !ok {
			return OutOfPacket
		}
		r[w.A()] = v
	case prog.Lookup, prog.Lookupat:
		s, nic := &p.module.Names[w.Imm()], uint64(0)
		if w.Op() == prog.Lookupat {
			nic = uint64(r[w.B()])
		}
		v, ok := h.Lookup(s.Of, s.Name, nic)
		if !ok {
			return UnknownName
		}
		r[w.A()] = v
	case prog.Lock:
		v := int64(0)
		if h.Lock(r[w.B()]) { // A may be B
			v = 1
		}
		r[w.A()] = v
	case prog.Setflag:
		h.SetFlag(r[w.A()])
	case prog.Clearlock:
		h.ClearLock(r[w.A()])
	case prog.After:
		if v := r[w.A()]; v < 0 || v > prog.MaxDelay {
			return BadDelay
		}
		m.after = r[w.A()]
	case prog.Display:
		h.Display(p.id, r[w.A()])
	default:
		return m.move(p, w, r[w.A():])
	}
	return None
}

// move executes the services that move bytes. arg are their registers.
func (m *Machine) move(p *program, w prog.Word, arg []int64) Cause {
	op := w.Op()
	var b []byte
	var cause Cause
	switch op {
	case prog.Sendp, prog.Sendphere, prog.Sendpall:
		b, cause = p.ofPacket(arg[0], arg[1], w.Imm())
	case prog.Deliverp:
		b, cause = p.ofPacket(arg[0], arg[3], w.Imm())
	case prog.Send, prog.Sendhere, prog.Sendall:
		b, cause = p.ofVariable(w.Range(), arg[0], arg[1])
	case prog.Copy:
		b, cause = p.ofVariable(w.Range(), arg[0], arg[2])
	default:
		b, cause = p.ofVariable(w.Range(), arg[0], arg[3])
	}
	if cause != None {
		return cause
	}
	if p.limit -= len(b) / bytesPerUnit; p.limit < p.pc {
		p.pc, p.limit = p.pc-1, p.limit-1 // charged, though not executed
		return OutOfBudget
	}
	switch op {
	case prog.Send, prog.Sendp:
		return m.send(p, b, arg, uint64(arg[4]))
	case prog.Sendhere, prog.Sendphere:
		return m.send(p, b, arg, 0)
	case prog.Sendall, prog.Sendpall:
		return m.sendAll(p, b, arg)
	case prog.Copy:
		from, cause := p.ofPacket(arg[1], arg[2], 1)
		copy(b, from)
		return cause
	}
	return m.transfer(p, op, b, Transfer{p.id, arg[2], arg[1]})
}

// ofVariable returns n bytes of a variable as a slice, from element first on.
func (p *program) ofVariable(v prog.Range, first, n int64) ([]byte, Cause) {
	if uint64(first) >= uint64(v.Len) {
		return nil, OutOfArray
	}
	if uint64(n) > uint64(int64(v.Len)-first)*8 {
		return nil, BadLength
	}
	return p.bytes(v.Base+int(first), int(n)), None
}

// ofPacket returns n bytes of the packet as a slice. first counts in units of 1 or 8 bytes.
func (p *program) ofPacket(first, n int64, unit int32) ([]byte, Cause) {
	all := uint64(len(p.packet))
	if uint64(first) > all || uint64(first)*uint64(unit) > all || uint64(n) > all-uint64(first)*uint64(unit) {
		return nil, OutOfPacket
	}
	return p.packet[first*int64(unit):][:n:n], None
}

// sendAll sends a message to each program with a name. Each message costs as much as a SEND; the
// first one is already paid for.
func (m *Machine) sendAll(p *program, b []byte, arg []int64) Cause {
	if k := arg[3]; uint64(k) >= uint64(len(p.module.Names)) || p.module.Names[k].Of != prog.ProgramName {
		return BadAddress
	}
	m.members = m.members[:0]
	m.cfg.Host.Members(p.id, p.module.Names[arg[3]].Name, func(d Destination) { m.members = append(m.members, d) })
	for i, d := range m.members {
		if i > 0 {
			if p.limit -= 1 + len(b)/bytesPerUnit; p.limit < p.pc {
				p.pc, p.limit = p.pc-1, p.limit-1
				return OutOfBudget
			}
		}
		to := [4]int64{2: arg[2], 3: int64(d.Program)}
		if cause := m.send(p, b, to[:], d.NIC); cause != None {
			return cause
		}
	}
	return None
}

func (m *Machine) send(p *program, b []byte, arg []int64, nic uint64) Cause {
	trigger, to := uint32(arg[2]), ID(arg[3])
	if int64(trigger) != arg[2] || int64(to) != arg[3] || to == 0 {
		return BadAddress
	}
	if len(b) > prog.MaxMessage {
		return BadLength
	}
	if !m.cfg.Host.Send(p.id, Destination{to, trigger, nic}, b) {
		return SendRefused
	}
	return None
}

// transfer begins a DELIVER or GET. If it does not end at once, it goes on beside the program
// (PANIC-39): the compiler emits a wait before any statement that depends on it.
func (m *Machine) transfer(p *program, op prog.Op, b []byte, t Transfer) Cause {
	if t.Offset < 0 {
		return SegmentRefused
	}
	begin := m.cfg.Host.Deliver
	if op == prog.Get {
		begin = m.cfg.Host.Get
	}
	p.pending++ // counted first, so that a transfer that ends within the call is known
	switch begin(t, b) {
	case Done:
		p.pending--
	case Refused:
		p.pending--
		return SegmentRefused
	}
	return None
}
