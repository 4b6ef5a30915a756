// Package pdltest writes random but meaningful programs, to test the compiler and the virtual
// machine.
package pdltest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A writer writes random but meaningful programs: names are declared, loops end, and indices
// mostly fit.
type writer struct {
	*rand.Rand
	b     strings.Builder
	loops int // loop counters so far; only their loops assign to them
	depth int
	init  bool

	resident bool // the program must be one that a driver accepts
	sent     bool // this handler has a SEND, which must be the only one
	inLoop   int
}

// The variables: enough scalars and arrays that some lie in registers and some do not.
var (
	scalars = []string{"a", "b", "c", "d"}
	arrays  = map[string]int{"p": 4, "q": 7, "big": 250}
)

// bounds are the limits of words, of half words and of immediate fields, and shift counts around
// the width of a word.
var bounds = []string{"0x8000000000000000",
	"0x7fffffffffffffff", "0xffffffffffffffff", "0xffffffff80000000",
	"0xffffffff7fffffff", "0x7fffffff", "0x80000000",
	"0xffffffff", "0xffffffffffff8000", "0xffffffffffff7fff", "32767", "32768", "127", "128",
	"0xffffffffffffff80", "255", "256", "62", "63", "64", "65"}

// Program writes a program with triggers 1 and 2.
func Program(r *rand.Rand) string { return program(&writer{Rand: r}) }

// Resident writes a program that sends at most once in an activation, and only to the sender of
// the message.
func Resident(r *rand.Rand) string { return program(&writer{Rand: r, resident: true}) }

func program(w *writer) string {
	init, one, two := w.handler(true), w.handler(false), w.handler(false)
	w.b.Reset()
	fmt.Fprintf(&w.b, "PROGRAM random:\nCONST k = %d, far = %s, mask = 7;\nVAR a, b, c, d, x, p[4], q[mask], big[250]",
		1+w.IntN(100)-200*w.IntN(2), w.number())
	for i := range w.loops {
		fmt.Fprintf(&w.b, ", i%d", i)
	}
	fmt.Fprintf(&w.b, ";\nTRIGGERS 1, 2;\n%s;\nMESSAGE 1: %s;\nMESSAGE 2: %s;\nEND;\n", init, one, two)
	return w.b.String()
}

func (w *writer) handler(init bool) string {
	w.b.Reset()
	w.init, w.depth, w.sent = init, 0, false
	w.block(3 + w.IntN(8))
	return w.b.String()
}

func (w *writer) pick(list ...string) string { return list[w.IntN(len(list))] }

func (w *writer) block(n int) {
	w.b.WriteString("BEGIN\n")
	for range n {
		w.stmt()
		w.b.WriteString(";\n")
	}
	w.b.WriteString("END")
}

func (w *writer) stmt() {
	w.depth++
	defer func() { w.depth-- }()
	n := w.IntN(24)
	if w.depth > 3 && n < 6 {
		n = 10
	}
	switch n {
	case 0, 1:
		fmt.Fprintf(&w.b, "IF %s THEN ", w.expr(3))
		w.block(1 + w.IntN(3))
		if w.IntN(2) == 0 {
			w.b.WriteString(" ELSE ")
			w.block(1 + w.IntN(3))
		}
	case 2, 3, 4:
		w.while()
	case 5:
		w.block(w.IntN(3))
	case 6:
		w.b.WriteString("DISPLAY " + w.expr(3))
	case 7:
		if w.resident && (w.init || w.sent || w.inLoop > 0) {
			w.b.WriteString("a = a + 1")
			return
		}
		w.sent = true
		if !w.resident && w.IntN(5) == 0 {
			fmt.Fprintf(&w.b, "SEND %s LEN %s AS %s TO peer AT *", w.place(), w.length(), w.pick("1", "2", w.varying()))
			return
		}
		to := "peer"
		if w.resident { // elsewhere the driver does not know this name
			to = "b"
		}
		fmt.Fprintf(&w.b, "SEND %s LEN %s AS %s TO %s",
			w.place(), w.length(), w.pick("1", "2", w.varying()), w.pick("5", to, "1 + "+w.varying()))
		if w.resident {
			w.b.WriteString(" AT SOURCE")
			return
		}
		w.b.WriteString(w.pick("", " AT 1:2:3:4:5:6:7:8", " AT node", ` AT "no-de"`, " AT "+w.expr(1)))
	case 8:
		fmt.Fprintf(&w.b, "DELIVER %s OFFSET %s INTO %s LEN %s",
			w.place(), w.pick("0", "8", "0", "8", "60 + (a & 7)", w.varying()), w.pick("1", "2", "mask"), w.length())
	case 9:
		from := w.pick("1", "2", "1", "2", "1", "2", "1", "2", "a")
		if !w.init && w.IntN(3) == 0 {
			from = "PACKET"
		}
		fmt.Fprintf(&w.b, "GET %s OFFSET %s FROM %s LEN %s",
			w.element(), w.pick("0", "3", w.varying()), from, w.length())
	case 10:
		w.b.WriteString(w.pick("SET FLAG ", "CLEAR LOCK ") + w.pick("1", "2", w.varying()))
	case 22, 23:
		w.moves()
	case 11:
		ends := []string{"AWAIT", "STOP", "PASS", "DROP"}
		if w.init {
			ends = ends[:1]
		}
		if w.IntN(4) == 0 {
			w.b.WriteString(w.pick(ends...))
			if strings.HasSuffix(w.b.String(), "PASS") && !w.resident && w.IntN(2) == 0 {
				w.b.WriteString(" AFTER " + w.pick("0", "1000", "a & 255", w.varying()))
			}
		}
	case 12:
		fmt.Fprintf(&w.b, "x = %s & 3", w.expr(2))
	case 13:
		v := w.pick("p", "q", "big") // the element is read twice and may change in between
		between := w.pick("x = 2", v+"[x] = b", v+"[1] = c",
			v+"[a & 3] = 9", "GET "+v+"[x] OFFSET 0 FROM 2 LEN 8", "DISPLAY a", "c = a + b", "")
		fmt.Fprintf(&w.b, "IF %s[x] %s a THEN BEGIN %s; IF %s[x] <> b THEN d = d + 1 END",
			v, w.pick("<", "<>", ">="), between, v)
	default:
		fmt.Fprintf(&w.b, "%s = %s", w.element(), w.expr(3))
	}
}

