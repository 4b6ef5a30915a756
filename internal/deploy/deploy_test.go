package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A fabric is some NICs, each of which can be asked as long as it lives.
type fabric struct {
	t       *testing.T
	now     clock.Time
	engines []*nic.Engine // NIC i+1
	sites   []*deploy.Site
	asked   []string // "what NIC", in order
	by      deploy.Asker
	client  deploy.Client
	mu      sync.Mutex // NICs may be asked concurrently

	// fails is called before each request, and returns an error if the request does not arrive.
	// silent reports whether its answer never comes.
	fails  func(id registry.NICID, do string) error
	silent func(id registry.NICID, do string) bool
}

func newFabric(t *testing.T, n int) *fabric {
	f := &fabric{t: t, now: 1, fails: func(registry.NICID, string) error { return nil }, silent: func(registry.NICID, string) bool { return false }}
	sw := mem.NewSwitch(mem.Config{})
	for i := range n {
		e, err := nic.New(nic.Config{ID: uint64(i + 1), Incarnation: 1, Secrets: secret.Seeded(uint64(i + 1)), Link: sw.Port()})
		if err != nil {
			t.Fatal(err)
		}
		f.engines = append(f.engines, e)
		f.sites = append(f.sites, &deploy.Site{NIC: registry.NICID(i + 1), May: rights,
			Do: func(do func(*program.Table)) { do(e.Programs()); e.Poll(f.now) }})
	}
	f.client.Ask = func(ctx context.Context, id registry.NICID, r *ctl.Program) (*ctl.ProgramReply, error) {
		if f.silent(id, r.Do) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, fmt.Sprint(r.Do, " ", uint64(id)))
		if err := errors.Join(ctx.Err(), f.fails(id, r.Do)); err != nil {
			return nil, err
		}
		return f.sites[id-1].Answer(f.by, r)
	}
	return f
}

// rights allows users below 10, and users that other NICs vouch for. User 0 and the users of NIC
// 7 may guard any process.
func rights(a deploy.Asker) deploy.Rights {
	return deploy.Rights{Look: a.NIC != 9, Change: a.UID < 10 && a.NIC != 9, GuardAny: a == deploy.Asker{} || a.NIC == 7, Cure: "expected one of program_uids"}
}

// all returns the ids of the NICs.
func (f *fabric) all() (ids []registry.NICID) {
	for _, s := range f.sites {
		ids = append(ids, s.NIC)
	}
	return ids
}

// states returns the programs of each NIC: "number name state" for each.
func (f *fabric) states() (all []string) {
	for _, s := range f.sites {
		r, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramList})
		if err != nil {
			f.t.Fatal(err)
		}
		var l []string
		for _, p := range r.Programs {
			l = append(l, fmt.Sprint(p.ID, " ", p.Name, " ", p.State))
		}
		all = append(all, strings.Join(l, ", "))
	}
	return all
}

func (f *fabric) wantStates(want ...string) {
	f.t.Helper()
	if got := f.states(); strings.Join(got, "; ") != strings.Join(want, "; ") {
		f.t.Errorf("the NICs have %q; want %q", got, want)
	}
}

// wantClean expects that a load has left nothing on any NIC.
func (f *fabric) wantClean() {
	f.t.Helper()
	for i, e := range f.engines {
		if err := errors.Join(e.Programs().Leaks(), e.Programs().Audit()); err != nil {
			f.t.Errorf("NIC %d: %v", i+1, err)
		}
	}
}

const counting = "PROGRAM counting: VAR n; TRIGGERS 1; BEGIN n = %d END; MESSAGE 1: BEGIN n = n + 1; DISPLAY n END; END;"

func compiled(t *testing.T, source string) []byte {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return m.Encode()
}

var errDead = errors.New("it does not answer")

// The error names a NIC that cannot be reached, and no other NIC has the program.
func TestAProgramIsLoadedNowhereIfOneNICCannotBeReached(t *testing.T) { // PANIC-2
	for dead := range registry.NICID(4) {
		f := newFabric(t, 4)
		f.fails = func(id registry.NICID, _ string) error {
			if id == dead+1 {
				return errDead
			}
			return nil
		}
		_, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 0)), deploy.Options{ID: 5, Start: true})
		if !errors.Is(err, errDead) || !strings.Contains(err.Error(), fmt.Sprintf("NIC %v: ", dead+1)) || !strings.Contains(err.Error(), "loaded nowhere") {
			t.Errorf("with NIC %d dead: %v", dead+1, err)
		}
		f.wantStates("", "", "", "")
		f.wantClean()
	}
}

