package vm

import (
	"fmt"
	"slices"
)

// Data returns a copy of a program's data, registers first: what another machine needs to go on where this one stands.
func (m *Machine) Data(id ID) ([]int64, error) {
	p := m.find(id)
	if p == nil {
		return nil, fmt.Errorf("data of program %d: %w", id, ErrNoProgram)
	}
	return slices.Clone(p.mem), nil
}

// SetData has a program go on with data that another machine has left, registers first. No activation of it may be under way.
func (m *Machine) SetData(id ID, data []int64) error {
	p := m.find(id)
	switch {
	case p == nil:
		return fmt.Errorf("data of program %d: %w", id, ErrNoProgram)
	case len(data) != len(p.mem):
		return fmt.Errorf("data of program %d: %d words, expected %d", id, len(data), len(p.mem))
	case p.state == running || p.state == waiting || p.state == ending:
		return fmt.Errorf("data of program %d: an activation is under way", id)
	}
	copy(p.mem, data)
	return nil
}
