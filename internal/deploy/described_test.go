package deploy_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

const endless = "PROGRAM endless: VAR n; TRIGGERS 1; BEGIN WHILE 0 < 1 DO n = n + 1 END; MESSAGE 1: BEGIN n = 0 END; END;"

// endlessWhenAsked has a message that is aborted.
const endlessWhenAsked = "PROGRAM asked: VAR n; TRIGGERS 1, 4; BEGIN n = 0 END; MESSAGE 1: BEGIN WHILE 0 < 1 DO n = n + 1 END; MESSAGE 4: BEGIN n = 0 END; END;"

// ask sends a request to the first NIC.
func (f *fabric) ask(by deploy.Asker, r ctl.Program) (*ctl.ProgramReply, error) {
	return f.sites[0].Answer(by, &r)
}

func (f *fabric) info(id uint32) ctl.ProgramInfo {
	f.t.Helper()
	r, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramList, ID: id})
	if err != nil || len(r.Programs) != 1 {
		f.t.Fatalf("%d programs, %v", len(r.Programs), err)
	}
	return r.Programs[0]
}

// loaded loads a program into the first NIC under number 5.
func (f *fabric) loaded(source string, o deploy.Options) deploy.Placed {
	f.t.Helper()
	o.ID = 5
	placed, err := f.client.Load(f.t.Context(), f.all(), compiled(f.t, source), o)
	if err != nil {
		f.t.Fatal(err)
	}
	return placed[0]
}

func TestAStartSaysWhyAProgramDoesNotStart(t *testing.T) {
	start := ctl.Program{Do: ctl.ProgramStart, ID: 5}
	f := newFabric(t, 1)
	if _, err := f.ask(deploy.Asker{}, start); !errors.Is(err, ctl.ErrNoProgram) {
		t.Errorf("without a program: %v", err)
	}
	f.loaded(fmt.Sprintf(counting, 0), deploy.Options{})
	if r, err := f.ask(deploy.Asker{}, start); err != nil || r.ID != 5 || r.Outcome == "" || f.info(5).State != "running" {
		t.Errorf("one that waits for its start: %+v, %v", r, err)
	}
	if _, err := f.ask(deploy.Asker{}, start); !errors.Is(err, deploy.ErrOutcome) || !strings.HasSuffix(err.Error(), "counting runs") {
		t.Errorf("one that runs: %v", err)
	}
	f = newFabric(t, 1)
	f.loaded(endless, deploy.Options{})
	if _, err := f.ask(deploy.Asker{}, start); !errors.Is(err, deploy.ErrBegin) || !strings.Contains(err.Error(), ", line 1") {
		t.Errorf("one whose initialisation is aborted: %v", err)
	}
	if _, err := f.ask(deploy.Asker{}, start); !errors.Is(err, deploy.ErrOutcome) || !strings.Contains(err.Error(), "endless is stopped") {
		t.Errorf("one that is stopped: %v", err)
	}
}

func TestALoadTellsThatTheInitialisationWasAborted(t *testing.T) {
	f := newFabric(t, 1)
	if p := f.loaded(endless, deploy.Options{Start: true}); !strings.HasSuffix(p.Aborted, ", line 1") {
		t.Errorf("aborted: %q", p.Aborted)
	}
	f = newFabric(t, 1)
	if p := f.loaded(fmt.Sprintf(counting, 0), deploy.Options{Start: true}); p.Aborted != "" {
		t.Errorf("one that was not is aborted: %q", p.Aborted)
	}
	if p := newFabric(t, 1).loaded(fmt.Sprintf(counting, 0), deploy.Options{}); p.Aborted != "" {
		t.Errorf("one that waits for its start is aborted: %q", p.Aborted)
	}
}