// The error names a NIC that dies after all have prepared. The other NICs have their former
// program again, with its data.
func TestOneNICThatDiesBetweenPrepareAndCommitHasTheOthersRolledBack(t *testing.T) { // PANIC-2
	for dead := range registry.NICID(4) {
		dead++
		f := newFabric(t, 4)
		if _, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 40)), deploy.Options{ID: 5, Start: true}); err != nil {
			t.Fatal(err)
		}
		count := func(id registry.NICID, want int64) {
			t.Helper()
			if _, err := f.client.Ask(t.Context(), id, &ctl.Program{Do: ctl.ProgramSend, ID: 5, Trigger: 1}); err != nil {
				t.Fatal(err)
			}
			f.engines[id-1].Poll(f.now)
			values, _, err := f.client.Log(t.Context(), id, 5, "", 0)
			if err != nil || len(values) == 0 || values[len(values)-1] != want {
				t.Errorf("NIC %d displays %v, %v; want %d at last", id, values, err, want)
			}
		}
		for _, id := range f.all() {
			count(id, 41)
		}
		f.fails = func(id registry.NICID, do string) error {
			if id == dead && do != ctl.ProgramPut && do != ctl.ProgramPrepare {
				return errDead
			}
			return nil
		}
		other := strings.Replace(fmt.Sprintf(counting, 90), "VAR n", "VAR more, n", 1)
		_, err := f.client.Load(t.Context(), f.all(), compiled(t, other), deploy.Options{ID: 5, Start: true, Replace: true})
		if !errors.Is(err, errDead) || !strings.Contains(err.Error(), fmt.Sprintf("NIC %v, which had prepared it", dead)) || !strings.Contains(err.Error(), fmt.Sprintf("not be taken back from NIC %v", dead)) {
			t.Errorf("with NIC %d dying: %v", dead, err)
		}
		f.wantStates("5 counting running", "5 counting running", "5 counting running", "5 counting running")
		for _, id := range f.all() {
			if id != dead {
				count(id, 42)
			}
		}
		f.fails = func(registry.NICID, string) error { return nil }
		f.now = f.now.Add(limits.PrepareWithin + time.Second)
		for _, e := range f.engines {
			e.Poll(f.now)
		}
		f.wantClean() // the NIC that was cut off has forgotten it by itself
		count(dead, 42)
	}
}

func TestAProgramIsReplacedEverywhereWithItsData(t *testing.T) {
	f := newFabric(t, 3)
	source := compiled(t, fmt.Sprintf(counting, 40))
	if _, err := f.client.Load(t.Context(), f.all(), source, deploy.Options{Start: true}); err != nil {
		t.Fatal(err)
	}
	placed, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 90)), deploy.Options{Start: true, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range placed {
		if p.ID != 1 || !p.Kept {
			t.Errorf("%+v; want program 1, with its data", p)
		}
	}
	f.wantClean()
}

func TestWhoMayNotLoadIsToldWhoMay(t *testing.T) {
	f := newFabric(t, 1)
	for _, do := range []string{ctl.ProgramPut, ctl.ProgramPrepare, ctl.ProgramCommit, ctl.ProgramUndo, ctl.ProgramSettle, ctl.ProgramUnload, ctl.ProgramStart, ctl.ProgramSend} {
		if _, err := f.sites[0].Answer(deploy.Asker{UID: 10}, &ctl.Program{Do: do}); !errors.Is(err, ctl.ErrRefused) || !strings.Contains(err.Error(), "user 10") || !strings.Contains(err.Error(), "program_uids") {
			t.Errorf("%s: %v", do, err)
		}
	}
	for _, do := range []string{ctl.ProgramList, ctl.ProgramLog} {
		if _, err := f.sites[0].Answer(deploy.Asker{UID: 10}, &ctl.Program{Do: do}); errors.Is(err, ctl.ErrRefused) {
			t.Errorf("%s: %v", do, err)
		}
	}
}

// strangers are askers other than the local user 0: another user of this host, and users of other
// NICs with the same name or number.
var strangers = []deploy.Asker{{UID: 3}, {NIC: 7}, {NIC: 8, User: "root"}}

// Only the user who made a preparation can name it by its key.
func TestNoOtherUserCommitsOrUndoesAPreparation(t *testing.T) { // PANIC-22
	s := newFabric(t, 1).sites[0]
	r, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPrepare, Key: whole(t, s, compiled(t, fmt.Sprintf(counting, 0))), ID: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{ctl.ProgramCommit, ctl.ProgramUndo, ctl.ProgramSettle} {
		for _, a := range strangers {
			if _, err := s.Answer(a, &ctl.Program{Do: do, Key: r.Key}); !errors.Is(err, program.ErrKey) {
				t.Errorf("%s by %v: %v", do, a, err)
			}
		}
	}
	for _, do := range []string{ctl.ProgramCommit, ctl.ProgramSettle} {
		if _, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: do, Key: r.Key}); err != nil {
			t.Error(do, err)
		}
	}
}

