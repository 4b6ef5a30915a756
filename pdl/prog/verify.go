package prog

import (
	"errors"
	"fmt"
)

// ErrUnsafe is the error of a module that Verify refuses.
var ErrUnsafe = errors.New("program is not safe to run")

// Verify returns an error if a module could do harm when it runs. It checks that every
// instruction is valid, that jumps stay within the code, that the code cannot run past its end,
// and that all data and names in instructions exist. The interpreter relies on these checks and
// does not repeat them. Computed indices, lengths and divisors are checked at run time.
func (m *Module) Verify() error {
	if err := m.verify(); err != nil {
		return fmt.Errorf("verify %s: %w: %w", m.Name, ErrUnsafe, err)
	}
	return nil
}

func (m *Module) verify() error {
	switch {
	case len(m.Code) == 0 || len(m.Code) > MaxCode:
		return fmt.Errorf("%d instructions, expected 1 to %d", len(m.Code), MaxCode)
	case m.DataWords < Registers || m.DataWords > MaxData:
		return fmt.Errorf("%d words of data, expected %d to %d", m.DataWords, Registers, MaxData)
	case len(m.Names) > MaxNames || len(m.Triggers) > MaxTriggers:
		return fmt.Errorf("%d names and %d triggers, expected at most %d and %d",
			len(m.Names), len(m.Triggers), MaxNames, MaxTriggers)
	case m.Init >= len(m.Code) || m.Init < 0:
		return fmt.Errorf("the initialisation begins at %d, outside the code", m.Init)
	}
	for i, t := range m.Triggers {
		if t.Entry < 0 || t.Entry >= len(m.Code) {
			return fmt.Errorf("trigger %d begins at %d, outside the code", t.Number, t.Entry)
		}
		if i > 0 && t.Number <= m.Triggers[i-1].Number {
			return errors.New("the triggers are not in order")
		}
	}
	for pc, w := range m.Code {
		if err := m.verifyWord(pc, w); err != nil {
			return fmt.Errorf("instruction %d: %w", pc, err)
		}
	}
	last, _ := m.Code[len(m.Code)-1].Op().Effect()
	if last.Flow != Jump && last.Flow != End {
		return errors.New("the last instruction leads out of the code")
	}
	return nil
}

// verifyWord checks the fields of one instruction against their kinds.
func (m *Module) verifyWord(pc int, w Word) error {
	e, ok := w.Op().Effect()
	if !ok {
		return fmt.Errorf("%d is no opcode", w.Op())
	}
	if e.A == Unused && w.A() != 0 || e.B == Unused && w.B() != 0 ||
		e.C == Unused && e.B != Half && w.C() != 0 || e.Imm == Unused && w.Imm() != 0 {
		return fmt.Errorf("%s has a field that it does not use", e.Name)
	}
	if e.Args > 0 && int(w.A())+e.Args > Registers {
		return fmt.Errorf("%s reads behind the registers", e.Name)
	}
	if to, jumps := w.Target(pc); jumps && (to < 0 || to >= len(m.Code)) {
		return fmt.Errorf("%s jumps to %d, outside the code", e.Name, to)
	}
	if e.Then != 0 && (pc+1 == len(m.Code) || m.Code[pc+1].Op() != e.Then) {
		return fmt.Errorf("%s is not followed by %v", e.Name, e.Then)
	}
	return m.verifyImm(e, w)
}

func (m *Module) verifyImm(e *Effect, w Word) error {
	imm := int(w.Imm())
	switch e.Imm {
	case Divisor:
		if imm == 0 {
			return fmt.Errorf("%s divides by zero", e.Name)
		}
	case Shift:
		if imm < 0 || imm > 63 {
			return fmt.Errorf("%s shifts by %d", e.Name, imm)
		}
	case Address:
		if imm < 0 || imm >= m.DataWords {
			return fmt.Errorf("%s reaches word %d, outside the data", e.Name, imm)
		}
	case Variable:
		if r := w.Range(); r.Base+r.Len > m.DataWords {
			return fmt.Errorf("%s reaches words %d to %d, outside the data", e.Name, r.Base, r.Base+r.Len-1)
		}
	case Unit:
		if imm != 1 && imm != 8 {
			return fmt.Errorf("%s counts in %d bytes", e.Name, imm)
		}
	case Name:
		if imm < 0 || imm >= len(m.Names) {
			return fmt.Errorf("%s has name %d of %d", e.Name, imm, len(m.Names))
		}
	}
	return nil
}
