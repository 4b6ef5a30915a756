package ebpf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/pdl/prog"
)

// ErrCannotReside is wrapped by the errors about programs that the driver cannot run.
var ErrCannotReside = errors.New("program cannot reside in the driver")

// A Reason is a reason for which a program cannot reside in the driver.
type Reason struct {
	Line int // of the source, from 1; 0 for the program as a whole
	Why  string
}

// Reasons holds all the reasons for one program, by line.
type Reasons []Reason

// Error returns the reasons, one after the other.
func (l Reasons) Error() string {
	var list []string
	for _, r := range l {
		list = append(list, fmt.Sprintf("line %d: %s", r.Line, r.Why))
	}
	return strings.Join(list, "; ")
}

// Unwrap returns ErrCannotReside.
func (l Reasons) Unwrap() error { return ErrCannotReside }

// Check returns the reasons for which a verified module cannot reside in the driver, or nil if
// it can. The initialisation is not restricted, since the virtual machine runs it.
func Check(m *prog.Module) Reasons {
	f := newFlow(m)
	var c checker
	c.flow = f
	if len(m.Triggers) == 0 {
		c.say(0, "it has no triggers, and so nothing that the driver could run")
		return c.reasons
	}
	for _, l := range f.loops() {
		if !f.counts(l) {
			c.say(f.lineOf(l),
				"it cannot be seen that this loop ends: in each turn, one variable has to be counted in one "+
					"direction and compared with something that the loop does not change")
		}
	}
	for pc := range f.code {
		if f.reached[pc] {
			c.word(pc)
		}
	}
	for _, t := range m.Triggers {
		c.follow(t.Entry)
	}
	if len(c.reasons) == 0 {
		c.length()
	}
	slices.SortStableFunc(c.reasons, func(a, b Reason) int { return cmp.Compare(a.Line, b.Line) })
	return slices.Compact(c.reasons)
}

type checker struct {
	*flow
	reasons Reasons
	seen    map[[2]int]bool
}

func (c *checker) say(line int, format string, args ...any) {
	c.reasons = append(c.reasons, Reason{line, fmt.Sprintf(format, args...)})
}

const (
	sendsHere = "SEND without AT sends to this NIC; a program in the driver can only answer: AT SOURCE"
	sendsOn   = "SEND has another NIC than AT SOURCE; a program in the driver can only answer"
)

// word checks an instruction by itself.
func (c *checker) word(pc int) {
	w, line := c.code[pc], c.m.LineAt(pc)
	switch w.Op() {
	case prog.Sendhere, prog.Sendphere:
		c.say(line, sendsHere)
	case prog.Lookup: // for TO without AT, or for AT
		if c.m.Names[w.Imm()].Of == prog.NodeName {
			c.say(line, sendsOn)
		} else {
			c.say(line, sendsHere)
		}
	case prog.After:
		c.say(line, "PASS AFTER delays a message that a process sends; a program in the driver guards no process")
	case prog.Sendall, prog.Sendpall:
		c.say(line, "SEND to all NICs (AT *); a program in the driver can only answer: AT SOURCE")
	case prog.Lookupat:
		c.say(line,
			"TO %s: only the engine knows which program of another NIC has that name; "+
				"a program in the driver sends to a number",
			c.m.Names[w.Imm()].Name)
	case prog.Send, prog.Sendp:
		if by := c.maker(pc, w.A()+4); by < 0 || c.code[by].Op() != prog.Mov || c.code[by].B() != prog.Source {
			c.say(line, sendsOn)
		}
		if n, ok := c.constant(pc, w.A()+1); ok && n > MostMessage {
			c.say(line, "SEND of %d bytes; a reply in the driver has at most %d", n, MostMessage)
		}
	}
	if c.writes(pc, prog.Source) {
		c.say(line, "changes the word that SOURCE is in")
	}
}

// follow walks all paths from an instruction on, and checks the instructions behind a SEND.
func (c *checker) follow(from int) {
	if c.seen == nil {
		c.seen = make(map[[2]int]bool)
	}
	open := [][2]int{{from, 0}}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if c.seen[at] {
			continue
		}
		c.seen[at] = true
		pc, sent := at[0], at[1]
		if op := c.code[pc].Op(); op == prog.Send || op == prog.Sendp {
			if sent > 0 {
				c.say(c.m.LineAt(pc), "a second SEND in one activation; the frame of a message becomes one reply")
			}
			sent = 1
		}
		next, target := c.leads(pc)
		for _, to := range []int{next, target} {
			if to >= 0 {
				open = append(open, [2]int{to, sent})
			}
		}
	}
}

// The kernel's limits for one function: a jump reaches 32,767 instructions, and the verifier
// keeps 8,192 branches to explore.
const (
	mostInstructions = 32_000
	mostJumps        = 8_000
)

// length checks the length of the code without segments. Each segment makes it longer; see
// compile.
func (c *checker) length() {
	b, err := generate(c.flow, Options{})
	if err != nil {
		c.say(0, "%v", err)
		return
	}
	if long := tooLong(b); long != "" {
		c.say(0, "it is too long: %s", long)
	}
}

// tooLong returns by how much code exceeds the kernel's limits, or "". The assembler does not
// notice a jump that goes too far.
func tooLong(b *builder) string {
	n := 0
	for _, in := range b.ins {
		n += int(in.Size()) / 8
	}
	if n <= mostInstructions && b.most <= mostJumps {
		return ""
	}
	return fmt.Sprintf("%d instructions of the kernel's and %d conditional jumps, expected at most %d and %d",
		n, b.most, mostInstructions, mostJumps)
}
