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
