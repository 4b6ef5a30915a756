package deploy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A NIC keeps a module only until it is prepared.
func TestAModuleIsPreparedOnce(t *testing.T) {
	s := newFabric(t, 1).sites[0]
	key := whole(t, s, compiled(t, fmt.Sprintf(counting, 0)))
	if _, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPrepare, Key: key, ID: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Answer(deploy.Asker{}, &ctl.Program{Do: ctl.ProgramPrepare, Key: key, ID: 6}); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("a second time: %v", err)
	}
}

func TestAListTellsEachCauseOfAborts(t *testing.T) {
	f := newFabric(t, 1)
	f.loaded("PROGRAM aborts: VAR n; TRIGGERS 1, 2; BEGIN n = 0 END;\nMESSAGE 1: BEGIN n = 1 / n END;\nMESSAGE 2: BEGIN n = PACKET[7] END; END;", deploy.Options{Start: true})
	for _, trigger := range []uint32{1, 2, 2} {
		if _, err := f.ask(deploy.Asker{}, ctl.Program{Do: ctl.ProgramSend, ID: 5, Trigger: trigger}); err != nil {
			t.Fatal(err)
		}
		f.engines[0].Poll(f.now)
	}
	if i := f.info(5); len(i.Aborts) != 2 || i.Aborts[vm.DivideByZero.String()] != 1 || i.Aborts[vm.OutOfPacket.String()] != 2 || i.Line != 3 {
		t.Errorf("the aborts are %v, the last in line %d", i.Aborts, i.Line)
	}
}

// A guard in the driver would not see the messages that come on other paths.
func TestAGuardIsNotGivenToTheDriver(t *testing.T) {
	for where, good := range map[string]bool{ctl.ResidentXDP: false, ctl.ResidentAuto: true} {
		f := newFabric(t, 1)
		f.sites[0].Driver = func(vm.ID, *prog.Module) (program.Resident, error) {
			t.Error("the driver is asked")
			return &driven{}, nil
		}
		o := deploy.Options{ID: 5, Guards: "app/1", Trigger: 1, Resident: where}
		placed, err := f.client.Load(t.Context(), f.all(), compiled(t, fmt.Sprintf(counting, 0)), o)
		if good != (err == nil) || good && (placed[0].Resident != ctl.ResidentVM || !strings.Contains(placed[0].Why, "it guards app/1")) {
			t.Errorf("%s: %+v, %v", where, placed, err)
		}
		f.wantClean()
	}
}

func TestWhereNoneHasTheNameTheNumberOfTheFirstNICIsTaken(t *testing.T) {
	f := newFabric(t, 4)
	f.put(2, "pong", 6)
	f.put(3, "pong", 8)
	if ids, err := f.load("pong", deploy.Options{Replace: true}); err != nil || fmt.Sprint(ids) != "[6 6 8 6]" {
		t.Errorf("it was loaded as %v: %v", ids, err)
	}
}
