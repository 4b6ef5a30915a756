package pdl

import (
	"fmt"
	"math"

	"github.com/weftnet/weft/pdl/prog"
)

// An evaluator walks the tree of a program and does what it says: a second implementation of the language, as simple as can
// be, that the compiler and the virtual machine are compared with. It knows nothing of registers, budgets or transfers that
// go on beside the program.
type evaluator struct {
	vars     map[*Var][]int64
	packet   []byte
	source   int64
	segments map[int64][]byte
	locks    map[int64]bool
	trace    []string // what others see
	ops      int      // operators, elements, assignments: the operations of the source
}

// What ends an activation: a keyword, or an error.
type ending string

func newEvaluator(p *Program) *evaluator {
	e := &evaluator{vars: make(map[*Var][]int64), segments: make(map[int64][]byte), locks: make(map[int64]bool)}
	for _, v := range p.Vars {
		e.vars[v] = make([]int64, v.words)
	}
	return e
}

// run runs blocks with a message and returns how the activation ended.
func (e *evaluator) run(packet []byte, source int64, blocks ...*Block) (end ending) {
	e.packet, e.source = packet, source
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ending:
			end = r
		default:
			panic(r)
		}
	}()
	for _, b := range blocks {
		e.stmt(b)
	}
	return "AWAIT"
}

func (e *evaluator) say(format string, args ...any) {
	e.trace = append(e.trace, fmt.Sprintf(format, args...))
}

// tell says what others are told. Segments must be by then what the program has made of them.
func (e *evaluator) tell(format string, args ...any) {
	e.say(format+" %x", append(args, e.segments)...)
}

func (e *evaluator) stmt(s Stmt) {
	switch s := s.(type) {
	case *Block:
		for _, s := range s.Stmts {
			e.stmt(s)
		}
	case *Assign:
		v := e.value(s.Value)
		*e.word(s.Target.(*Ref)) = v
		e.ops++
	case *If:
		if e.value(s.Cond) != 0 {
			e.stmt(s.Then)
		} else if s.Else != nil {
			e.stmt(s.Else)
		}
	case *While:
		for e.value(s.Cond) != 0 {
			e.stmt(s.Body)
		}
	case *Send:
		e.send(s)
	case *Move:
		e.move(s)
	case *Act:
		e.act(s)
	}
}

func (e *evaluator) act(s *Act) {
	switch s.What {
	case "AWAIT", "STOP", "PASS", "DROP":
		panic(ending(s.What))
	case "CLEAR LOCK":
		n := e.value(s.X)
		delete(e.locks, n)
		e.tell("clear %d", n)
	case "SET FLAG":
		e.tell("flag %d", e.value(s.X))
	default:
		e.say("%s %d", s.What, e.value(s.X))
	}
}

func abortIf(bad bool) {
	if bad {
		panic(ending("ABORT"))
	}
}

// part returns n bytes of a variable or of the packet, and how to put bytes there.
func (e *evaluator) part(what Expr, n int64) (b []byte, put func([]byte)) {
	if p, ok := what.(*Packet); ok {
		first := e.value(p.Index)
		abortIf(first < 0 || first > int64(len(e.packet)))
		if !p.Byte {
			first *= 8
		}
		abortIf(n < 0 || first > int64(len(e.packet)) || n > int64(len(e.packet))-first)
		return e.packet[first : first+n], nil
	}
	r := what.(*Ref)
	first := int64(0)
	if r.Index != nil {
		first = e.value(r.Index)
	}
	words := e.vars[r.v]
	abortIf(first < 0 || first >= int64(len(words)) || n < 0 || n > 8*(int64(len(words))-first))
	for i := range n {
		b = append(b, byte(words[first+i/8]>>(i%8*8)))
	}
	return b, func(b []byte) {
		for i, c := range b {
			w := &words[first+int64(i/8)]
			*w = *w&^(0xff<<(i%8*8)) | int64(c)<<(i%8*8)
		}
	}
}

// numberAt is the number of every program at a NIC, as the test's host looks it up.
func numberAt(nic uint64) int64 { return 77 + int64(nic%3) }

func (e *evaluator) send(s *Send) {
	b, _ := e.part(s.What, e.value(s.Len))
	as, to := e.value(s.As), int64(0)
	at := int64(0)
	if s.At != nil {
		if at = 88; s.atSymbol < 0 {
			at = e.value(s.At)
		}
	}
	if s.toSymbol >= 0 {
		to = numberAt(uint64(at))
	} else {
		to = e.value(s.To)
	}
	abortIf(as < 0 || as > math.MaxUint32 || to < 1 || to > math.MaxUint32 || len(b) > prog.MaxMessage)
	e.tell("send %x as %d to %d at %d", b, as, to, at)
}

func (e *evaluator) move(s *Move) {
	n, offset := e.value(s.Len), e.value(s.Offset)
	if s.FromPacket {
		_, put := e.part(s.What, n)
		abortIf(offset < 0 || offset > int64(len(e.packet)) || n > int64(len(e.packet))-offset)
		put(e.packet[offset : offset+n])
		return
	}
	segment := e.value(s.Segment)
	b, put := e.part(s.What, n)
	all := e.segments[segment]
	abortIf(all == nil || offset < 0 || offset > int64(len(all)) || n > int64(len(all))-offset)
	if s.Get {
		put(append([]byte(nil), all[offset:offset+n]...))
		return
	}
	copy(all[offset:], b)
}

// word returns where a variable or element is.
func (e *evaluator) word(r *Ref) *int64 {
	if r.Index == nil {
		return &e.vars[r.v][0]
	}
	e.ops++
	i := e.value(r.Index)
	abortIf(i < 0 || i >= int64(len(e.vars[r.v])))
	return &e.vars[r.v][i]
}

func (e *evaluator) value(x Expr) int64 {
	switch x := x.(type) {
	case *Number:
		return x.Value
	case *Address:
		return int64(x.Value)
	case *Paren:
		return e.value(x.X)
	case *Ref:
		if x.c != nil {
			return x.c.value
		}
		return *e.word(x)
	case *Packet:
		e.ops++
		return e.inPacket(x)
	case *LockTest:
		return truth(e.locks[e.value(x.X)])
	case *Unary:
		e.ops++
		return unary(x.Op, e.value(x.X))
	case *Binary:
		e.ops++
		return e.binary(x)
	case *Builtin:
		switch x.Name {
		case "PACKETLEN":
			return int64(len(e.packet))
		case "SOURCE":
			return e.source
		}
		return 4711 // CLOCK, as the test's host says
	}
	panic("no expression")
}

func (e *evaluator) binary(x *Binary) int64 {
	l := e.value(x.X)
	if x.Op == "AND" && l == 0 || x.Op == "OR" && l != 0 {
		return truth(l != 0)
	}
	v, ok := binary(x.Op, l, e.value(x.Y))
	abortIf(!ok)
	return v
}

func (e *evaluator) inPacket(x *Packet) (v int64) {
	i := e.value(x.Index)
	n := int64(8)
	if x.Byte {
		n = 1
	}
	abortIf(i < 0 || i >= int64(len(e.packet)) || i*n >= int64(len(e.packet)))
	for k := range n {
		if at := i*n + k; at < int64(len(e.packet)) {
			v |= int64(e.packet[at]) << (8 * k)
		}
	}
	return v
}
