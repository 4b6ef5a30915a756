package pdl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftnet/weft/pdl/pdltest"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// traced is a host that records the requests of a program in the words of the evaluator. If late
// is set, transfers end late. Then statements that the compiler runs beside them must make no
// visible difference.
type traced struct {
	*evaluator
	late    bool
	pending []func()
}

func (h *traced) Clock() int64 { return 4711 }
func (h *traced) Members(_ vm.ID, _ string, visit func(vm.Destination)) {
	for _, nic := range memberNICs {
		visit(vm.Destination{Program: vm.ID(numberAt(nic)), NIC: nic})
	}
}

func (h *traced) Lookup(of prog.SymbolKind, _ string, nic uint64) (int64, bool) {
	if of == prog.ProgramName {
		return numberAt(nic), true
	}
	return 88, true
}
func (h *traced) Send(_ vm.ID, to vm.Destination, b []byte) bool {
	h.tell("send %x as %d to %d at %d", b, to.Trigger, to.Program, int64(to.NIC))
	return true
}
func (h *traced) Deliver(t vm.Transfer, b []byte) vm.Status {
	return h.move(t, b, func(part []byte) { copy(part, b) })
}
func (h *traced) Get(t vm.Transfer, b []byte) vm.Status {
	return h.move(t, b, func(part []byte) { copy(b, part) })
}
func (h *traced) move(t vm.Transfer, b []byte, do func(part []byte)) vm.Status {
	all := h.segments[t.Segment]
	if all == nil || t.Offset > int64(len(all)) || int64(len(b)) > int64(len(all))-t.Offset {
		return vm.Refused
	}
	part := all[t.Offset:][:len(b)]
	if !h.late {
		do(part)
		return vm.Done
	}
	h.pending = append(h.pending, func() { do(part) })
	return vm.Begun
}
func (h *traced) Lock(n int64) bool        { return h.locks[n] }
func (h *traced) ClearLock(n int64)        { delete(h.locks, n); h.tell("clear %d", n) }
func (h *traced) SetFlag(n int64)          { h.tell("flag %d", n) }
func (h *traced) Display(_ vm.ID, v int64) { h.say("DISPLAY %d", v) }

// finish ends the transfers in progress, the latest first, until the activation has ended.
func (h *traced) finish(m *vm.Machine, o vm.Outcome) vm.Outcome {
	for len(h.pending) > 0 {
		last := len(h.pending) - 1
		h.pending[last]()
		h.pending = h.pending[:last]
		if now := m.Finish(1, true); o == vm.Waiting {
			o = now
			if now == vm.Busy {
				o = vm.Waiting
			}
		}
	}
	return o
}

var endings = map[vm.Outcome]ending{vm.Awaiting: "AWAIT", vm.Stopped: "STOP", vm.Passed: "PASS", vm.Dropped: "DROP", vm.Aborted: "ABORT"}

// disagreement runs a program on the evaluator and on the virtual machine. It returns how they
// differ, or "", and how the activations ended.
func disagreement(src string, seed uint64, late bool) (difference string, ends []ending) {
	difference, ends, _ = compare(src, seed, late)
	return difference, ends
}

