package deploy_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A NIC that fails to settle does not keep the NICs after it from settling.
func TestANICThatDoesNotSettleLeavesTheOthersToSettle(t *testing.T) {
	f := newFabric(t, 3)
	f.fails = func(id registry.NICID, do string) error {
		if id == 1 && do == ctl.ProgramSettle {
			return errDead
		}
		return nil
	}
	if _, err := f.load("pong", deploy.Options{ID: 5}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"settle 2", "settle 3"} {
		if !slices.Contains(f.asked, want) {
			t.Errorf("the requests are %q; expected %q, too", f.asked, want)
		}
	}
}

// A client that asks one NIC after the other rolls back every NIC, also after one that fails.
func TestInTurnANICThatFailsLeavesNoOtherWithThePreparation(t *testing.T) {
	f := newFabric(t, 4)
	f.client.InTurn = true
	f.fails = func(id registry.NICID, do string) error {
		if id == 4 && do == ctl.ProgramPrepare || id < 3 && do == ctl.ProgramUndo {
			return errDead
		}
		return nil
	}
	_, err := f.load("pong", deploy.Options{ID: 5})
	if !errors.Is(err, errDead) || !strings.Contains(err.Error(), "NIC 0:0:0:0:0:0:0:2 (") {
		t.Errorf("%v; expected that it names NICs 1 and 2", err)
	}
	if err := f.engines[2].Programs().Leaks(); err != nil {
		t.Errorf("NIC 3: %v", err)
	}
}

// Uploads and preparations belong to one user of one NIC. Another user of that NIC, or a user with
// the same name elsewhere, can neither use nor end them.
func TestOtherUsersOfANICLeaveAnUploadAndAPreparationAlone(t *testing.T) { // PANIC-22
	s := newFabric(t, 1).sites[0]
	owner := deploy.Asker{NIC: 8, User: "alice"}
	others := []deploy.Asker{{NIC: 8, User: "bob"}, {NIC: 7, User: "alice"}, {User: "alice"}, {UID: 1, User: "alice"}}
	ask := func(a deploy.Asker, r ctl.Program) uint64 {
		t.Helper()
		reply, err := s.Answer(a, &r)
		if err != nil {
			t.Fatalf("%s of %v: %v", r.Do, a, err)
		}
		return reply.Key
	}
	module := compiled(t, fmt.Sprintf(counting, 0))
	begun := ctl.Program{Do: ctl.ProgramPut, Total: len(module), Bytes: module[:8]}
	rest := ctl.Program{Do: ctl.ProgramPut, Key: ask(owner, begun), Total: len(module), Offset: 8, Bytes: module[8:]}
	refused := func(r ctl.Program) {
		t.Helper()
		for _, a := range others {
			if _, err := s.Answer(a, &r); err == nil {
				t.Errorf("%s of %v is served", r.Do, a)
			}
		}
	}
	refused(rest)
	ask(owner, rest)
	prepare := ctl.Program{Do: ctl.ProgramPrepare, Key: rest.Key, ID: 5}
	refused(prepare)
	key := ask(owner, prepare)
	for _, do := range []string{ctl.ProgramCommit, ctl.ProgramSettle, ctl.ProgramUndo} {
		refused(ctl.Program{Do: do, Key: key})
	}
	ask(owner, ctl.Program{Do: ctl.ProgramCommit, Key: key})
}

// owned is a program in a driver that may be called only by the owner of the engine.
type owned struct {
	inDriver
	engine *bool
	alone  int // calls without the engine
}

func (o *owned) Close() error {
	if !*o.engine {
		o.alone++
	}
	return o.inDriver.Close()
}

// A program in the driver is closed by the owner of the engine, also if its preparation has ended
// meanwhile: the owner may be giving it other segments.
func TestAProgramWhosePreparationHasEndedIsClosedByTheOwnerOfTheEngine(t *testing.T) {
	f := newFabric(t, 1)
	engine := false
	do := f.sites[0].Do
	f.sites[0].Do = func(g func(*program.Table)) {
		do(func(t *program.Table) { engine = true; g(t); engine = false })
	}
	r := &owned{engine: &engine}
	f.sites[0].Driver = func(vm.ID, *prog.Module) (program.Resident, error) {
		f.now += clock.Time(limits.PrepareWithin)
		f.engines[0].Poll(f.now)
		return r, nil
	}
	if _, err := f.load("pong", deploy.Options{ID: 5, Resident: ctl.ResidentXDP}); !errors.Is(err, program.ErrKey) {
		t.Errorf("%v; expected %v", err, program.ErrKey)
	}
	if r.closed != 1 || r.alone != 0 {
		t.Errorf("it was closed %d times, %d of them without the engine; expected once, with it", r.closed, r.alone)
	}
}

// A list that is asked for from a number beyond all programs is empty.
func TestAListFromBeyondAllProgramsIsEmpty(t *testing.T) {
	f := newFabric(t, 1)
	f.put(1, "pong", 5)
	for _, from := range []uint64{1, 2, 1 << 31, 1 << 63, math.MaxUint64} {
		r, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramList, From: from})
		if err != nil || len(r.Programs) != 0 || r.Next != 0 {
			t.Errorf("from %d: %+v, %v", from, r, err)
		}
	}
}

// A client does not ask a NIC for the same part again, whatever the NIC answers.
func TestListsAndLogsThatDoNotGoOnEnd(t *testing.T) {
	s := &sent{}
	s.answer = func(r *ctl.Program) (*ctl.ProgramReply, error) {
		if len(s.requests) > 9 {
			return nil, errors.New("asked 10 times")
		}
		return &ctl.ProgramReply{First: r.From, Values: []int64{7}, Programs: make([]ctl.ProgramInfo, 1), Next: 1}, nil
	}
	if l, err := s.client().List(t.Context(), 1); err != nil || len(l) != 2 {
		t.Errorf("%d programs, %v; expected 2", len(l), err)
	}
	s.requests = nil
	if values, first, err := s.client().Log(t.Context(), 1, 5, "", 0); err != nil || len(values) != 2 || first != 0 {
		t.Errorf("the log has %v from %d on, %v; expected 2 values from 0 on", values, first, err)
	}
}

// The number that the program has on one NIC may be prepared for another program elsewhere. No
// list shows that, so the load goes on to the next number.
func TestTheNumberOfTheProgramIsNotInsistedOnEither(t *testing.T) {
	f := newFabric(t, 2)
	f.put(1, "pong", 6)
	prepare := ctl.Program{Do: ctl.ProgramPrepare, Key: whole(t, f.sites[1], named(t, "other", 1)), ID: 6}
	if _, err := f.sites[1].Answer(deploy.Asker{}, &prepare); err != nil {
		t.Fatal(err)
	}
	if ids, err := f.load("pong", deploy.Options{Replace: true, Start: true}); err != nil || fmt.Sprint(ids) != "[6 7]" {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
}

// The bounds on the length of a module are inclusive.
func TestModulesOfTheSmallestAndOfTheLargestLengthAreTaken(t *testing.T) {
	s := newFabric(t, 1).sites[0]
	for _, total := range []int{1, prog.MaxModule} {
		r := &ctl.Program{Do: ctl.ProgramPut, Total: total, Bytes: make([]byte, 1)}
		if _, err := s.Answer(deploy.Asker{}, r); err != nil {
			t.Errorf("%d bytes: %v", total, err)
		}
	}
}
