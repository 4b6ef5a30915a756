package daemon

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
)

var alice, root = deploy.Asker{UID: 1001, User: "alice"}, deploy.Asker{User: "root"}

// kept returns the machines of a new directory, and the directory.
func kept(t *testing.T) (m *machines, dir string) {
	t.Helper()
	dir = t.TempDir()
	m, err := openMachines(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m, dir
}

func TestAMachineThatRootChangesStaysItsCreators(t *testing.T) {
	m, _ := kept(t)
	for i, by := range []deploy.Asker{alice, root, alice} {
		if err := m.set(by, ctl.Machine{Name: "m", Slots: i}); err != nil {
			t.Fatalf("%s sets it: %v", by.User, err)
		}
		if one, err := m.get("m"); err != nil || one.User != alice.User || one.Slots != i {
			t.Errorf("set by %s: %+v, %v; expected %d slots and user %s", by.User, one, err, i, alice.User)
		}
	}
	if err := m.delete(alice, "m", nil); err != nil {
		t.Errorf("its creator deletes it: %v", err)
	}
}

// The next daemon knows only the file.
func TestAMachineThatCannotBeWrittenIsAsItWas(t *testing.T) {
	m, dir := kept(t)
	if err := m.set(alice, ctl.Machine{Name: "old", Slots: 1}); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(m.list())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a new machine":    m.set(alice, ctl.Machine{Name: "new", Slots: 2}),
		"a changed one":    m.set(alice, ctl.Machine{Name: "old", Slots: 2}),
		"one that is gone": m.delete(alice, "old", nil),
	} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s without a directory: %v; expected %v", what, err, os.ErrNotExist)
		}
	}
	if after := fmt.Sprint(m.list()); after != before {
		t.Errorf("the machines are %s; expected %s", after, before)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.set(alice, ctl.Machine{Name: "new", Slots: 2}); err != nil {
		t.Errorf("when there is a directory again: %v", err)
	}
}
