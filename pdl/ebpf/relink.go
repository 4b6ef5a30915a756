package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/weftnet/weft/pdl/prog"
)

// The kernel finds the memory that programs share by the instructions of the programs, and an
// instruction holds its length. So a program must be compiled again to use a segment that did
// not exist before. Its counts and its data are in a separate map and stay: frames find either
// the old instructions or the new ones.
//
//	Relink ── Load: compiles and verifies, takes ms ── Enter: replaces the old program

// A Relink is a change of the segments that a program in the driver can use.
type Relink struct {
	r       *Resident
	host    *Host
	m       *prog.Module
	o       Options
	data    *ebpf.Map // a duplicate descriptor of the program's map, which outlives the program
	program *ebpf.Program
}

// Relink begins a change to other segments. It returns nil if the program uses no segments. The
// caller must call Close in the end, whatever the result.
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

// Load compiles the program and loads it into the kernel. Any goroutine may call it. The program
// may run, and even be closed, meanwhile.
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

// Enter puts the new program into the place of the old one. The rules for calling it are those
// of the methods of Resident. After Close of the Resident it does nothing.
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

// Close releases the program that is not in place.
func (l *Relink) Close() error {
	err := l.data.Close()
	if l.program != nil {
		err = errors.Join(err, l.program.Close())
	}
	return err
}