// Pieces of a module must come in order, from the user who began it, and must not exceed it.
func TestPiecesOfAModuleThatDoNotFitAreRefused(t *testing.T) {
	s := newFabric(t, 1).sites[0]
	begin := func() uint64 {
		r, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPut, Total: 10, Bytes: make([]byte, 4)})
		if err != nil {
			t.Fatal(err)
		}
		return r.Key
	}
	for name, r := range map[string]ctl.Program{
		"no bytes at all":     {Do: ctl.ProgramPut, Total: 0},
		"too many bytes":      {Do: ctl.ProgramPut, Total: prog.MaxModule + 1},
		"another place":       {Do: ctl.ProgramPut, Key: begin(), Offset: 5, Bytes: make([]byte, 1)},
		"more than all":       {Do: ctl.ProgramPut, Key: begin(), Offset: 4, Bytes: make([]byte, 7)},
		"another user":        {Do: ctl.ProgramPut, Key: begin(), Offset: 4, Bytes: make([]byte, 1)},
		"not all of it":       {Do: ctl.ProgramPrepare, Key: begin()},
		"nothing of it":       {Do: ctl.ProgramPrepare, Key: 1 << 40},
		"no program":          {Do: ctl.ProgramPrepare, Key: whole(t, s, make([]byte, 40))},
		"no process's name":   {Do: ctl.ProgramPrepare, Key: whole(t, s, compiled(t, fmt.Sprintf(counting, 0))), Guards: "app", Trigger: 1},
		"none of its trigger": {Do: ctl.ProgramPrepare, Key: whole(t, s, compiled(t, fmt.Sprintf(counting, 0))), Guards: "app/1", Trigger: 2},
		"no such link":        {Do: ctl.ProgramPrepare, Key: whole(t, s, compiled(t, fmt.Sprintf(counting, 0))), Resident: ctl.ResidentXDP},
	} {
		var asker deploy.Asker
		if name == "another user" {
			asker.UID = 3
		}
		if _, err := s.Answer(asker, &r); !errors.Is(err, ctl.ErrBadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramCommit, Key: 77}); !errors.Is(err, program.ErrKey) {
		t.Errorf("a key that is none: %v", err)
	}
}

// whole uploads a module to a site.
func whole(t *testing.T, s *deploy.Site, module []byte) uint64 {
	t.Helper()
	r, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPut, Total: len(module), Bytes: module})
	if err != nil {
		t.Fatal(err)
	}
	return r.Key
}

const flooding = `PROGRAM flooding: VAR n, i; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN i = 0; WHILE i < 3000 DO BEGIN DISPLAY n; n = n + 1; i = i + 1 END END; END;`

// A log comes in pieces. It ends even if the program displays faster than the pieces are fetched,
// and nothing within the returned values is missing.
func TestTheLogOfAProgramThatDisplaysAllTheTimeEnds(t *testing.T) { // PANIC-26
	f := newFabric(t, 1)
	if _, err := f.client.Load(t.Context(), f.all(), compiled(t, flooding), deploy.Options{ID: 5, Start: true}); err != nil {
		t.Fatal(err)
	}
	// Between two pieces: fewer values than the log keeps, and more.
	for _, messages := range []int{1, 2} {
		asked := 0
		f.fails = func(_ registry.NICID, do string) error {
			if asked++; asked > 50 {
				return errors.New("asked 50 times")
			}
			for range messages {
				if _, err := f.sites[0].Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramSend, ID: 5, Trigger: 1}); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		}
		values, first, err := f.client.Log(t.Context(), 1, 5, "", 0)
		if err != nil || len(values) == 0 {
			t.Fatalf("%d messages between two pieces: %d values, %v", messages, len(values), err)
		}
		for i, v := range values {
			if v != int64(first)+int64(i) {
				t.Fatalf("%d messages between two pieces: value %d of %d is %d, and the first is %d", messages, i, len(values), v, first)
			}
		}
	}
}

