package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
)

// If a daemon took a bad file for an empty one, it would lose all machines at the next change.
func TestAFileOfMachinesThatCannotBeReadKeepsTheDaemonFromStarting(t *testing.T) {
	for text, want := range map[string]string{
		"{":                            "move the file away",
		`{"version":2,"machines":[]}`:  "has version 2; expected 1",
		`{"machines":[{"name":"m"}]}`:  "has version 0; expected 1",
		`{"version":1,"machines":"m"}`: "move the file away",
	} {
		dir := t.TempDir()
		writeText(t, filepath.Join(dir, "machines.json"), text)
		if m, err := openMachines(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; expected %q", text, m, err, want)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "machines.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if m, err := openMachines(dir); err == nil {
		t.Errorf("a directory in place of the file: %+v", m)
	}
}

func TestTheMachinesOfAUserAndOfAllAreBounded(t *testing.T) {
	m, _ := kept(t)
	add := func(user string, n int) {
		for i := range n {
			name := fmt.Sprint(user, i)
			m.all[name] = ctl.Machine{Name: name, User: user}
		}
	}
	add("alice", limits.MachinesPerUser-1)
	if err := m.set(alice, ctl.Machine{Name: "last"}); err != nil {
		t.Errorf("the last machine of a user: %v", err)
	}
	if err := m.set(alice, ctl.Machine{Name: "more"}); !errors.Is(err, ctl.ErrRefused) {
		t.Errorf("one machine more: %v", err)
	}
	if err := m.set(alice, ctl.Machine{Name: "last", Slots: 2}); err != nil {
		t.Errorf("a change: %v", err)
	}
	for u := 0; len(m.all) < limits.Machines-1; u++ {
		add(fmt.Sprint("u", u, "-"), min(50, limits.Machines-1-len(m.all)))
	}
	if err := m.set(root, ctl.Machine{Name: "root's"}); err != nil {
		t.Errorf("the last machine of all: %v", err)
	}
	if err := m.set(deploy.Asker{UID: 5, User: "eve"}, ctl.Machine{Name: "eve's"}); !errors.Is(err, ctl.ErrRefused) {
		t.Errorf("one machine more of all: %v", err)
	}
}

func TestOnlyItsCreatorAndRootChangeAMachineThatNoJobUses(t *testing.T) {
	m, dir := kept(t)
	eve := deploy.Asker{UID: 5, User: "eve"}
	if err := m.set(alice, ctl.Machine{Name: "m", Slots: 1}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ err, want error }{
		"another user changes it": {m.set(eve, ctl.Machine{Name: "m", Slots: 2}), ctl.ErrRefused},
		"another user deletes it": {m.delete(eve, "m", nil), ctl.ErrRefused},
		"a job uses it":           {m.delete(alice, "m", []string{"job-1"}), ctl.ErrInUse},
		"no such machine":         {m.delete(alice, "n", nil), ctl.ErrNoMachine},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v; expected %v", what, c.err, c.want)
		}
	}
	if again, err := openMachines(dir); err != nil || len(again.list()) != 1 || again.list()[0].Slots != 1 {
		t.Errorf("the next daemon has %+v, %v", again, err)
	}
	if err := m.delete(root, "m", nil); err != nil {
		t.Errorf("root deletes it: %v", err)
	}
	if again, err := openMachines(dir); err != nil || len(again.list()) != 0 {
		t.Errorf("the next daemon has %+v, %v", again, err)
	}
}

func TestTheNodesOfAMachineAreFoundByNameOrNIC(t *testing.T) {
	d := newBench(t).d
	own := d.host()
	whole := ctl.MachineNode{Name: own, NIC: d.id}
	far := ctl.MachineNode{NIC: 99}
	for _, c := range []struct {
		nodes, want []ctl.MachineNode
		err         error
	}{
		{[]ctl.MachineNode{{Name: own}}, []ctl.MachineNode{whole}, nil},
		{[]ctl.MachineNode{{Name: strings.ToUpper(own)}}, []ctl.MachineNode{{Name: strings.ToUpper(own), NIC: d.id}}, nil},
		{[]ctl.MachineNode{{NIC: d.id}, far}, []ctl.MachineNode{whole, far}, nil},
		{[]ctl.MachineNode{{Name: "other", NIC: 98}}, []ctl.MachineNode{{Name: "other", NIC: 98}}, nil},
		{nil, nil, ctl.ErrBadRequest},
		{[]ctl.MachineNode{{Name: own}, {NIC: d.id}}, nil, ctl.ErrBadRequest},
		{[]ctl.MachineNode{far, far}, nil, ctl.ErrBadRequest},
		{[]ctl.MachineNode{{Name: "nowhere"}, {Name: own}}, nil, ctl.ErrNoNIC},
	} {
		asked := slices.Clone(c.nodes)
		m, err := d.resolve(ctl.Machine{Name: "m", Nodes: c.nodes})
		if !errors.Is(err, c.err) || err == nil && !slices.Equal(m.Nodes, c.want) {
			t.Errorf("%+v: %+v, %v; expected %+v, %v", c.nodes, m.Nodes, err, c.want, c.err)
		}
		if !slices.Equal(c.nodes, asked) {
			t.Errorf("the request is changed: %+v", c.nodes)
		}
	}
	var unknown []ctl.MachineNode
	for i := range 40 {
		unknown = append(unknown, ctl.MachineNode{Name: fmt.Sprintf("nowhere-%d", i)})
	}
	if _, err := d.resolve(ctl.Machine{Name: "m", Nodes: unknown}); err == nil || strings.Count(err.Error(), "nowhere-") != mostUnknown {
		t.Errorf("%v; expected %d of the names", err, mostUnknown)
	}
}
