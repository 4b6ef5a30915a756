package deploy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/vni"
)

// A NIC without a role is told how to get one, whatever its request says.
func TestANICWithoutARoleIsRefusedWithTheCure(t *testing.T) {
	s := newFabric(t, 1).sites[0]
	for _, do := range []string{ctl.ProgramPut, ctl.ProgramUnload, ctl.ProgramSend, ctl.ProgramList, ctl.ProgramLog} {
		_, err := s.Answer(deploy.Asker{NIC: 9, User: "root"}, &ctl.Program{Do: do, User: "alice"})
		if !errors.Is(err, ctl.ErrRefused) || !strings.Contains(err.Error(), `user "root"`) || !strings.Contains(err.Error(), "program_uids") {
			t.Errorf("%s: %v", do, err)
		}
		list := do == ctl.ProgramList || do == ctl.ProgramLog
		if list != strings.Contains(err.Error(), "may neither list programs of NIC 0:0:0:0:0:0:0:1 nor read") {
			t.Errorf("%s: %v; expected the right that is missing", do, err)
		}
	}
}

// attachTo registers a process of a user at a NIC.
func (f *fabric) attachTo(nic int, name, user string) {
	f.t.Helper()
	n, err := vni.ParseName(name)
	if err != nil {
		f.t.Fatal(err)
	}
	g := vni.DefaultGeometry(false)
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(vni.AlignedBytes(rw), vni.AlignedBytes(ro), g)
	if err != nil {
		f.t.Fatal(err)
	}
	d := f.engines[nic].Driver()
	slot, ok := d.Take(1)
	if !ok {
		f.t.Fatal("no slot is free")
	}
	d.Tie(slot, driver.Entry{VNI: seg, User: user})
	if _, ok := d.Post(driver.Command{Code: driver.NewProcess, Index: slot, PID: 1, Name: n}); !ok {
		f.t.Fatal("the driver's queue is full")
	}
	f.engines[nic].Poll(f.now)
}

// A guard judges processes of its loader. Other askers need the role admin, whatever rights to
// programs they have.
func TestOnlyTheOwnerOfAProcessOrAnAdminGuardsIt(t *testing.T) {
	alice, bob := deploy.Asker{UID: 1, User: "alice"}, deploy.Asker{UID: 2, User: "bob"}
	remoteAlice, remoteBob, admin := deploy.Asker{NIC: 8, User: "alice"}, deploy.Asker{NIC: 8, User: "bob"}, deploy.Asker{NIC: 7, User: "bob"}
	for _, c := range []struct {
		by  deploy.Asker
		may bool
	}{{alice, true}, {bob, false}, {remoteAlice, true}, {remoteBob, false}, {admin, true}, {deploy.Asker{}, true}} {
		f := newFabric(t, 1)
		f.attachTo(0, "app/0", "alice")
		err := f.guard(c.by, deploy.Options{Start: true, Guards: "app/0", Trigger: 1})
		if c.may && err != nil || !c.may && (!errors.Is(err, ctl.ErrRefused) || !strings.Contains(err.Error(), "role admin")) {
			t.Errorf("%v guards a process of alice: %v; it may: %v", c.by, err, c.may)
		}
		if err := f.engines[0].Programs().Audit(); err != nil {
			t.Error(err)
		}
	}
}

// A user who may load programs neither replaces nor unloads the guard of another user's process.
func TestNoOtherUserTakesAGuardAway(t *testing.T) {
	alice, bob := deploy.Asker{UID: 1, User: "alice"}, deploy.Asker{UID: 2, User: "bob"}
	for _, there := range []bool{true, false} {
		f := newFabric(t, 1)
		if there {
			f.attachTo(0, "app/0", "alice")
		}
		if err := f.guard(alice, deploy.Options{ID: 5, Start: true, Guards: "app/0", Trigger: 1}); err != nil {
			t.Fatal(err)
		}
		for what, o := range map[string]deploy.Options{"inherited": {ID: 5, Replace: true}, "for another process": {ID: 5, Replace: true, Guards: "app/1", Trigger: 1}} {
			if err := f.guard(bob, o); !errors.Is(err, ctl.ErrRefused) {
				t.Errorf("a guard is replaced by bob, %s, the process there: %v: %v", what, there, err)
			}
		}
		for _, r := range []ctl.Program{{ID: 5}, {Name: "counting"}} {
			r.Do = ctl.ProgramUnload
			if _, err := f.sites[0].Answer(bob, &r); !errors.Is(err, ctl.ErrRefused) {
				t.Errorf("bob unloads a guard as %d %q, the process there: %v: %v", r.ID, r.Name, there, err)
			}
		}
		if _, err := f.sites[0].Answer(alice, &ctl.Program{Do: ctl.ProgramUnload, ID: 5}); err != nil {
			t.Errorf("its owner unloads it: %v", err)
		}
	}
}

// guard makes an asker load a program that may guard.
func (f *fabric) guard(by deploy.Asker, o deploy.Options) error {
	f.t.Helper()
	f.by = by
	defer func() { f.by = deploy.Asker{} }()
	_, err := f.client.Load(f.t.Context(), f.all(), compiled(f.t, fmt.Sprintf(counting, 0)), o)
	return err
}
