package testbed

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Results of an XDP program.
const (
	xdpDrop = 1
	xdpPass = 2
)

// lossPort is the loss program on one port of the switch, with its two maps of one entry each:
// the threshold, which only we write, and the counters, which only the program writes.
type lossPort struct {
	threshold, counters *ebpf.Map
	program             *ebpf.Program
	attached            link.Link

	mu     sync.Mutex // excludes close from the other methods
	closed bool
}

// attachLoss loads a loss program and attaches it to a link in the namespace of the calling
// thread. It passes every frame until set is called.
//
// It uses native mode, never generic: a generic program sees a send of a host before it is cut
// into frames, and would lose forty frames at once.
func attachLoss(index int) (*lossPort, error) {
	p := &lossPort{}
	if err := p.attach(index); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *lossPort) attach(index int) (err error) {
	if p.threshold, err = newArray("weft_threshold", 8); err != nil {
		return explain("making a map for the loss program", err)
	}
	if p.counters, err = newArray("weft_counters", 16); err != nil {
		return explain("making a map for the loss program", err)
	}
	p.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "weft_loss",
		Type:         ebpf.XDP,
		Instructions: lossProgram(p.threshold.FD(), p.counters.FD()),
		License:      "Apache-2.0",
		Flags:        unix.BPF_F_XDP_HAS_FRAGS, // frames longer than a page come in pieces
	})
	switch {
	// The program is always the same, so the kernel is too old for it.
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: loading the loss program: %w (needs Linux 5.18 or later)", ErrUnavailable, err)
	case err != nil:
		return explain("loading the loss program", err)
	}
	p.attached, err = link.AttachXDP(link.XDPOptions{Program: p.program, Interface: index, Flags: link.XDPDriverMode})
	if err != nil {
		return explain("attaching the loss program", err)
	}
	return nil
}

func newArray(name string, valueSize uint32) (*ebpf.Map, error) {
	return ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: valueSize, MaxEntries: 1})
}

// lossProgram draws 32 random bits for every frame and drops it if they are below the threshold.
// The threshold has 64 bits, so that 1<<32 is above every draw.
//
//	counters:  0 dropped  8 passed
func lossProgram(threshold, counters int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R6, threshold, 0), // R6 = &threshold
		asm.LoadMapValue(asm.R7, counters, 0),  // R7 = &counters
		asm.Mov.Imm(asm.R8, 1),                 // R8 = 1

		asm.FnGetPrandomU32.Call(),                // R0 = draw
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord), // R1 = threshold
		asm.JLT.Reg(asm.R0, asm.R1, "drop"),

		asm.AddAtomic.Mem(asm.R7, asm.R8, asm.DWord, 8), // passed++
		asm.Mov.Imm(asm.R0, xdpPass),
		asm.Return(),

		asm.AddAtomic.Mem(asm.R7, asm.R8, asm.DWord, 0).WithSymbol("drop"), // dropped++
		asm.Mov.Imm(asm.R0, xdpDrop),
		asm.Return(),
	}
}

// set makes the program lose each frame with a probability from 0 to 1.
func (p *lossPort) set(probability float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if err := p.threshold.Put(uint32(0), uint64(probability*(1<<32))); err != nil {
		return fmt.Errorf("testbed: setting the loss: %w", err)
	}
	return nil
}

// read returns the program's counters.
func (p *lossPort) read() (Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Counters{}, ErrClosed
	}
	var v [2]uint64
	if err := p.counters.Lookup(uint32(0), &v); err != nil {
		return Counters{}, fmt.Errorf("testbed: reading the loss program's counters: %w", err)
	}
	return Counters{Dropped: v[0], Passed: v[1]}, nil
}

// close detaches the program and frees it with its maps. The port may be only partly made.
func (p *lossPort) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.attached != nil {
		p.attached.Close()
	}
	p.program.Close() // these methods accept nil
	p.counters.Close()
	p.threshold.Close()
}
