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

// Words are a program's data themselves, registers first, until the next program is loaded, renumbered or unloaded: what is written there the next
// activation finds. None of it may be under way.
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

// SetData has a program go on with data that another machine has left, registers first. No activation of it may be under way.
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
