package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// machine sends a daemon a request about machines.
func machine(t *testing.T, c *ctl.Conn, what string, m ctl.Machine) (*ctl.JobReply, error) {
	t.Helper()
	return c.NIC(0).Job(t.Context(), &ctl.Job{What: what, Machine: &m})
}

// runUntil runs one daemon until stop is called.
func runUntil(t *testing.T, c daemon.Config) (stop func()) {
	t.Helper()
	d, err := daemon.New(c, &logWriter{t: t})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := start(func() error { return d.Run(ctx) })
	return func() {
		cancel()
		if err := ends(t, "the daemon", ended); err != nil {
			t.Error(err)
		}
	}
}

func TestADaemonKeepsMachinesFromOneLifeToTheNext(t *testing.T) {
	c := configs(t, 1)[0]
	stop := runUntil(t, c)
	conn := dialTool(t, c)
	nodes := []ctl.MachineNode{{NIC: registry.NICID(idOf(t, conn))}, {Name: "b", NIC: 7}}
	r, err := machine(t, conn, ctl.JobMachineSet, ctl.Machine{Name: "m", Nodes: nodes, Slots: 2, User: "somebody else"})
	if err != nil || len(r.Machines) != 1 || r.Machines[0].User != me() || r.Machines[0].Nodes[0].Name == "" {
		t.Fatalf("set: %+v, %v", r, err)
	}
	if _, err := machine(t, conn, ctl.JobMachineSet, ctl.Machine{Name: "gone", Nodes: nodes[:1]}); err != nil {
		t.Fatal(err)
	}
	if _, err := machine(t, conn, ctl.JobMachineDelete, ctl.Machine{Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	stop()
	defer runUntil(t, c)()
	conn = dialTool(t, c)
	all, err := conn.NIC(0).Machines(t.Context())
	if err != nil || fmt.Sprint(all) != fmt.Sprint(r.Machines) {
		t.Errorf("machines %v, %v; want %v", all, err, r.Machines)
	}
	if _, err := machine(t, conn, ctl.JobMachineGet, ctl.Machine{Name: "gone"}); !errors.Is(err, ctl.ErrNoMachine) {
		t.Errorf("a machine that was deleted: %v", err)
	}
}

func TestAMachineInUseIsNotDeleted(t *testing.T) {
	c := withSlots(t, 1, 2, "starts")
	run(t, c...)
	l := launch(t, c[0])
	m := ctl.Machine{Name: "m", Nodes: []ctl.MachineNode{{NIC: l.launcher.NIC}}}
	if _, err := machine(t, l.conn, ctl.JobMachineSet, m); err != nil {
		t.Fatal(err)
	}
	if r := l.reserve(t, 0, l.wants(1, func(r *ctl.Reserve) { r.Machine = "m" })); !r.Ready {
		t.Fatalf("reply %+v", r)
	}
	if _, err := machine(t, l.conn, ctl.JobMachineDelete, m); !errors.Is(err, ctl.ErrInUse) || !strings.Contains(err.Error(), aJob) {
		t.Errorf("delete: %v", err)
	}
	m.Slots = 2 // for the next job
	if _, err := machine(t, l.conn, ctl.JobMachineSet, m); err != nil {
		t.Errorf("set: %v", err)
	}
}

func TestNodesThatAreNotKnownAreAllNamed(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	conn := dialTool(t, c)
	own := ctl.MachineNode{NIC: registry.NICID(idOf(t, conn))}
	_, err := machine(t, conn, ctl.JobMachineSet, ctl.Machine{Name: "m", Nodes: []ctl.MachineNode{{Name: "x1"}, own, {Name: "x2"}}})
	if !errors.Is(err, ctl.ErrNoNIC) || !strings.Contains(err.Error(), "x1, x2") {
		t.Errorf("names that are not known: %v", err)
	}
	if _, err := machine(t, conn, ctl.JobMachineSet, ctl.Machine{Name: "m", Nodes: []ctl.MachineNode{own, own}}); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("a node twice: %v", err)
	}
	for _, bad := range []string{"", "../m", "-m", strings.Repeat("m", 65), "a b"} {
		if _, err := machine(t, dialTool(t, c), ctl.JobMachineSet, ctl.Machine{Name: bad, Nodes: []ctl.MachineNode{own}}); !errors.Is(err, ctl.ErrBadRequest) {
			t.Errorf("machine %q: %v", bad, err)
		}
	}
	if all, err := conn.NIC(0).Machines(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("machines %v, %v", all, err)
	}
}

func TestMachinesOfOneUserAreBounded(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	conn := dialTool(t, c)
	nodes := make([]ctl.MachineNode, limits.MachineNodes)
	for i := range nodes {
		nodes[i].NIC = registry.NICID(1<<60 + i)
	}
	for i := range limits.MachinesPerUser {
		if _, err := machine(t, conn, ctl.JobMachineSet, ctl.Machine{Name: fmt.Sprint("m", i), Nodes: nodes}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := machine(t, conn, ctl.JobMachineSet, ctl.Machine{Name: "one-more", Nodes: nodes}); !errors.Is(err, ctl.ErrRefused) {
		t.Errorf("one more: %v", err)
	}
	all, err := conn.NIC(0).Machines(t.Context())
	if err != nil || len(all) != limits.MachinesPerUser || len(all[9].Nodes) != limits.MachineNodes {
		t.Errorf("%d machines, %v", len(all), err)
	}
	nodes = append(nodes, ctl.MachineNode{NIC: 5})
	if _, err := machine(t, dialTool(t, c), ctl.JobMachineSet, ctl.Machine{Name: "m0", Nodes: nodes}); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("too many nodes: %v", err)
	}
}

func TestOnlyItsCreatorAndRootChangeAMachine(t *testing.T) {
	c := configs(t, 1)[0]
	c.Socket, c.AllowUIDs = filepath.Join(dirForAll(t), "0.sock"), []int{outsiderUID}
	run(t, c)
	conn := dialTool(t, c)
	m := ctl.Machine{Name: "roots", Nodes: []ctl.MachineNode{{NIC: registry.NICID(idOf(t, conn))}}}
	if _, err := machine(t, conn, ctl.JobMachineSet, m); err != nil {
		t.Fatal(err)
	}
	if out := outsiderSays(t, "machinist="+c.Socket); !strings.Contains(out, `reads "root"`) || strings.Count(out, "only that user and root may change it") != 2 ||
		!strings.Contains(out, `its own is of "nobody"`) {
		t.Errorf("the outsider: %s", out)
	}
	if _, err := machine(t, conn, ctl.JobMachineDelete, ctl.Machine{Name: "own"}); err != nil {
		t.Errorf("root deletes a user's machine: %v", err)
	}
}

func init() {
	roles["machinist"] = func(socket string) error {
		ctx := context.Background()
		conn, err := ctl.Dial(ctx, socket)
		if err != nil {
			return err
		}
		ask := func(what string, m ctl.Machine) (*ctl.JobReply, error) {
			return conn.NIC(0).Job(ctx, &ctl.Job{What: what, User: "root", Machine: &m})
		}
		r, err := ask(ctl.JobMachineGet, ctl.Machine{Name: "roots"})
		if err != nil {
			return err
		}
		fmt.Printf("reads %q\n", r.Machines[0].User)
		m := r.Machines[0]
		_, err = ask(ctl.JobMachineSet, m)
		fmt.Println("set:", err)
		_, err = ask(ctl.JobMachineDelete, m)
		fmt.Println("delete:", err)
		m.Name, m.User = "own", "root"
		if r, err = ask(ctl.JobMachineSet, m); err != nil {
			return err
		}
		fmt.Printf("its own is of %q\n", r.Machines[0].User)
		return nil
	}
}

func TestADamagedMachinesFileIsNamed(t *testing.T) {
	c := configs(t, 1)[0]
	stop := runUntil(t, c)
	stop()
	path := strings.TrimSuffix(c.Socket, ".sock") + ".state/machines.json"
	for text, want := range map[string]string{"{": path, `{"version":9}`: "version 9"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.New(c, &logWriter{t: t}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