// moves writes statements that move bytes in both directions, and statements that depend on
// them. All are valid.
func (w *writer) moves() {
	for range 2 + w.IntN(4) {
		segment, offset, length := w.pick("1", "2"), w.pick("0", "1", "8", "b & 3"), w.pick("1", "4", "8")
		v := w.pick("a", "b", "p[0]", "q[0]", "p[a & 3]")
		switch w.IntN(8) {
		case 0, 1:
			fmt.Fprintf(&w.b, "DELIVER %s OFFSET %s INTO %s LEN %s; ", v, offset, segment, length)
		case 2, 3:
			fmt.Fprintf(&w.b, "GET %s OFFSET %s FROM %s LEN %s; ", v, offset, segment, length)
		case 4:
			fmt.Fprintf(&w.b, "%s = %s; ", v, w.pick("a + 1", "p[0]", "q[1] * 3", "7"))
		case 5:
			send := "SEND c LEN 1 AS 1 TO 1; "
			if w.resident {
				send = "SET FLAG 2; "
			}
			w.b.WriteString(w.pick("SET FLAG 1; ", send, "CLEAR LOCK 2; ", "c = LOCK(1); ", "DISPLAY c; "))
		case 6:
			fmt.Fprintf(&w.b, "IF %s THEN %s = 1; ", w.pick("p[1] > 2", "c < 3", "d AND 1"), v)
		case 7:
			i := fmt.Sprintf("i%d", w.loops)
			w.loops++
			fmt.Fprintf(&w.b, "%s = 0; WHILE %s < 2 AND %s <> 77 DO BEGIN %s = %s + 1; %s = %s + 1 END; ",
				i, i, w.pick("c", v), w.pick("c", v), w.pick("c", v), i, i)
		}
	}
}

// while writes a loop that ends. It has one of the forms that the compiler recognizes, or
// another form.
func (w *writer) while() {
	i := fmt.Sprintf("i%d", w.loops)
	w.loops++
	turns := 1 + w.IntN(6)
	if w.IntN(6) == 0 { // a loop that adds up an array, to its end or beyond
		v, sum := w.pick("p", "q", "big"), w.pick(scalars...)
		fmt.Fprintf(&w.b, "%s = %d; WHILE %s < %d DO BEGIN %s = %s + %s[%s]; %s = %s + 1 END",
			i, w.IntN(3), i, turns+3, sum, sum, v, i, i, i)
		return
	}
	if w.IntN(5) == 0 {
		limit := fmt.Sprintf("i%d", w.loops) // a fresh variable, which nothing else assigns to
		w.loops++
		fmt.Fprintf(&w.b, "%s = %d; ", limit, turns)
		fmt.Fprintf(&w.b, "%s = 0; WHILE %s < %s DO ", i, i, limit)
		w.turn(i)
		return
	}
	fmt.Fprintf(&w.b, "%s = 0; WHILE ", i)
	switch w.IntN(4) {
	case 0:
		fmt.Fprintf(&w.b, "%s < %d DO ", i, turns)
	case 1:
		fmt.Fprintf(&w.b, "d < 100 AND %d > %s DO ", turns, i)
	case 2:
		fmt.Fprintf(&w.b, "NOT (%s >= %d) DO ", i, turns)
	default:
		fmt.Fprintf(&w.b, "(%s) < (%d) DO ", i, turns)
	}
	w.turn(i)
}

