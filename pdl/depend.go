package pdl

import (
	"slices"

	"github.com/weftnet/weft/pdl/prog"
)

// DELIVER and GET only start a transfer, and the program goes on meanwhile (PANIC-39). Before a
// statement that depends on a transfer in progress, the program waits for all transfers:
//
//	a transfer that              waits for it: a statement that
//	writes variable v (GET)      reads or writes v
//	reads variable v (DELIVER)   writes v
//	writes segment s (DELIVER)   moves from or to s, where the two may overlap
//	reads segment s (GET)        moves to s, where the two may overlap
//	any                          tells others: SEND, SET FLAG, CLEAR LOCK;
//	                             or reads what they told: LOCK()
//
// If any statement of a loop depends on a transfer in progress, the loop waits before its first
// turn, not in each. At its end each turn waits for the transfers that it began. At the end of
// an activation the virtual machine waits.

// A transfer is a DELIVER or GET that may be in progress.
type transfer struct {
	v                       *Var // nil for the packet
	get                     bool
	segment, offset, length int64
	known                   bool // segment is known
	exact                   bool // segment, offset and length are known
}

// pending lists the transfers that may be in progress.
type pending []transfer

func (p pending) clone() pending { return slices.Clone(p) }

// A use says what a statement does, as far as it matters to transfers.
type use struct {
	reads, writes []*Var
	signals       bool
}

// reads lists the variables that the expressions read. For LOCK() it adds a nil, since that
// reads what others write.
func reads(list ...Expr) (vars []*Var) {
	for _, e := range list {
		walk(e, func(e Expr) {
			switch e := e.(type) {
			case *Ref:
				if e.v != nil {
					vars = append(vars, e.v)
				}
			case *LockTest:
				vars = append(vars, nil)
			}
		})
	}
	return vars
}

// variable returns the variable that a statement assigns to or moves.
func variable(e Expr) []*Var {
	if r, ok := e.(*Ref); ok && r.v != nil {
		return []*Var{r.v}
	}
	return nil
}

// indexOf returns the index in the target of an assignment, or in the operand of a move.
func indexOf(e Expr) Expr {
	switch e := e.(type) {
	case *Ref:
		return e.Index
	case *Packet:
		return e.Index
	}
	return nil
}

// dependsOn reports whether the use must wait for a transfer.
func (u use) dependsOn(t transfer) bool {
	return u.signals || slices.Contains(u.reads, nil) ||
		t.get && t.v != nil && slices.Contains(u.reads, t.v) ||
		t.v != nil && slices.Contains(u.writes, t.v)
}

// before emits a wait if a statement depends on a transfer in progress.
func (g *generator) before(u use) {
	if slices.ContainsFunc(g.pending, u.dependsOn) {
		g.waitForAll()
	}
}

func (g *generator) waitForAll() {
	if len(g.pending) > 0 {
		g.emit(prog.Wait, 0, 0, 0, 0)
		g.pending = nil
	}
}

// transferOf returns the transfer that a DELIVER or GET begins.
func transferOf(s *Move) transfer {
	t := transfer{get: s.Get}
	if r, ok := s.What.(*Ref); ok {
		t.v = r.v
	}
	var offset, length bool
	t.segment, t.known = constant(s.Segment)
	t.offset, offset = constant(s.Offset)
	t.length, length = constant(s.Len)
	t.exact = t.known && offset && length
	return t
}

// overlaps reports whether two transfers may touch the same bytes of a segment.
func (t transfer) overlaps(o transfer) bool {
	switch {
	case t.known && o.known && t.segment != o.segment:
		return false
	case t.exact && o.exact && (t.offset+t.length <= o.offset || o.offset+o.length <= t.offset):
		return false
	}
	return true
}

// useOf returns the effect of a DELIVER or GET on variables.
func useOf(s *Move) use {
	u := use{reads: reads(indexOf(s.What), s.Offset, s.Segment, s.Len)}
	if s.Get {
		u.writes = variable(s.What)
	} else {
		u.reads = append(u.reads, variable(s.What)...)
	}
	return u
}

func (g *generator) beforeMove(s *Move) {
	g.before(useOf(s))
	if s.FromPacket {
		return
	}
	t := transferOf(s)
	if slices.ContainsFunc(g.pending, func(o transfer) bool { return !(t.get && o.get) && t.overlaps(o) }) {
		g.waitForAll()
	}
}

// beforeLoop emits a wait if anything in a loop depends on a transfer in progress. It reports
// whether the loop begins a transfer.
func (g *generator) beforeLoop(s *While) (begins bool) {
	depends := false
	visit(s, func(u use, moves bool) {
		begins = begins || moves
		depends = depends || slices.ContainsFunc(g.pending, u.dependsOn)
	})
	if depends {
		g.waitForAll()
	}
	return begins
}

// visit calls f with the effects of every statement in s.
func visit(s Stmt, f func(u use, moves bool)) {
	switch s := s.(type) {
	case *Block:
		for _, s := range s.Stmts {
			visit(s, f)
		}
	case *Assign:
		f(use{reads: append(reads(s.Value), reads(indexOf(s.Target))...), writes: variable(s.Target)}, false)
	case *If:
		f(use{reads: reads(s.Cond)}, false)
		visit(s.Then, f)
		visit(s.Else, f)
	case *While:
		f(use{reads: reads(s.Cond)}, false)
		visit(s.Body, f)
	case *Send:
		f(use{signals: true}, false)
	case *Move:
		f(useOf(s), !s.FromPacket)
	case *Act:
		f(use{reads: reads(s.X), signals: s.What == "SET FLAG" || s.What == "CLEAR LOCK"}, false)
	}
}
