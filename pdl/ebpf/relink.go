package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/weftnet/weft/pdl/prog"
)

// The kernel knows memory that programs share by the programs' instructions, and an instruction says how long it is. So a program finds a
// segment that was not there when it was compiled by being compiled anew. What it has counted, displayed and stored is in a map beside it,
// and stays: frames find either the old instructions or the new.
//
//	Relink ── Load: compiled and verified, which takes ms ── Enter: the new program is in the place of the old

// A Relink is a change of the segments that a program in the driver finds.
type Relink struct {
	r       *Resident
	host    *Host
	m       *prog.Module
	o       Options
	data    *ebpf.Map // another descriptor of the program's, which outlives it
	program *ebpf.Program
}

// Relink begins a change to other segments. It is nil if the program uses none. Close ends it, whatever has become of it.
func (r *Resident) Relink(segments map[uint32]Segment) (*Relink, error) {
	if !r.m.UsesSegments() || r.data == nil {
		return nil, nil
	}
	data, err := r.data.Clone()
	if err != nil {
		return nil, fmt.Errorf("change the segments of program %s in the driver: %w", r.m.Name, err)
	}
	l := &Relink{r: r, host: r.host, m: r.m, o: r.o, data: data}
	l.o.Segments = segments
	return l, nil
}

// Load compiles the program, and gives it to the kernel. Any goroutine may call it; the program may run, and even be closed, meanwhile.
func (l *Relink) Load() error {
	obj, err := Compile(l.m, l.o)
	if err == nil {
		l.program, err = l.host.loadOver(l.data, obj)
	}
	if err != nil {
		return fmt.Errorf("change the segments of program %s in the driver: %w", l.m.Name, err)
	}
	return nil
}

// Enter has the program find the segments from now on. It is called as the methods of the Resident are. To one that is closed it does nothing.
func (l *Relink) Enter() error {
	r := l.r
	if r.program == nil {
		return nil
	}
	if r.slot >= 0 {
		if err := r.host.steps.Put(uint32(stepFirst+r.slot), l.program); err != nil {
			return fmt.Errorf("change the segments of program %s in the driver: %w", l.m.Name, err)
		}
	}
	r.program, l.program, r.o = l.program, r.program, l.o
	return nil
}

// Close lets go of the program that is not in its place.
func (l *Relink) Close() error {
	err := l.data.Close()
	if l.program != nil {
		err = errors.Join(err, l.program.Close())
	}
	return err
}