func TestAListDescribesWhatAProgramIsAndHasDone(t *testing.T) {
	f := newFabric(t, 1)
	f.by = deploy.Asker{NIC: 7, User: "bob"}
	f.loaded(endlessWhenAsked, deploy.Options{Start: true, Guards: "app/1", Outgoing: true, Trigger: 4})
	f.by = deploy.Asker{}
	i := f.info(5)
	if i.ID != 5 || i.Name != "asked" || i.NIC != 1 || i.State != "running" || i.Owner != -1 || i.OwnerNIC != 7 || i.OwnerUser != "bob" ||
		i.Guards != "app/1" || !i.Outgoing || fmt.Sprint(i.Triggers) != "[1 4]" || i.Resident != "" || i.Why != "" || i.Line != 0 || i.Aborts != nil || i.Lost != nil {
		t.Errorf("before a message: %+v", i)
	}
	if _, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramSend, ID: 5, Trigger: 1}); err != nil {
		t.Fatal(err)
	}
	f.engines[0].Poll(f.now)
	i = f.info(5)
	if i.Why == "" || i.Line != 1 || len(i.Aborts) != 1 || i.Aborts[i.Why] != 1 {
		t.Errorf("behind a message that was aborted: %q in line %d, %v", i.Why, i.Line, i.Aborts)
	}
	f = newFabric(t, 1)
	f.by = deploy.Asker{UID: 3, User: "alice"}
	f.loaded(fmt.Sprintf(counting, 0), deploy.Options{Resident: ctl.ResidentVM})
	if i := f.info(5); i.Owner != 3 || i.OwnerNIC != 0 || i.OwnerUser != "alice" || i.State != "loaded" || i.Guards != "" || i.Outgoing || i.Resident != ctl.ResidentVM {
		t.Errorf("a resident program of alice: %+v", i)
	}
}

func TestRefusalsOfAProgramAreTheirSentinels(t *testing.T) {
	f := newFabric(t, 1)
	f.loaded(fmt.Sprintf(counting, 0), deploy.Options{Start: true})
	for what, c := range map[string]struct {
		r    ctl.Program
		want error
	}{
		"no trigger":    {ctl.Program{Do: ctl.ProgramSend, ID: 5, Trigger: 2}, ctl.ErrNoProgram},
		"no program":    {ctl.Program{Do: ctl.ProgramSend, ID: 6, Trigger: 1}, ctl.ErrNoProgram},
		"no name":       {ctl.Program{Do: ctl.ProgramLog, Name: "other"}, ctl.ErrNoProgram},
		"none to list":  {ctl.Program{Do: ctl.ProgramList, ID: 6}, ctl.ErrNoProgram},
		"none to start": {ctl.Program{Do: ctl.ProgramStart, ID: 6}, ctl.ErrNoProgram},
		"none to end":   {ctl.Program{Do: ctl.ProgramUnload, ID: 6}, ctl.ErrNoProgram},
	} {
		if _, err := f.ask(deploy.Asker{}, c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; expected %v", what, err, c.want)
		}
	}
	late := "PROGRAM late: VAR n; TRIGGERS 1; BEGIN n = 0 END; MESSAGE 1: BEGIN PASS AFTER 1 END; END;"
	for what, c := range map[string]struct {
		o    deploy.Options
		want error
	}{
		"a number that is taken":           {deploy.Options{ID: 5}, ctl.ErrTaken},
		"a delaying guard of what comes":   {deploy.Options{Guards: "app/1", Trigger: 1}, ctl.ErrBadRequest},
		"an outgoing guard of no process":  {deploy.Options{Outgoing: true}, ctl.ErrBadRequest},
		"a guard in the driver of its NIC": {deploy.Options{Guards: "app/1", Outgoing: true, Trigger: 1, Resident: ctl.ResidentXDP}, ctl.ErrBadRequest},
	} {
		if _, err := f.client.Load(t.Context(), f.all(), compiled(t, late), c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; expected %v", what, err, c.want)
		}
		f.wantStates("5 counting running")
	}
	f.wantClean()
}

// driven is a program in a driver that handles no message there.
type driven struct {
	inDriver
	lost program.Losses
	data []int64
}

func (d *driven) Enter(data []int64) error                          { d.data = data; return nil }
func (d *driven) Leave() ([]int64, bool, error)                     { return d.data, false, nil }
func (d *driven) Borrow(_ []int64, f func(stopped bool) bool) error { f(false); return nil }
func (d *driven) Profile() (vm.Profile, bool, error)                { return vm.Profile{}, false, nil }
func (d *driven) Lost() (program.Losses, error)                     { return d.lost, nil }

