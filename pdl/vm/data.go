package vm

import (
	"fmt"
	"slices"
)

// Data returns a copy of a program's data, registers first. With it another machine can continue
// the program.
func (m *Machine) Data(id ID) ([]int64, error) {
	p := m.find(id)
	if p == nil {
		return nil, fmt.Errorf("data of program %d: %w", id, ErrNoProgram)
	}
	return slices.Clone(p.mem), nil
}

// Words returns a program's data itself, registers first. The next activation sees what the
// caller writes there. The slice is valid until the next program is loaded, renumbered or
// unloaded. It is an error if an activation of the program is in progress.
func (m *Machine) Words(id ID) ([]int64, error) {
	p := m.find(id)
	switch {
	case p == nil:
		return nil, fmt.Errorf("data of program %d: %w", id, ErrNoProgram)
	case p.state == running || p.state == waiting || p.state == ending:
		return nil, fmt.Errorf("data of program %d: an activation is under way", id)
	}
	return p.mem, nil
}

// SetData replaces a program's data by data from another machine, registers first. It is an
// error if an activation of the program is in progress.
func (m *Machine) SetData(id ID, data []int64) error {
	words, err := m.Words(id)
	if err != nil {
		return err
	}
	if len(data) != len(words) {
		return fmt.Errorf("data of program %d: %d words, expected %d", id, len(data), len(words))
	}
	copy(words, data)
	return nil
}