// compare is disagreement, and also returns the compiled module.
func compare(src string, seed uint64, late bool) (difference string, ends []ending, m *prog.Module) {
	r := newReport("random.pdl", []byte(src))
	p := parse([]byte(src), r)
	check(p, r)
	m, err := Compile("random.pdl", []byte(src))
	if err != nil || r.err() != nil {
		return fmt.Sprintf("it does not compile: %v", err), nil, nil
	}
	e := newEvaluator(p)
	host := &traced{evaluator: newEvaluator(p), late: late}
	machine, err := vm.New(vm.Config{Host: host, CodeWords: 1 << 13, DataWords: 1 << 10, Programs: 1, Budget: 1 << 30})
	if err != nil {
		return err.Error(), nil, nil
	}
	if _, err := machine.Load(1, m); err != nil {
		return err.Error(), nil, nil
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for _, s := range []*evaluator{e, host.evaluator} {
		s.segments[1], s.segments[2], s.segments[7] = make([]byte, 64), []byte("sixteen bytes..."), make([]byte, 8)
		s.locks[1] = seed%2 == 0
	}
	for n := range 6 {
		var want ending
		var got vm.Outcome
		packet := make([]byte, 40-random.IntN(40)*random.IntN(2)*random.IntN(2))
		for i := range packet {
			packet[i] = byte(random.Uint32())
		}
		if n == 0 {
			want, got = e.run(nil, 0, p.Init), machine.Start(1)
		} else {
			h := p.Messages[random.IntN(2)]
			want = e.run(packet, 9, h.Blocks...)
			got = machine.Dispatch(&vm.Message{Program: 1, Trigger: uint32(h.value), Source: 9, Payload: packet})
		}
		got = host.finish(machine, got)
		ends = append(ends, want)
		if endings[got] != want {
			return fmt.Sprintf("activation %d: %v, and the evaluator says %v", n, got, want), ends, m
		}
		if info, _ := machine.Info(1); want == "ABORT" && (!slices.Contains(e.causes, info.LastAbort) || !late && info.Profile.LastLine != e.line) {
			return fmt.Sprintf("activation %d: %v in line %d, and the evaluator says %v in line %d", n, info.LastAbort, info.Profile.LastLine, e.causes, e.line), ends, m
		}
		if d := host.differs(e, p, machine); d != "" {
			return fmt.Sprintf("activation %d (%v): %s", n, want, d), ends, m
		}
		if want == "STOP" || n == 0 && want == "ABORT" {
			break
		}
	}
	return "", ends, m
}

// differs compares the results so far.
func (h *traced) differs(e *evaluator, p *Program, m *vm.Machine) string {
	if !slices.Equal(h.trace, e.trace) {
		return fmt.Sprintf("it did\n%q, and the evaluator\n%q", h.trace, e.trace)
	}
	for n := range e.segments {
		if string(e.segments[n]) != string(h.segments[n]) {
			return fmt.Sprintf("segment %d is %q, and the evaluator says %q", n, h.segments[n], e.segments[n])
		}
	}
	for _, v := range p.Vars {
		got, err := m.Variable(1, fold(v.Name))
		if err != nil || !slices.Equal(got, e.vars[v]) {
			return fmt.Sprintf("%s is %v (%v), and the evaluator says %v", v.Name, got, err, e.vars[v])
		}
	}
	return ""
}

// The compiled program must do what the source says, for any source, whether transfers end at
// once or late (PANIC-39).
func TestMachineAndEvaluatorAgree(t *testing.T) {
	programs := 3000
	if testing.Short() {
		programs = 600
	}
	count := make(map[ending]int)
	seen := make(map[prog.Op]bool)
	for seed := range uint64(programs) {
		src := pdltest.Program(rand.New(rand.NewPCG(seed, 0)))
		for _, late := range []bool{false, true} {
			d, ends, m := compare(src, seed, late)
			if d != "" {
				t.Fatalf("seed %d, transfers late: %v: %s\n%s", seed, late, d, src)
			}
			for _, e := range ends {
				count[e]++
			}
			for _, w := range m.Code {
				seen[w.Op()] = true
			}
		}
	}
	t.Log(count)
	for _, e := range endings {
		if count[e] < programs/50 {
			t.Errorf("%d of the activations of %d programs ended by %s: the programs are too much alike", count[e], programs, e)
		}
	}
	for op := prog.Op(1); ; op++ {
		e, ok := op.Effect()
		if !ok {
			break
		}
		if !seen[op] && e.Then == 0 { // package vm tests the pairs
			t.Errorf("no program has the opcode %v", op)
		}
	}
}

func FuzzAgree(f *testing.F) {
	f.Add(uint64(1), false)
	f.Fuzz(func(t *testing.T, seed uint64, late bool) {
		src := pdltest.Program(rand.New(rand.NewPCG(seed, 0)))
		if d, _ := disagreement(src, seed, late); d != "" {
			t.Fatalf("%s\n%s", d, src)
		}
	})
}
