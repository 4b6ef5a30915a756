package ebpf

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/pdl/prog"
)

// Options describe the NIC for which a program is compiled.
type Options struct {
	ID      uint32 // number of the program at this NIC
	Service uint8  // service of the datagrams for programs
	Budget  int    // instructions of an activation; 0 means limits.ProgramBudget
	Path    Path

	// Segments are the segments that the program can use, by number.
	Segments map[uint32]Segment

	// FrozenClock makes CLOCK the value set by Resident.SetClock, instead of the kernel's clock.
	// It is for tests.
	FrozenClock bool
}

// A Segment is memory that the program shares with processes: an array map of one value that can
// be mapped (BPF_F_MMAPABLE). The value holds Bytes of data, then Words locks, then Words flags.
// A lock or flag has 4 bytes. Lock or flag n belongs to segment n / Words.
type Segment struct {
	Map   *ebpf.Map
	Bytes int
	Words int
}

// MostSegment is the longest segment, in bytes, that a program in the driver can use.
const MostSegment = 1<<24 - 1

func (o *Options) budget() int {
	if o.Budget == 0 {
		return limits.ProgramBudget
	}
	return o.Budget
}

func (o *Options) validate() error {
	if o.ID == 0 {
		return fmt.Errorf("program number 0; expected 1 to %d", uint32(math.MaxUint32))
	}
	if o.Budget < 0 || o.budget() > mostBudget {
		return fmt.Errorf("a budget of %d instructions; expected 1 to %d, or 0", o.Budget, mostBudget)
	}
	for id, s := range o.Segments {
		if s.Map == nil || s.Bytes < 1 || s.Bytes > MostSegment ||
			s.Words < 0 || s.Bytes+8*s.Words > int(s.Map.ValueSize()) || s.Bytes%4 != 0 {
			return fmt.Errorf(
				"segment %d has %d bytes and %d locks; expected 4 to %d bytes, by fours, of a map that holds both, "+
					"and as many flags",
				id, s.Bytes, s.Words, MostSegment)
		}
	}
	return nil
}

// mostBudget is the kernel's limit for the turns of a loop.
const mostBudget = 1 << 23

// An Object is a compiled program that is not in the kernel yet.
type Object struct {
	m    *prog.Module
	o    Options
	code asm.Instructions
}

// Compile verifies a module and compiles it to a program for the kernel. If the program cannot
// reside in the driver, the error wraps ErrCannotReside and a value of type Reasons.
func Compile(m *prog.Module, o Options) (*Object, error) {
	obj, err := compile(m, o)
	if err != nil {
		return nil, fmt.Errorf("compile program %s for the driver: %w", m.Name, err)
	}
	return obj, nil
}

func compile(m *prog.Module, o Options) (*Object, error) {
	if err := m.Verify(); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if reasons := Check(m); reasons != nil {
		return nil, reasons
	}
	b, err := generate(newFlow(m), o)
	if err != nil {
		return nil, err
	}
	if long := tooLong(b); long != "" { // each move searches all segments
		return nil, Reasons{{0, fmt.Sprintf("it is too long with %d segments: %s", len(o.Segments), long)}}
	}
	return &Object{m, o, b.finish()}, nil
}

func segmentMap(id uint32) string { return "segment" + itoa(id) }
