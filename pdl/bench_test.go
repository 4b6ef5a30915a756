package pdl

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weftnet/weft/pdl/kernels"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// idle is a host that does nothing.
type idle struct{}

func (idle) Members(vm.ID, string, func(vm.Destination)) {}

func (idle) Clock() int64                                         { return 1 }
func (idle) Lookup(prog.SymbolKind, string, uint64) (int64, bool) { return 1, true }
func (idle) Send(vm.ID, vm.Destination, []byte) bool              { return true }
func (idle) Deliver(vm.Transfer, []byte) vm.Status                { return vm.Done }
func (idle) Get(vm.Transfer, []byte) vm.Status                    { return vm.Done }
func (idle) Lock(int64) bool                                      { return false }
func (idle) ClearLock(int64)                                      {}
func (idle) SetFlag(int64)                                        {}
func (idle) Display(vm.ID, int64)                                 {}

// machine loads and starts a program.
func machine(t testing.TB, src string) *vm.Machine {
	t.Helper()
	m, err := Compile("kernel.pdl", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	mc, err := vm.New(vm.Config{Host: idle{}, CodeWords: 1000, DataWords: 10000, Programs: 1, Budget: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mc.Load(1, m); err != nil {
		t.Fatal(err)
	}
	if o := mc.Start(1); o != vm.Awaiting {
		t.Fatal(o)
	}
	return mc
}

// operations counts the operations of the source in one activation: its operators, its
// assignments, and the elements and bytes that it read or wrote by an index. The compiler's code
// for them does not matter.
func operations(t testing.TB, k *kernels.Kernel) int {
	p := parse([]byte(k.Source), newReport(k.Name, nil))
	check(p, newReport(k.Name, nil))
	e := newEvaluator(p)
	e.run(nil, 0, p.Init)
	e.ops = 0
	if end := e.run(k.Packet, 0, p.Messages[0].Blocks...); end != "AWAIT" {
		t.Fatal(end)
	}
	return e.ops
}

func TestKernelsAndNativeCodeAgree(t *testing.T) {
	for _, k := range kernels.All() {
		k.Fill()
		mc := machine(t, k.Source)
		if o := mc.Dispatch(&vm.Message{Program: 1, Trigger: 1, Payload: k.Packet}); o != vm.Awaiting {
			t.Fatal(o)
		}
		got, err := mc.Variable(1, k.Result)
		if want := k.Native(k.Packet); err != nil || got[0] != want || want == 0 {
			t.Errorf("%s: %v, %v; want %d", k.Name, got, err, want)
		}
		if n := operations(t, &k); n != k.Operations {
			t.Errorf("%s says that it has %d operations, and has %d", k.Name, k.Operations, n)
		}
	}
}

// BenchmarkKernels measures each kernel alternately in PDL and in Go, and takes the best of many
// short rounds of each. The last line has the geometric means.
func BenchmarkKernels(b *testing.B) {
	var sumTime, sumRatio float64
	for _, k := range kernels.All() {
		k.Fill()
		mc := machine(b, k.Source)
		msg := &vm.Message{Program: 1, Trigger: 1, Payload: k.Packet}
		b.Run(k.Name, func(b *testing.B) {
			best, native := math.Inf(1), math.Inf(1)
			for b.Loop() {
				best = min(best, round(1, func() { mc.Dispatch(msg) }))
				native = min(native, round(10, func() { k.Native(k.Packet) }))
			}
			perOp := best / float64(k.Operations)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(perOp, "ns/source-op")
			b.ReportMetric(1e3/perOp, "Mops/s")
			b.ReportMetric(best/native, "x-native")
			if b.N > 1 {
				sumTime += math.Log(perOp)
				sumRatio += math.Log(best / native)
			}
		})
	}
	n := float64(len(kernels.All()))
	fmt.Printf("geometric means: %.0f M source-level operations a second, %.1f times native\n", 1e3/math.Exp(sumTime/n), math.Exp(sumRatio/n))
}

// round returns the average time of a call, in ns.
func round(calls int, f func()) float64 {
	began := time.Now()
	for range calls {
		f()
	}
	return float64(time.Since(began).Nanoseconds()) / float64(calls)
}

// BenchmarkDispatch measures a message from its arrival to the end of its handler.
func BenchmarkDispatch(b *testing.B) {
	for _, h := range kernels.Handlers() {
		mc := machine(b, h.Source)
		msg := &vm.Message{Program: 1, Trigger: 1, Payload: kernels.Packet(64)}
		b.Run(h.Name, func(b *testing.B) {
			b.ReportAllocs()
			best := math.Inf(1)
			for b.Loop() {
				best = min(best, round(100, func() { mc.Dispatch(msg) }))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(best, "ns/dispatch")
		})
	}
}