func TestAProgramResidesWhereItIsToAndSaysWhere(t *testing.T) {
	refused := errors.New("not in this driver")
	for _, c := range []struct {
		where string
		link  bool  // AF_XDP
		err   error // of the driver
		is    string
		why   string
	}{
		{ctl.ResidentVM, true, nil, ctl.ResidentVM, ""},
		{ctl.ResidentAuto, true, nil, ctl.ResidentXDP, ""},
		{ctl.ResidentXDP, true, nil, ctl.ResidentXDP, ""},
		{ctl.ResidentAuto, true, refused, ctl.ResidentVM, refused.Error()},
		{ctl.ResidentAuto, false, nil, ctl.ResidentVM, "the link of NIC 0:0:0:0:0:0:0:1 is not AF_XDP"},
	} {
		f := newFabric(t, 1)
		d, asked := &driven{lost: program.Losses{Answers: 3, Busy: 4}}, 0
		if c.link {
			f.sites[0].Driver = func(id vm.ID, m *prog.Module) (program.Resident, error) {
				if asked++; id != 5 || m.Name != "counting" {
					t.Errorf("the driver is asked for %s, number %d", m.Name, id)
				}
				return d, c.err
			}
		}
		p := f.loaded(fmt.Sprintf(counting, 0), deploy.Options{Start: true, Resident: c.where})
		i := f.info(5)
		if p.Resident != c.is || i.Resident != c.is || !strings.Contains(p.Why, c.why) || (p.Why == "") != (c.why == "") {
			t.Errorf("%s: it resides in %s, and the list says %s: %q; expected %s", c.where, p.Resident, i.Resident, p.Why, c.is)
		}
		if in := c.is == ctl.ResidentXDP; in != (d.data != nil) || c.where == ctl.ResidentVM && asked > 0 {
			t.Errorf("%s: the driver has it: %v; it was asked %d times", c.where, d.data != nil, asked)
		} else if want := (map[string]uint64{"answers that could not leave": 3, "messages that found it busy": 4}); in && !maps.Equal(i.Lost, want) {
			t.Errorf("%s: lost %v; expected %v", c.where, i.Lost, want)
		}
		if _, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramUnload, ID: 5}); err != nil {
			t.Error(err)
		}
		if d.closed != len(d.data[:min(1, len(d.data))]) {
			t.Errorf("%s: the program in the driver was closed %d times", c.where, d.closed)
		}
		f.wantClean()
	}
}

// One answer carries ctl.ProgramValues values. It says where the next one goes on only if there
// are more.
func TestALogIsCutIntoAnswersThatFit(t *testing.T) {
	for _, shown := range []int{0, 1, ctl.ProgramValues - 1, ctl.ProgramValues, ctl.ProgramValues + 1, 2*ctl.ProgramValues + 1, limits.ProgramLog + 3} {
		f := newFabric(t, 1)
		source := "PROGRAM shows: VAR n, i; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN i = 0; WHILE i < PACKETLEN DO BEGIN DISPLAY n; n = n + 1; i = i + 1 END END; END;"
		f.loaded(source, deploy.Options{Start: true})
		for left := shown; left > 0; left -= min(left, 512) {
			if _, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramSend, ID: 5, Trigger: 1, Bytes: make([]byte, min(left, 512))}); err != nil {
				t.Fatal(err)
			}
			f.engines[0].Poll(f.now)
		}
		first := max(0, shown-limits.ProgramLog)
		for from, answers := first, 1; ; answers++ {
			r, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramLog, ID: 5, From: uint64(from)})
			if err != nil {
				t.Fatal(err)
			}
			left := shown - from
			if len(r.Values) != min(left, ctl.ProgramValues) || left > 0 && (r.First != uint64(from) || r.Values[0] != int64(from)) || (r.Next != 0) != (left > ctl.ProgramValues) {
				t.Fatalf("%d values are shown; from %d on, answer %d has %d from %d on, and the next is at %d", shown, from, answers, len(r.Values), r.First, r.Next)
			}
			if r.Next == 0 {
				break
			}
			from = int(r.Next)
		}
		values, at, err := f.client.Log(t.Context(), 1, 5, "", 0)
		if err != nil || len(values) != shown-first || shown > 0 && (at != uint64(first) || values[len(values)-1] != int64(shown-1)) {
			t.Errorf("%d values are shown; the log has %d from %d on, %v", shown, len(values), at, err)
		}
	}
}
