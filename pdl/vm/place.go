package vm

import (
	"fmt"
	"slices"
)

// Code memory and data memory are both divided among the programs, with gaps left by unloaded
// ones. The programs have the same order in both, so a gap in one may need a gap in the other to
// be usable. If there is none, the programs are moved together.

// inUse reports whether a program must not be moved: it runs, or transfers use its data.
func (p *program) inUse() bool { return p.pending > 0 || p.state == running || p.state == waiting }

// place finds room for a program's code and data and copies the code there.
func (m *Machine) place(p *program) error {
	at := m.gap(p)
	if at < 0 {
		m.compact()
		if at = m.gap(p); at < 0 {
			code, data := m.free()
			return fmt.Errorf("%w: it needs %d words of code and %d of data, and there are %d and %d",
				ErrNoRoom, len(p.module.Code), p.module.DataWords, code, data)
		}
	}
	code, data := m.endOf(at)
	m.programs = slices.Insert(m.programs, at, p)
	copy(m.code[code:], p.module.Code)
	clear(m.data[data:][:p.module.DataWords])
	m.settle(p, code, data)
	return nil
}

// settle records the place of a program.
func (m *Machine) settle(p *program, code, data int) {
	p.codeBase, p.dataBase = code, data
	n, d := len(p.module.Code), p.module.DataWords
	p.code, p.mem = m.code[code:][:n:n], m.data[data:][:d:d]
}

// endOf returns the end of the memory of program i-1, or 0 for i = 0.
func (m *Machine) endOf(i int) (code, data int) {
	if i == 0 {
		return 0, 0
	}
	q := m.programs[i-1]
	return q.codeBase + len(q.code), q.dataBase + len(q.mem) - m.cfg.Overlap
}

// gap returns the index of the program before which p fits, len(m.programs) for the end, or -1.
func (m *Machine) gap(p *program) int {
	for i := range len(m.programs) + 1 {
		code, data := m.endOf(i)
		nextCode, nextData := len(m.code), len(m.data)
		if i < len(m.programs) {
			nextCode, nextData = m.programs[i].codeBase, m.programs[i].dataBase
		}
		if nextCode-code >= len(p.module.Code) && nextData-data >= p.module.DataWords {
			return i
		}
	}
	return -1
}

// compact moves programs towards the beginning of memory and so joins the gaps. Programs in use
// stay.
func (m *Machine) compact() {
	for i, p := range m.programs {
		if p.inUse() {
			continue
		}
		code, data := m.endOf(i)
		if code == p.codeBase && data == p.dataBase {
			continue
		}
		copy(m.code[code:], p.code)
		copy(m.data[data:], p.mem)
		m.settle(p, code, data)
	}
}

// free returns how many words of code and data memory are free.
func (m *Machine) free() (code, data int) {
	code, data = len(m.code), len(m.data)
	for _, p := range m.programs {
		code -= len(p.code)
		data -= len(p.mem)
	}
	return code, data
}
