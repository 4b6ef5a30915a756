package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A NIC may have more programs than a load has tries. The search for a free number goes on above
// the number that was taken, not at the next one from the start.
func TestTheSearchForANumberGoesOnAboveTheTakenOne(t *testing.T) {
	const loaded = limits.ProgramPrepared + 4
	s := &sent{answer: func(r *ctl.Program) (*ctl.ProgramReply, error) {
		reply := &ctl.ProgramReply{Key: 1, ID: r.ID}
		switch {
		case r.Do == ctl.ProgramList:
			for id := range uint32(loaded) {
				reply.Programs = append(reply.Programs, ctl.ProgramInfo{ID: id + 1, Name: "other"})
			}
		case r.Do == ctl.ProgramPrepare && r.ID == loaded+1:
			return nil, fmt.Errorf("%w: %d", ctl.ErrTaken, r.ID)
		}
		return reply, nil
	}}
	placed, err := s.client().Load(t.Context(), []registry.NICID{1, 2}, named(t, "pong", 1), deploy.Options{})
	if err != nil || len(placed) != 2 || placed[0].ID != loaded+2 || placed[1].ID != loaded+2 {
		t.Errorf("it was loaded as %+v: %v; expected number %d", placed, err, loaded+2)
	}
}

// The NIC itself knows its free numbers, so a load into one NIC needs no right to list programs.
func TestALoadIntoOneNICLeavesTheNumberToTheNIC(t *testing.T) {
	s := &sent{}
	if _, err := s.client().Load(t.Context(), []registry.NICID{1}, named(t, "pong", 1), deploy.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.requests {
		if r.Do == ctl.ProgramList || r.ID != 0 {
			t.Errorf("a request to %s program %d", r.Do, r.ID)
		}
	}
}

// Without Replace, a load gets one number on all NICs, even if some NICs have a program of the
// name.
func TestAProgramBesideAnotherOfItsNameHasOneNumberOnAllNICs(t *testing.T) {
	f := newFabric(t, 2)
	f.put(1, "pong", 1)
	if ids, err := f.load("pong", deploy.Options{Start: true}); err != nil || fmt.Sprint(ids) != "[2 2]" {
		t.Errorf("it was loaded as %v: %v; expected [2 2]", ids, err)
	}
	f.wantStates("1 pong running, 2 pong running", "2 pong running")
}

// If each NIC has the program that is to be replaced, the client has chosen no number. A NIC that
// refuses its own is asked once.
func TestAReplacementThatIsBeingReplacedIsRefusedAtOnce(t *testing.T) {
	f := newFabric(t, 2)
	f.put(1, "pong", 1)
	f.put(2, "pong", 1)
	key := whole(t, f.sites[1], named(t, "pong", 3))
	prepare := ctl.Program{Do: ctl.ProgramPrepare, Key: key, ID: 1, Replace: true}
	if _, err := f.sites[1].Answer(deploy.Asker{}, &prepare); err != nil {
		t.Fatal(err)
	}
	f.asked = nil
	if ids, err := f.load("pong", deploy.Options{Replace: true, Start: true}); !errors.Is(err, ctl.ErrTaken) {
		t.Errorf("it was loaded as %v: %v; expected %v", ids, err, ctl.ErrTaken)
	}
	if asked := f.requests(ctl.ProgramPrepare, 2); asked != 1 {
		t.Errorf("the NIC is asked %d times; expected once", asked)
	}
}

// The NICs, and not the client, refuse bytes that are not a module.
func TestBytesThatAreNoModuleReplaceNothing(t *testing.T) {
	f := newFabric(t, 2)
	f.put(1, "pong", 1)
	o := deploy.Options{Replace: true}
	if _, err := f.client.Load(t.Context(), f.all(), make([]byte, 40), o); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("%v; expected %v", err, ctl.ErrBadRequest)
	}
	f.wantStates("1 pong running", "")
	f.wantClean()
}

// A module that lacks bytes is refused as such, not as a damaged module.
func TestTheRefusalOfAPartOfAModuleSaysSo(t *testing.T) {
	s := newFabric(t, 1).sites[0]
	module := named(t, "pong", 1)
	put := ctl.Program{Do: ctl.ProgramPut, Total: len(module), Bytes: module[:len(module)-1]}
	r, err := s.Answer(deploy.Asker{}, &put)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPrepare, Key: r.Key, ID: 5})
	if !errors.Is(err, ctl.ErrBadRequest) || !strings.Contains(err.Error(), "has not come whole") {
		t.Errorf("%v; expected that the module has not come whole", err)
	}
}