// turn writes the body of a loop that counts i.
func (w *writer) turn(i string) {
	w.b.WriteString("BEGIN ")
	w.inLoop++
	defer func() { w.inLoop-- }()
	for range w.IntN(3) {
		w.stmt()
		w.b.WriteString("; ")
	}
	if w.IntN(4) == 0 {
		fmt.Fprintf(&w.b, "BEGIN %s = %s + 2 END END", i, i)
	} else {
		fmt.Fprintf(&w.b, "%s = %s + 1 END", i, i)
	}
}

// element writes a target of an assignment.
func (w *writer) element() string {
	if w.IntN(2) == 0 {
		return w.pick(scalars...)
	}
	return w.arrayElement()
}

func (w *writer) arrayElement() string {
	name := w.pick("p", "q", "big")
	size := arrays[name]
	switch n := w.IntN(40); {
	case n == 0:
		return fmt.Sprintf("%s[%s]", name, w.varying())
	case n == 1: // the last three elements, or one beyond
		return fmt.Sprintf("%s[(%s & 3) + %d]", name, w.pick(scalars...), size-3)
	case n < 16:
		return fmt.Sprintf("%s[%d]", name, w.IntN(size))
	case n < 22:
		return fmt.Sprintf("%s[%s & 3]", name, w.pick(scalars...))
	case n < 32:
		return name + "[x]" // x is never more than 3
	}
	return fmt.Sprintf("%s[(%s + %d) & 3]", name, w.pick(scalars...), w.IntN(9)-4)
}

func (w *writer) place() string {
	if !w.init && w.IntN(3) == 0 {
		return w.pick("PACKET", "PACKETBYTE") + "[" + w.pick("0", "0", "0", "1", "a & 3") + "]"
	}
	return w.element()
}

// varying writes an expression with a value that the compiler does not know. For a known value
// it would report an error.
func (w *writer) varying() string {
	if w.IntN(4) > 0 {
		return "(" + w.pick(scalars...) + " & 3)"
	}
	return w.pick(scalars...) + w.pick("+", "-", "^") + w.expr(1)
}

func (w *writer) length() string {
	switch n := w.IntN(40); {
	case n == 0:
		return "30 + (a & 3)" // fits an array of four, or exceeds it
	case n == 1 && !w.init:
		return w.pick("PACKETLEN", "PACKETLEN - (a & 1)", "PACKETLEN + (a & 1) - 8")
	}
	return w.pick("0", "1", "7", "8", "a & 7", "8 - (b & 7)", "5", "6", "c & 9", w.pick(scalars...))
}

func (w *writer) number() string {
	switch w.IntN(8) {
	case 0:
		return fmt.Sprintf("%#x", w.Uint64())
	case 1:
		return fmt.Sprint(w.IntN(70000))
	case 2:
		return fmt.Sprint(w.Int64N(1 << 40))
	case 3:
		return fmt.Sprint(1 << w.IntN(62))
	case 4:
		return w.pick(bounds...)
	}
	return fmt.Sprint(w.IntN(12))
}

// expr writes an expression of at most the given depth.
func (w *writer) expr(depth int) string {
	if depth == 0 || w.IntN(6) == 0 {
		return w.leaf()
	}
	switch w.IntN(12) {
	case 0:
		return w.pick("-", "~") + w.leaf()
	case 1:
		return "(NOT " + w.expr(depth-1) + ")"
	case 2, 3:
		return "(" + w.expr(depth-1) + w.pick(" AND ", " OR ") + w.expr(depth-1) + ")"
	case 4, 5:
		return "(" + w.expr(depth-1) + w.pick("<", "<=", ">", ">=", "==", "=", "<>", "!=") + w.expr(depth-1) + ")"
	case 6:
		return "(" + w.expr(depth-1) + w.pick("/", "%") +
			w.pick("3", "8", "0x80000000", "0x4000000000000000", "0xffffffffffffffff", "0x8000000000000000",
				"(a | 2)", "(b | 1)", "k", "(c & 15)") + ")"
	case 7:
		return "(" + w.expr(depth-1) + w.pick("<<", ">>", ">>>") +
			w.pick("1", "3", "63", "64", "a", "b & 7", "62 + (c & 3)", "far") + ")"
	}
	return "(" + w.expr(depth-1) + w.pick("+", "-", "*", "&", "|", "^", "+", "-") + w.expr(depth-1) + ")"
}

func (w *writer) leaf() string {
	switch n := w.IntN(14); {
	case n < 5:
		return w.pick(scalars...)
	case n < 8:
		return w.arrayElement()
	case n < 9:
		return w.pick("k", "far", "mask")
	case n < 10 && !w.init:
		return w.pick("PACKETLEN", "SOURCE", "PACKET[0]",
			"PACKET[1]", "PACKET[a & 1]", "PACKETBYTE[3]", "PACKETBYTE[b & 3]", "PACKETBYTE[(b & 3) + 2]")
	case n < 11:
		return w.pick("CLOCK", "LOCK(1)", "LOCK(a)")
	}
	return w.number()
}
