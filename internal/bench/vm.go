package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/kernels"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// KindVM is the measurement of the virtual machine that runs programs in the NIC.
const KindVM = "vm"

// GeometricMean is the kernel of the last row, which has the geometric means of all kernels'
// figures.
const GeometricMean = "geometric mean"

// VMOptions say how long to measure.
type VMOptions struct {
	Time time.Duration // for each kernel
}

// VMRow is one kernel: the best of many short rounds, in turns with the same loop in Go. Other
// load on the machine makes a loop slower and never faster, so the best is the time of the loop.
type VMRow struct {
	Bench       string  `json:"bench"`
	Sealed      bool    `json:"sealed"` // the links between NICs
	Kernel      string  `json:"kernel"`
	Iterations  int64   `json:"iterations"` // activations
	PerOp       float64 `json:"ns_per_op"`  // per operation of the source
	OpsPerSec   float64 `json:"ops_per_s"`
	NativeRatio float64 `json:"native_ratio"` // the time of the kernel by that of its native form
}

// RunVM measures the kernels, and passes each row to out.
func RunVM(ctx context.Context, o VMOptions, out func(VMRow) error) error {
	mean := VMRow{Bench: KindVM, Kernel: GeometricMean}
	var perOp, ratio float64
	all := kernels.All()
	for _, k := range all {
		r, err := measureKernel(ctx, &k, o.Time)
		if err != nil {
			return fmt.Errorf("bench: kernel %s: %w", k.Name, err)
		}
		if err := out(r); err != nil {
			return err
		}
		mean.Iterations += r.Iterations
		perOp += math.Log(r.PerOp)
		ratio += math.Log(r.NativeRatio)
	}
	n := float64(len(all))
	mean.PerOp, mean.NativeRatio = math.Exp(perOp/n), math.Exp(ratio/n)
	mean.OpsPerSec = 1e9 / mean.PerOp
	return out(mean)
}

// nativeCalls is how many calls of a native loop are timed together: one call takes little more
// than a clock reading.
const nativeCalls = 10

func measureKernel(ctx context.Context, k *kernels.Kernel, d time.Duration) (VMRow, error) {
	r := VMRow{Bench: KindVM, Kernel: k.Name}
	mc, err := newMachine(k.Source, noHost{})
	if err != nil {
		return r, err
	}
	k.Fill()
	m := &vm.Message{Program: machineProgram, Trigger: 1, Payload: k.Packet}
	took, native := math.Inf(1), math.Inf(1)
	for begin := time.Now(); r.Iterations == 0 || time.Since(begin) < d; r.Iterations++ {
		if err := ctx.Err(); err != nil {
			return r, context.Cause(ctx)
		}
		var o vm.Outcome
		took = min(took, timed(1, func() { o = mc.Dispatch(m) }))
		if o != vm.Awaiting {
			return r, fmt.Errorf("its activation ended: %v", o)
		}
		native = min(native, timed(nativeCalls, func() { k.Native(k.Packet) }))
	}
	r.PerOp = took / float64(k.Operations)
	r.OpsPerSec, r.NativeRatio = 1e9/r.PerOp, took/native
	return r, nil
}

// timed returns the mean time of calls calls of f, in ns.
func timed(calls int, f func()) float64 {
	begin := time.Now()
	for range calls {
		f()
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(calls)
}

// machineProgram is the number of the program in a machine of newMachine.
const machineProgram vm.ID = 1

// newMachine makes a machine with one program, and starts the program.
func newMachine(source string, host vm.Host) (*vm.Machine, error) {
	m, err := pdl.Compile("bench.pdl", []byte(source))
	if err != nil {
		return nil, err
	}
	mc, err := vm.New(vm.Config{Host: host, CodeWords: len(m.Code), DataWords: m.DataWords, Programs: 1,
		Budget: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	if _, err := mc.Load(machineProgram, m); err != nil {
		return nil, err
	}
	if o := mc.Start(machineProgram); o != vm.Awaiting {
		return nil, fmt.Errorf("its initialisation ended: %v", o)
	}
	return mc, nil
}

// noHost is a NIC that does nothing.
type noHost struct{}

func (noHost) Members(vm.ID, string, func(vm.Destination)) {}

func (noHost) Clock() int64                                         { return 1 }
func (noHost) Lookup(prog.SymbolKind, string, uint64) (int64, bool) { return 0, false }
func (noHost) Send(vm.ID, vm.Destination, []byte) bool              { return true }
func (noHost) Deliver(vm.Transfer, []byte) vm.Status                { return vm.Done }
func (noHost) Get(vm.Transfer, []byte) vm.Status                    { return vm.Done }
func (noHost) Lock(int64) bool                                      { return false }
func (noHost) ClearLock(int64)                                      {}
func (noHost) SetFlag(int64)                                        {}
func (noHost) Display(vm.ID, int64)                                 {}
