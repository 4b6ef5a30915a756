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

// apart returns a copy of the module with every pair of instructions split in two, so that the
// machine executes them one by one.
func apart(m *prog.Module) *prog.Module {
	single := *m
	single.Code = slices.Clone(m.Code)
	for pc, w := range single.Code {
		single.Code[pc] = w.Apart()
	}
	return &single
}

// inert returns a copy of the module whose initialisation does nothing, or nil if the module has
// no AWAIT to start at.
func inert(m *prog.Module) *prog.Module {
	at := slices.IndexFunc(m.Code, func(w prog.Word) bool { return w.Op() == prog.Await })
	if at < 0 {
		return nil
	}
	still := *m
	still.Init = at
	return &still
}

// A metered holds the effects and the cost of an activation.
type metered struct {
	outcome vm.Outcome
	cause   vm.Cause
	line    int
	cost    int
	trace   []string
	data    []int64
}

// activation runs one activation with a budget. It starts with the given variables.
func activation(t *testing.T, p *Program, m *prog.Module, budget int, data []int64, message *vm.Message) metered {
	t.Helper()
	host := &traced{evaluator: newEvaluator(p)}
	host.segments[1], host.segments[2], host.segments[7] = make([]byte, 64), []byte("sixteen bytes..."), make([]byte, 8)
	machine, err := vm.New(vm.Config{Host: host, CodeWords: 1 << 13, DataWords: 1 << 10, Programs: 1, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := machine.Load(1, m); err != nil {
		t.Fatal(err)
	}
	if o := machine.Start(1); o != vm.Awaiting {
		t.Fatal(o)
	}
	if data != nil {
		if err := machine.SetData(1, data); err != nil {
			t.Fatal(err)
		}
	}
	o := machine.Dispatch(message)
	info, _ := machine.Info(1)
	after, err := machine.Data(1)
	if err != nil {
		t.Fatal(err)
	}
	return metered{o, info.LastAbort, info.Profile.LastLine, machine.Last(), host.trace, after}
}

// Wherever the budget ends, an activation has done exactly what it does up to there without a
// budget. A pair of instructions costs and does what its two instructions cost and do.
func TestABudgetEndsAnActivationAnywhere(t *testing.T) {
	programs, ended := 250, 0
	if testing.Short() {
		programs = 50
	}
	for seed := range uint64(programs) {
		src := []byte(pdltest.Program(rand.New(rand.NewPCG(seed, 0))))
		r := newReport("random.pdl", src)
		p := parse(src, r)
		check(p, r)
		m, err := Compile("random.pdl", src)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if m = inert(m); m == nil {
			continue
		}
		single := apart(m)
		random := rand.New(rand.NewPCG(seed, 1))
		var data []int64
		for range 2 {
			payload := make([]byte, 40)
			for i := range payload {
				payload[i] = byte(random.Uint32())
			}
			message := &vm.Message{Program: 1, Trigger: uint32(1 + random.IntN(2)), Source: 9, Payload: payload}
			whole := activation(t, p, m, 1<<20, data, message)
			for budget := 1; budget <= min(whole.cost+1, 150); budget++ {
				got := activation(t, p, m, budget, data, message)
				want := activation(t, p, single, budget, data, message)
				if d := cut(got, want, whole, budget); d != "" {
					t.Fatalf("seed %d, trigger %d, budget %d of %d: %s\n%s\n%s", seed, message.Trigger, budget, whole.cost, d, src, m.Disassemble(""))
				}
				if got.cause == vm.OutOfBudget {
					ended++
				}
			}
			data = whole.data
		}
	}
	if ended < 50*programs {
		t.Errorf("only %d activations were ended by their budgets", ended)
	}
}

// cut compares an activation that ran with a budget to the reference runs, and returns the
// difference. want is the run instruction by instruction up to the same place, whole the run to
// the end.
func cut(got, want, whole metered, budget int) string {
	switch {
	case fmt.Sprint(got) != fmt.Sprint(want):
		return fmt.Sprintf("%v, and instruction by instruction %v", got, want)
	case budget >= whole.cost:
		if fmt.Sprint(got) != fmt.Sprint(whole) {
			return fmt.Sprintf("%v, and with a larger one %v", got, whole)
		}
	case got.outcome != vm.Aborted || got.cause != vm.OutOfBudget || got.cost < budget:
		return fmt.Sprintf("%v for %v, and it has cost %d", got.outcome, got.cause, got.cost)
	case len(got.trace) > len(whole.trace) || !slices.Equal(got.trace, whole.trace[:len(got.trace)]):
		return fmt.Sprintf("it did %q, and without a budget %q", got.trace, whole.trace)
	}
	return ""
}