// If a request picked one of them, it could unload the wrong program and leave the other running.
func TestANameOfTwoProgramsIsRefusedWithTheirNumbers(t *testing.T) {
	f := newFabric(t, 1)
	var ids []uint32
	for range 2 {
		placed, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 0)), deploy.Options{Start: true})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, uint32(placed[0].ID))
	}
	want := fmt.Sprintf("are called \"counting\": the numbers %d %d; expected one of these numbers", ids[0], ids[1])
	for _, r := range []ctl.Program{{Do: ctl.ProgramUnload}, {Do: ctl.ProgramStart}, {Do: ctl.ProgramSend, Trigger: 1}, {Do: ctl.ProgramLog}, {Do: ctl.ProgramList}} {
		r.Name = "counting"
		if _, err := f.sites[0].Answer(deploy.Asker{}, &r); !errors.Is(err, ctl.ErrBadRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; expected an error that says %q", r.Do, err, want)
		}
	}
	if _, err := f.sites[0].Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramUnload, ID: ids[1]}); err != nil {
		t.Errorf("by its number: %v", err)
	}
	if _, err := f.sites[0].Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramUnload, Name: "counting"}); err != nil {
		t.Errorf("by the name when one is left: %v", err)
	}
}

// A tool names a program like its source does: case does not matter.
func TestAProgramIsFoundByItsNameAsTheSourceHasIt(t *testing.T) { // PANIC-36
	f := newFabric(t, 1)
	if _, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(strings.ReplaceAll(counting, "counting", "Counting"), 0)), deploy.Options{Start: true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Counting", "counting", "COUNTING"} {
		for _, r := range []ctl.Program{{Do: ctl.ProgramSend, Trigger: 1}, {Do: ctl.ProgramLog}, {Do: ctl.ProgramList}} {
			r.Name = name
			if _, err := f.sites[0].Answer(deploy.Asker{}, &r); err != nil {
				t.Errorf("%s %s: %v", r.Do, name, err)
			}
		}
	}
	if _, err := f.sites[0].Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramUnload, Name: "Countin"}); !errors.Is(err, ctl.ErrNoProgram) {
		t.Errorf("by a part of its name: %v", err)
	}
}

// Any user who may load programs may begin uploads and finish none.
func TestModulesThatComeAtATimeAreBounded(t *testing.T) {
	s := newFabric(t, 1).sites[0]
	put := func(key uint64, at int) (uint64, error) {
		r, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPut, Key: key, Total: 10, Offset: at, Bytes: make([]byte, 4)})
		if err != nil {
			return 0, err
		}
		return r.Key, nil
	}
	var keys []uint64
	for range limits.ProgramPrepared + 1 {
		key, err := put(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	for i, key := range keys {
		if _, err := put(key, 4); (i == 0) != errors.Is(err, ctl.ErrBadRequest) || i > 0 && err != nil {
			t.Errorf("a piece of module %d of %d: %v; expected the oldest alone to be forgotten", i+1, len(keys), err)
		}
	}
}

// inDriver stands for a program in a driver.
type inDriver struct {
	program.Resident
	closed int
}

func (r *inDriver) Close() error { r.closed++; return nil }

// The engine goes on while a program is compiled for the driver, so its preparation may have
// ended by then.
func TestAProgramWhosePreparationHasEndedLeavesTheDriver(t *testing.T) {
	f := newFabric(t, 1)
	r := &inDriver{}
	for _, where := range []string{ctl.ResidentXDP, ctl.ResidentAuto} {
		f.sites[0].Driver = func(vm.ID, *prog.Module) (program.Resident, error) {
			f.now += clock.Time(limits.PrepareWithin)
			f.engines[0].Poll(f.now)
			return r, nil
		}
		r.closed = 0
		_, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 0)), deploy.Options{ID: 5, Resident: where})
		if !errors.Is(err, program.ErrKey) {
			t.Errorf("%s: %v; expected %v", where, err, program.ErrKey)
		}
		if r.closed != 1 {
			t.Errorf("%s: the program in the driver was closed %d times; expected once", where, r.closed)
		}
		f.wantClean()
		f.wantStates("")
	}
}

func TestNothingIsPreparedOfAProgramThatTheDriverRefuses(t *testing.T) {
	f := newFabric(t, 1)
	errNo := errors.New("not in this driver")
	f.sites[0].Driver = func(vm.ID, *prog.Module) (program.Resident, error) { return nil, errNo }
	for range limits.ProgramPrepared + 1 { // more than may be prepared at once
		_, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 0)), deploy.Options{ID: 5, Resident: ctl.ResidentXDP})
		if !errors.Is(err, errNo) || !errors.Is(err, ctl.ErrBadRequest) {
			t.Fatalf("%v; expected %v", err, errNo)
		}
		f.wantClean()
	}
}
