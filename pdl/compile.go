// Package pdl is the compiler of PDL, the language of programs for a NIC (docs/pdl.md). Each
// stage is a file: scan.go, parse.go with the grammar in grammar.txt, check.go, gen*.go, and
// format.go, which prints a program anew.
//
//	source ─► tokens ─► Program ─► checked: names bound, constants known ─► prog.Module
//	                       └─► Format
//
// One run finds errors of syntax and of meaning. The package is pure: sources and modules are
// bytes.
package pdl

import (
	"cmp"
	"slices"

	"github.com/weftnet/weft/pdl/prog"
)

// maxSource is the longest allowed source, in bytes. It is more than the source of a program
// that can be loaded needs.
const maxSource = 1 << 20

// Compile compiles a source. file is its name in error messages. The error is of type Errors.
func Compile(file string, src []byte) (*prog.Module, error) {
	m, _, err := compile(file, src)
	return m, err
}

// Check returns the errors of a source, as a value of type Errors, and its warnings.
func Check(file string, src []byte) (warnings Errors, err error) {
	_, warnings, err = compile(file, src)
	return warnings, err
}

func compile(file string, src []byte) (*prog.Module, Errors, error) {
	r := newReport(file, src)
	if len(src) > maxSource {
		r.src = nil
		r.errorf(Pos{1, 1}, "the source has %d bytes, at most %d are allowed", len(src), maxSource)
		return nil, nil, r.err()
	}
	p := parse(src, r)
	symbols := check(p, r)
	if err := r.err(); err != nil {
		_, warnings := r.sorted()
		return nil, warnings, err
	}
	m := generate(p, symbols, r)
	_, warnings := r.sorted()
	if err := r.err(); err != nil {
		return nil, warnings, err
	}
	if err := m.Verify(); err != nil {
		panic("pdl: what was compiled cannot be run: " + err.Error())
	}
	return m, warnings, nil
}

// generate makes the code of a program that was checked without errors.
func generate(p *Program, symbols []prog.Symbol, r *report) *prog.Module {
	m := &prog.Module{Name: fold(p.Name), DataWords: layout(p.Vars), Names: symbols}
	for _, v := range p.Vars {
		m.Variables = append(m.Variables, prog.Var{Name: fold(v.Name), Range: v.span(), Array: v.Size != nil})
	}
	g := &generator{m: m, report: r}
	g.entry(p.Init)
	for _, h := range p.Messages {
		m.Triggers = append(m.Triggers, prog.Trigger{Number: uint32(h.value), Entry: len(m.Code)})
		g.entry(h.Blocks...)
	}
	prog.Fuse(m.Code)
	slices.SortFunc(m.Triggers, func(a, b prog.Trigger) int { return cmp.Compare(a.Number, b.Number) })
	if len(m.Code) > prog.MaxCode {
		r.errorf(g.passed, "the program has more than %d instructions", prog.MaxCode)
	}
	return m
}
