package sim

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/memory/touch"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
)

// memory makes regions in Go's heap. The simulated NIC is in the same address space.
type memory struct{ p *Process }

// Alloc ignores the wish for huge pages: they change only speed, which is simulated.
func (m memory) Alloc(n int, _ bool) (id uint32, key uint64, mem []byte, err error) {
	if n > limits.SimRegion {
		return 0, 0, nil, fmt.Errorf("%w: a region of %d bytes in a simulation; expected at most %d",
			proc.ErrNoMemory, n, limits.SimRegion)
	}
	mem = words(n)
	id, key, err = m.add(nic.Memory{Bytes: mem})
	return id, key, mem, err
}

func (m memory) Register(mem []byte, _ *proc.File, sealed bool) (id uint32, key uint64, err error) {
	return m.add(nic.Memory{Bytes: mem, Sealed: sealed, Reach: touch.Reach})
}

func (m memory) add(of nic.Memory) (id uint32, key uint64, err error) {
	e := m.p.engine()
	if e == nil {
		return 0, 0, proc.ErrNICGone
	}
	id, key, err = e.AddMemory(m.p.slot, of)
	return id, key, refusal(err)
}

// refusal maps an error of the NIC to that of the process half.
func refusal(err error) error {
	switch {
	case errors.Is(err, nic.ErrRegions):
		return fmt.Errorf("%w (%w)", proc.ErrNoMemory, err)
	case errors.Is(err, nic.ErrRegionBusy):
		return fmt.Errorf("%w (%w)", proc.ErrRegionInUse, err)
	}
	return err
}

func (m memory) Part(of uint32, offset, n int, sealed bool) (id uint32, key uint64, err error) {
	e := m.p.engine()
	if e == nil {
		return 0, 0, proc.ErrNICGone
	}
	id, key, err = e.AddPart(m.p.slot, of, uint64(offset), uint64(n), sealed)
	return id, key, refusal(err)
}

func (m memory) Free(id uint32) error {
	e := m.p.engine()
	if e == nil {
		return nil // its NIC is gone, and the region with it
	}
	err := e.RemoveRegion(m.p.f.s.now, m.p.slot, m.p.gen, id)
	if errors.Is(err, nic.ErrNoProcess) || errors.Is(err, nic.ErrNoRegion) {
		return nil // its process is gone, and the region with it
	}
	return refusal(err)
}

// engine returns the NIC that serves the process, or nil if none does.
func (p *Process) engine() *nic.Engine {
	if p.gone || p.detached || p.over {
		return nil
	}
	return p.host.engine
}

// words returns n bytes of zeroed memory, aligned for 64-bit words.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(w)*8)[:n]
}