// If the NIC refuses a resident program, the load fails for each place, without a request to the
// driver.
func TestARefusedResidentProgramIsNotPlaced(t *testing.T) {
	for _, where := range []string{ctl.ResidentVM, ctl.ResidentAuto, ctl.ResidentXDP} {
		f := newFabric(t, 1)
		f.put(1, "victim", 5)
		f.sites[0].Driver = func(vm.ID, *prog.Module) (program.Resident, error) {
			t.Errorf("%s: the driver is asked", where)
			return &inDriver{}, nil
		}
		key := whole(t, f.sites[0], named(t, "pong", 1))
		prepare := ctl.Program{Do: ctl.ProgramPrepare, Key: key, ID: 5, Resident: where}
		if r, err := f.ask(deploy.Asker{}, prepare); !errors.Is(err, ctl.ErrTaken) {
			t.Errorf("%s: %+v, %v; expected %v", where, r, err, ctl.ErrTaken)
		}
	}
}

// Number 0 without a name means all programs in a list only.
func TestARequestThatNamesNoProgramFindsNone(t *testing.T) {
	f := newFabric(t, 1)
	f.put(1, "pong", 5)
	for _, do := range []string{ctl.ProgramUnload, ctl.ProgramStart, ctl.ProgramSend, ctl.ProgramLog} {
		if r, err := f.ask(deploy.Asker{}, ctl.Program{Do: do, Trigger: 1}); !errors.Is(err, ctl.ErrNoProgram) {
			t.Errorf("%s: %+v, %v; expected %v", do, r, err, ctl.ErrNoProgram)
		}
	}
}

// full is a driver without room for another program.
type full struct{ driven }

func (*full) Enter([]int64) error { return errDead }

// A program that starts but cannot enter the driver is not reported as started.
func TestAStartFailsIfTheProgramCannotEnterTheDriver(t *testing.T) {
	f := newFabric(t, 1)
	f.sites[0].Driver = func(vm.ID, *prog.Module) (program.Resident, error) { return &full{}, nil }
	f.loaded(fmt.Sprintf(counting, 0), deploy.Options{Resident: ctl.ResidentXDP})
	if r, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramStart, ID: 5}); !errors.Is(err, errDead) {
		t.Errorf("%+v, %v; expected %v", r, err, errDead)
	}
}

// A client whose Ask belongs to one goroutine never has two requests in flight.
func TestInTurnOneNICIsAskedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 4)
		f.client.InTurn = true
		f.silent = func(id registry.NICID, do string) bool { return do == ctl.ProgramUndo && id < 3 }
		f.fails = func(id registry.NICID, do string) error {
			if id == 4 && do == ctl.ProgramPrepare {
				return errDead
			}
			return nil
		}
		ask, inFlight := f.client.Ask, atomic.Int32{}
		f.client.Ask = func(ctx context.Context, id registry.NICID, r *ctl.Program) (*ctl.ProgramReply, error) {
			if n := inFlight.Add(1); n != 1 {
				t.Errorf("%s for NIC %d is one of %d requests in flight", r.Do, id, n)
			}
			defer inFlight.Add(-1)
			return ask(ctx, id, r)
		}
		if _, err := f.load("pong", deploy.Options{ID: 5}); !errors.Is(err, errDead) {
			t.Error(err)
		}
	})
}

// The contexts of a rollback have a timeout. A load that ends before it releases their timers.
func TestARollbackEndsItsContexts(t *testing.T) {
	f := newFabric(t, 3)
	f.fails = func(id registry.NICID, do string) error {
		if id == 3 && do == ctl.ProgramPrepare {
			return errDead
		}
		return nil
	}
	var contexts []context.Context
	ask := f.client.Ask
	f.client.InTurn = true
	f.client.Ask = func(ctx context.Context, id registry.NICID, r *ctl.Program) (*ctl.ProgramReply, error) {
		if r.Do == ctl.ProgramUndo {
			contexts = append(contexts, ctx)
		}
		return ask(ctx, id, r)
	}
	if _, err := f.load("pong", deploy.Options{ID: 5}); !errors.Is(err, errDead) || len(contexts) != 2 {
		t.Fatalf("%v; %d NICs are asked to undo, expected 2", err, len(contexts))
	}
	for i, ctx := range contexts {
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("the context for NIC %d: %v; expected %v", i+1, ctx.Err(), context.Canceled)
		}
	}
}

// A log that is asked for from a number on begins there. It ends where the log ended at the first
// request, also if that is exactly the end of an answer.
func TestALogBeginsAtItsNumberAndEndsAtItsEnd(t *testing.T) {
	s := &sent{answer: func(r *ctl.Program) (*ctl.ProgramReply, error) {
		return &ctl.ProgramReply{First: r.From, Values: []int64{int64(r.From)}, Next: r.From + limits.ProgramLog}, nil
	}}
	values, first, err := s.client().Log(t.Context(), 1, 5, "", 7)
	if err != nil || first != 7 || fmt.Sprint(values) != "[7]" || len(s.requests) != 1 {
		t.Errorf("%v from %d on, %v after %d requests; expected [7] from 7 on after one",
			values, first, err, len(s.requests))
	}
}
