package pdl

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A kernel is a loop that programs in a NIC are made of, in PDL and in Go.
type kernel struct {
	name   string
	src    string
	result string // the variable that must be what native returns
	packet []byte
	native func(packet []byte) int64
}

const kernelHead = "PROGRAM kernel: VAR i, s, h, k, n, now, last, tokens, passed, v[1024]; TRIGGERS 1; BEGIN "

var kernels = []kernel{
	{
		name: "sum",
		src: kernelHead + `WHILE i < 1024 DO BEGIN v[i] = i * 7; i = i + 1 END END;
			MESSAGE 1: BEGIN
				i = 0; s = 0;
				WHILE i < 1024 DO BEGIN s = s + v[i]; i = i + 1 END
			END; END;`,
		result: "s",
		native: nativeSum,
	}, {
		name: "checksum",
		src: kernelHead + `END;
			MESSAGE 1: BEGIN
				i = 0; s = 0;
				WHILE i < PACKETLEN DO BEGIN
					s = s + (PACKETBYTE[i] << 8) + PACKETBYTE[i + 1];
					i = i + 2
				END;
				WHILE s > 0xffff DO s = (s & 0xffff) + (s >> 16);
				s = s ^ 0xffff
			END; END;`,
		result: "s",
		packet: packet(1500),
		native: nativeChecksum,
	}, {
		name: "token bucket",
		src: kernelHead + `END;
			MESSAGE 1: BEGIN
				i = 0; now = 0; last = 0; tokens = 0; passed = 0;
				WHILE i < 1000 DO BEGIN
					now = now + 900 + (i & 255);
					tokens = tokens + (now - last) * 3 / 2;
					last = now;
					IF tokens > 16000 THEN tokens = 16000;
					IF tokens >= 1500 THEN BEGIN tokens = tokens - 1500; passed = passed + 1 END;
					i = i + 1
				END
			END; END;`,
		result: "passed",
		native: nativeBucket,
	}, {
		name: "hash look-up",
		src: kernelHead + `
				i = 1;
				WHILE i < 700 DO BEGIN
					h = (i * 0x9e3779b97f4a7c15) >>> 54;
					WHILE v[h] <> 0 DO h = (h + 1) & 1023;
					v[h] = i; i = i + 1
				END
			END;
			MESSAGE 1: BEGIN
				k = 1; n = 0;
				WHILE k < 1000 DO BEGIN
					h = (k * 0x9e3779b97f4a7c15) >>> 54;
					WHILE v[h] <> k AND v[h] <> 0 DO h = (h + 1) & 1023;
					IF v[h] = k THEN n = n + h;
					k = k + 1
				END
			END; END;`,
		result: "n",
		native: nativeLookup,
	},
}

func packet(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31)
	}
	return b
}

var table [1024]int64

//go:noinline
func nativeSum([]byte) (s int64) {
	for i := range table {
		s += table[i]
	}
	return s
}

//go:noinline
func nativeChecksum(p []byte) (s int64) {
	for i := 0; i < len(p); i += 2 {
		s += int64(p[i])<<8 + int64(p[i+1])
	}
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return s ^ 0xffff
}

//go:noinline
func nativeBucket([]byte) (passed int64) {
	var now, last, tokens int64
	for i := range int64(1000) {
		now += 900 + i&255
		tokens += (now - last) * 3 / 2
		last = now
		if tokens > 16000 {
			tokens = 16000
		}
		if tokens >= 1500 {
			tokens -= 1500
			passed++
		}
	}
	return passed
}

const golden = 0x9e3779b97f4a7c15

//go:noinline
func nativeLookup([]byte) (n int64) {
	for k := int64(1); k < 1000; k++ {
		h := uint64(k) * golden >> 54
		for table[h] != k && table[h] != 0 {
			h = (h + 1) & 1023
		}
		if table[h] == k {
			n += int64(h)
		}
	}
	return n
}

