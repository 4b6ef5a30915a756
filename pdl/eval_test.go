package pdl

import (
	"fmt"
	"math"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// An evaluator executes a program by walking its tree: a second, minimal implementation of the
// language, to compare the compiler and the virtual machine with. It knows no registers, no
// budgets and no transfers that run beside the program.
type evaluator struct {
	vars     map[*Var][]int64
	packet   []byte
	source   int64
	segments map[int64][]byte
	locks    map[int64]bool
	trace    []string // effects that others see
	ops      int      // operators, elements, assignments: the operations of the source

	line int // of the current statement
	// Causes for which the activation may be aborted: any operand of an expression may be
	// evaluated first.
	causes []vm.Cause
}

// An ending says how an activation ended: a keyword, or an error.
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
	e.packet, e.source, e.causes = packet, source, nil
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

// tell records what the program tells others. By then the segments must hold all that the
// program has written.
func (e *evaluator) tell(format string, args ...any) {
	e.say(format+" %x", append(args, e.segments)...)
}

func (e *evaluator) stmt(s Stmt) {
	if s != nil {
		e.line = s.Start().Line
	}
	switch s := s.(type) {
	case *Block:
		for _, s := range s.Stmts {
			e.stmt(s)
		}
	case *Assign:
		r := s.Target.(*Ref)
		args := e.values(s.Value, r.Index)
		*e.word(r, args[1]) = args[0]
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
			e.line = s.Pos.Line
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
	case "PASS AFTER":
		n := e.value(s.X)
		e.abortIf(n < 0 || n > prog.MaxDelay, vm.BadDelay)
		panic(ending("PASS"))
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

// abortIf ends the activation for a cause.
func (e *evaluator) abortIf(bad bool, cause vm.Cause) {
	if bad {
		e.causes = append(e.causes, cause)
		panic(ending("ABORT"))
	}
}

// values evaluates expressions; nil ones are 0. If several of them fail, each may be the one
// that aborts.
func (e *evaluator) values(list ...Expr) []int64 {
	values := make([]int64, len(list))
	bad := false
	for i, x := range list {
		func() {
			defer func() {
				if r := recover(); r != nil && r != ending("ABORT") {
					panic(r)
				} else if r != nil {
					bad = true
				}
			}()
			if x != nil {
				values[i] = e.value(x)
			}
		}()
	}
	if bad {
		panic(ending("ABORT"))
	}
	return values
}

// part returns n bytes of a variable or of the packet, from an element on, and a function that
// writes bytes there.
func (e *evaluator) part(what Expr, first, n int64) (b []byte, put func([]byte)) {
	if p, ok := what.(*Packet); ok {
		e.abortIf(first < 0 || first > int64(len(e.packet)), vm.OutOfPacket)
		if !p.Byte {
			first *= 8
		}
		e.abortIf(n < 0 || first > int64(len(e.packet)) || n > int64(len(e.packet))-first, vm.OutOfPacket)
		return e.packet[first : first+n], nil
	}
	words := e.vars[what.(*Ref).v]
	e.abortIf(first < 0 || first >= int64(len(words)), vm.OutOfArray)
	e.abortIf(n < 0 || n > 8*(int64(len(words))-first), vm.BadLength)
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

// numberAt returns the number of every program at a NIC, as the test's host looks it up.
func numberAt(nic uint64) int64 { return 77 + int64(nic%3) }

// memberNICs are the destinations of a SEND to all.
var memberNICs = []uint64{3, 9}

func (e *evaluator) send(s *Send) {
	if s.All {
		args := e.values(indexOf(s.What), s.Len, s.As)
		b, _ := e.part(s.What, args[0], args[1])
		e.abortIf(args[2] < 0 || args[2] > math.MaxUint32, vm.BadAddress)
		e.abortIf(len(b) > prog.MaxMessage, vm.BadLength)
		for _, nic := range memberNICs {
			e.tell("send %x as %d to %d at %d", b, args[2], numberAt(nic), nic)
		}
		return
	}
	list := []Expr{indexOf(s.What), s.Len, s.As, s.To, s.At}
	if s.toSymbol >= 0 {
		list[3] = nil
	}
	if s.atSymbol >= 0 {
		list[4] = nil
	}
	args := e.values(list...)
	as, to, at := args[2], args[3], args[4]
	if s.atSymbol >= 0 {
		at = 88
	}
	if s.toSymbol >= 0 {
		to = numberAt(uint64(at))
	}
	b, _ := e.part(s.What, args[0], args[1])
	e.abortIf(as < 0 || as > math.MaxUint32 || to < 1 || to > math.MaxUint32, vm.BadAddress)
	e.abortIf(len(b) > prog.MaxMessage, vm.BadLength)
	e.tell("send %x as %d to %d at %d", b, as, to, at)
}

func (e *evaluator) move(s *Move) {
	args := e.values(indexOf(s.What), s.Offset, s.Segment, s.Len)
	first, offset, n := args[0], args[1], args[3]
	b, put := e.part(s.What, first, n)
	if s.FromPacket {
		e.abortIf(offset < 0 || offset > int64(len(e.packet)) || n > int64(len(e.packet))-offset, vm.OutOfPacket)
		put(e.packet[offset : offset+n])
		return
	}
	all := e.segments[args[2]]
	e.abortIf(all == nil || offset < 0 || offset > int64(len(all)) || n > int64(len(all))-offset, vm.SegmentRefused)
	if s.Get {
		put(append([]byte(nil), all[offset:offset+n]...))
		return
	}
	copy(all[offset:], b)
}

// word returns the place of a variable or element.
func (e *evaluator) word(r *Ref, i int64) *int64 {
	if r.Index != nil {
		e.ops++
	}
	e.abortIf(i < 0 || i >= int64(len(e.vars[r.v])), vm.OutOfArray)
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
		i := int64(0)
		if x.Index != nil {
			i = e.value(x.Index)
		}
		return *e.word(x, i)
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
		return 4711 // CLOCK of the test's host
	}
	panic("no expression")
}

func (e *evaluator) binary(x *Binary) int64 {
	if x.Op == "AND" || x.Op == "OR" {
		l := e.value(x.X)
		if (l != 0) == (x.Op == "OR") {
			return truth(l != 0)
		}
		return truth(e.value(x.Y) != 0)
	}
	sides := e.values(x.X, x.Y)
	v, ok := binary(x.Op, sides[0], sides[1])
	e.abortIf(!ok, vm.DivideByZero)
	return v
}

func (e *evaluator) inPacket(x *Packet) (v int64) {
	i := e.value(x.Index)
	n := int64(8)
	if x.Byte {
		n = 1
	}
	e.abortIf(i < 0 || i >= int64(len(e.packet)) || i*n >= int64(len(e.packet)), vm.OutOfPacket)
	for k := range n {
		if at := i*n + k; at < int64(len(e.packet)) {
			v |= int64(e.packet[at]) << (8 * k)
		}
	}
	return v
}
