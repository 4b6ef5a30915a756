package prog

import (
	"fmt"
	"strings"
)

// Disassemble returns a module as text, one instruction a line. If the source is given, each of
// its lines precedes the instructions that were compiled from it.
func (m *Module) Disassemble(source string) string {
	d := disassembler{m: m, labels: make(map[int]string)}
	if source != "" {
		d.source = strings.Split(source, "\n")
	}
	d.name()
	d.head()
	lines := m.Lines
	for pc, w := range m.Code {
		if label := d.labels[pc]; label != "" {
			fmt.Fprintf(&d.b, "%s:\n", label)
		}
		if len(lines) > 0 && lines[0].PC == pc {
			d.line(lines[0].Line)
			lines = lines[1:]
		}
		fmt.Fprintf(&d.b, "%6d  %s\n", pc, d.word(pc, w))
	}
	return d.b.String()
}

type disassembler struct {
	m      *Module
	source []string
	labels map[int]string // by PC
	b      strings.Builder
}

// name gives each jump target a label. A target that begins a block is labelled with the block's
// name.
func (d *disassembler) name() {
	for pc, w := range d.m.Code {
		if to, ok := w.Target(pc); ok {
			d.labels[to] = fmt.Sprintf("L%d", to)
		}
	}
	d.labels[d.m.Init] = "INIT"
	for _, t := range d.m.Triggers {
		d.labels[t.Entry] = fmt.Sprintf("MESSAGE %d", t.Number)
	}
}

func (d *disassembler) head() {
	m := d.m
	fmt.Fprintf(&d.b, "program %s, hash %x\n%d instructions, %d words of data\n",
		m.Name, m.Hash(), len(m.Code), m.DataWords)
	for _, v := range m.Variables {
		size := ""
		if v.Array {
			size = fmt.Sprintf("[%d]", v.Len)
		}
		fmt.Fprintf(&d.b, "  %s%s at %d\n", v.Name, size, v.Base)
	}
	for _, s := range m.Names {
		fmt.Fprintf(&d.b, "  %s %q\n", s.Of, s.Name)
	}
}

func (d *disassembler) line(n int) {
	if n >= 1 && n <= len(d.source) {
		fmt.Fprintf(&d.b, "; %d: %s\n", n, strings.TrimSpace(d.source[n-1]))
	} else {
		fmt.Fprintf(&d.b, "; line %d\n", n)
	}
}

// register returns the name of a word of the data, as in the source if it is a variable.
func (d *disassembler) register(n int) string {
	for _, v := range d.m.Variables {
		switch {
		case n < v.Base || n >= v.Base+v.Len:
		case v.Array:
			return fmt.Sprintf("%s[%d]", v.Name, n-v.Base)
		default:
			return v.Name
		}
	}
	switch n {
	case PacketLen:
		return "PACKETLEN"
	case Source:
		return "SOURCE"
	}
	return fmt.Sprintf("r%d", n)
}

func (d *disassembler) word(pc int, w Word) string {
	e, ok := w.Op().Effect()
	if !ok {
		return fmt.Sprintf("%016x  no instruction", uint64(w))
	}
	var fields []string
	for _, f := range []struct {
		kind Kind
		n    uint8
	}{{e.A, w.A()}, {e.B, w.B()}, {e.C, w.C()}} {
		switch f.kind {
		case Read, Write, Modify:
			fields = append(fields, d.register(int(f.n)))
		case Half:
			fields = append(fields, fmt.Sprint(w.Half()))
		case Small:
			fields = append(fields, fmt.Sprint(int8(f.n)))
		}
	}
	for i := 1; i < e.Args; i++ {
		fields = append(fields, d.register(int(w.A())+i))
	}
	if imm := d.imm(pc, w, e); imm != "" {
		fields = append(fields, imm)
	}
	return strings.TrimRight(fmt.Sprintf("%-10s%s", e.Name, strings.Join(fields, ", ")), " ")
}

func (d *disassembler) imm(pc int, w Word, e *Effect) string {
	to, _ := w.Target(pc)
	switch e.Imm {
	case Number, Divisor, Shift, Unit:
		return fmt.Sprint(w.Imm())
	case Target:
		return d.label(to)
	case NearLimit:
		_, number := w.NearLimit()
		return fmt.Sprintf("%d, %s", number, d.label(to))
	case Address:
		return d.register(int(w.Imm()))
	case Variable:
		r := w.Range()
		for _, v := range d.m.Variables {
			if v.Range == r {
				return v.Name
			}
		}
		return fmt.Sprintf("data[%d..%d]", r.Base, r.Base+r.Len-1)
	case Name:
		if n := int(w.Imm()); n >= 0 && n < len(d.m.Names) {
			return fmt.Sprintf("%q", d.m.Names[n].Name)
		}
	}
	return ""
}

func (d *disassembler) label(pc int) string {
	if l := d.labels[pc]; l != "" {
		return l
	}
	return fmt.Sprint(pc)
}
