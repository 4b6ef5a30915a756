package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// chain is an array of programs, and the index of the first one for our frames.
type chain struct {
	steps int
	first int32
}

// jump passes the frame to the chain. Code after it runs only if that entry of the array is
// empty.
func (c *chain) jump() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, c.steps),
		asm.Mov.Imm(asm.R3, c.first),
		asm.FnTailCall.Call(),
	}
}

// Frames returns the form of this interface's frames. tagged means with a VLAN tag. pieces means
// that long frames come in several pieces; then all programs of a chain must have
// BPF_F_XDP_HAS_FRAGS.
func (d *Driver) Frames() (tagged, pieces bool) {
	return d.tagged.Load(), d.pieces.Load()
}

// Chain inserts other programs before the sockets: an array of programs
// (BPF_MAP_TYPE_PROG_ARRAY) that jump to one another. The program at index first gets each frame
// for our address and port. At index on, Chain enters a program that passes a frame to its
// socket. The others jump to it with frames that are not for them. During the change frames take
// the old path or the new one, and none is lost. If steps is nil, the sockets get all frames
// again. A driver without a chain pays nothing for this.
func (d *Driver) Chain(steps *ebpf.Map, first, on uint32) error {
	if err := d.chain(steps, first, on); err != nil {
		return fmt.Errorf("xdp: chaining programs: %w", err)
	}
	d.chainOf = chained{steps, first, on}
	return nil
}

func (d *Driver) chain(steps *ebpf.Map, first, on uint32) (err error) {
	s := &d.steer
	switch {
	case d.closed:
		return errors.New("the driver is closed")
	case s.attached == nil:
		return ErrLost
	}
	spec := s.spec.Copy()
	if steps != nil {
		if err := s.enter(steps, on); err != nil {
			return err
		}
		spec.Instructions = steer(s.sockets.FD(), d.addr, s.vlan, &chain{steps.FD(), int32(first)})
	}
	next, err := ebpf.NewProgram(spec)
	if err != nil {
		return unavailable(fmt.Errorf("loading the program: %w", err))
	}
	if err := s.attached.Update(next); err != nil {
		return errors.Join(unavailable(fmt.Errorf("exchanging the program: %w", err)), next.Close())
	}
	err = s.program.Close()
	s.program = next
	return err
}

// enter puts the program that passes frames to sockets into an array.
func (s *steering) enter(steps *ebpf.Map, on uint32) (err error) {
	if s.on == nil {
		spec := s.spec.Copy()
		spec.Name = "weft_on"
		spec.Instructions = append(asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, hand(s.sockets.FD())...)
		if s.on, err = ebpf.NewProgram(spec); err != nil {
			return unavailable(fmt.Errorf("loading the program for sockets: %w", err))
		}
	}
	if err := steps.Put(on, s.on); err != nil {
		return fmt.Errorf("entering the program for sockets at %d: %w", on, err)
	}
	return nil
}