// fill makes the table that a kernel's native form works on.
func fill(k kernel) {
	table = [1024]int64{}
	for i := range table {
		if k.name == "sum" {
			table[i] = int64(i) * 7
		} else if i > 0 && i < 700 {
			h := uint64(i) * golden >> 54
			for table[h] != 0 {
				h = (h + 1) & 1023
			}
			table[h] = int64(i)
		}
	}
}

// idle is a host that does nothing.
type idle struct{}

func (idle) Clock() int64                                 { return 1 }
func (idle) Lookup(prog.SymbolKind, string) (int64, bool) { return 1, true }
func (idle) Send(vm.ID, vm.Destination, []byte) bool      { return true }
func (idle) Deliver(vm.Transfer, []byte) vm.Status        { return vm.Done }
func (idle) Get(vm.Transfer, []byte) vm.Status            { return vm.Done }
func (idle) Lock(int64) bool                              { return false }
func (idle) ClearLock(int64)                              {}
func (idle) SetFlag(int64)                                {}
func (idle) Display(vm.ID, int64)                         {}

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

// operations counts what the source has done in one activation: its operators, the elements and bytes that it read or
// wrote by an index, and its assignments. What a compiler makes of them does not matter.
func (k kernel) operations(t testing.TB) int {
	p := parse([]byte(k.src), newReport(k.name, nil))
	check(p, newReport(k.name, nil))
	e := newEvaluator(p)
	e.run(nil, 0, p.Init)
	e.ops = 0
	if end := e.run(k.packet, 0, p.Messages[0].Blocks...); end != "AWAIT" {
		t.Fatal(end)
	}
	return e.ops
}

func TestKernelsAndNativeCodeAgree(t *testing.T) {
	for _, k := range kernels {
		fill(k)
		mc := machine(t, k.src)
		if o := mc.Dispatch(&vm.Message{Program: 1, Trigger: 1, Payload: k.packet}); o != vm.Awaiting {
			t.Fatal(o)
		}
		got, err := mc.Variable(1, k.result)
		if want := k.native(k.packet); err != nil || got[0] != want || want == 0 {
			t.Errorf("%s: %v, %v; want %d", k.name, got, err, want)
		}
	}
}

// BenchmarkKernels measures each kernel in PDL and in Go, in turns, and takes the best of many short rounds of each. The
// last line has the geometric means.
func BenchmarkKernels(b *testing.B) {
	var sumTime, sumRatio float64
	for _, k := range kernels {
		fill(k)
		mc := machine(b, k.src)
		msg := &vm.Message{Program: 1, Trigger: 1, Payload: k.packet}
		ops := float64(k.operations(b))
		b.Run(k.name, func(b *testing.B) {
			best, native := math.Inf(1), math.Inf(1)
			for b.Loop() {
				best = min(best, round(1, func() { mc.Dispatch(msg) }))
				native = min(native, round(10, func() { k.native(k.packet) }))
			}
			perOp := best / ops
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
	n := float64(len(kernels))
	fmt.Printf("geometric means: %.0f M source-level operations a second, %.1f times native\n", 1e3/math.Exp(sumTime/n), math.Exp(sumRatio/n))
}

// round returns how many ns a call takes, on average of some calls.
func round(calls int, f func()) float64 {
	began := time.Now()
	for range calls {
		f()
	}
	return float64(time.Since(began).Nanoseconds()) / float64(calls)
}

// BenchmarkDispatch measures a message from its arrival to the end of its handler.
func BenchmarkDispatch(b *testing.B) {
	for _, d := range []struct{ name, src string }{
		{"empty", "PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;"},
		{"token bucket", `PROGRAM p: VAR now, last, tokens; TRIGGERS 1; BEGIN END;
			MESSAGE 1: BEGIN
				now = CLOCK;
				tokens = tokens + (now - last) * 3 / 2;
				last = now;
				IF tokens > 16000 THEN tokens = 16000;
				IF tokens < PACKETLEN THEN DROP;
				tokens = tokens - PACKETLEN;
				PASS
			END; END;`},
	} {
		mc := machine(b, d.src)
		msg := &vm.Message{Program: 1, Trigger: 1, Payload: packet(64)}
		b.Run(d.name, func(b *testing.B) {
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
