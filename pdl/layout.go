package pdl

import "github.com/weftnet/weft/pdl/prog"

// The layout of a program's data. The first 256 words are registers:
//
//	0 PACKETLEN · 1 SOURCE · 2 … 191 variables of one word, then arrays that fit
//	192 … 255 temporaries · 256 … the others
//
// An element with a constant index within the registers costs no more than a variable of one
// word.
const (
	firstTemp = 192
	temps     = prog.Registers - firstTemp
)

// layout gives every variable its place and returns the number of words of data.
func layout(vars []*Var) (words int) {
	low, high := prog.FirstFree, prog.Registers
	put := func(v *Var) {
		if low+v.words <= firstTemp {
			v.base = low
			low += v.words
		} else {
			v.base = high
			high += v.words
		}
	}
	for _, v := range vars {
		if v.Size == nil {
			put(v)
		}
	}
	for _, v := range vars {
		if v.Size != nil {
			put(v)
		}
	}
	return high
}

// span returns the words of a variable.
func (v *Var) span() prog.Range { return prog.Range{Base: v.base, Len: v.words} }
