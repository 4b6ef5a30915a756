package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

// dialTool connects to a daemon as tools do.
func dialTool(t *testing.T, c daemon.Config) *ctl.Conn {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// idOf returns the id of a daemon's NIC.
func idOf(t *testing.T, conn *ctl.Conn) uint64 {
	t.Helper()
	info, _, unmap, err := conn.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := unmap(); err != nil {
		t.Fatal(err)
	}
	return info.NIC
}

func TestToolsLookAtOtherNICsByWayOfTheirOwn(t *testing.T) { // decision 1
	c := configs(t, 2)
	grant(t, c, "observe")
	run(t, c...)
	a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
	wait(t, a, "b/0")
	wait(t, b, "a/0")
	conn, there := dialTool(t, c[0]), dialTool(t, c[1])
	far := conn.NIC(idOf(t, there))
	info, counters, err := far.Counters(t.Context())
	if err != nil || info.NIC != idOf(t, there) || info.Address != c[1].Listen || info.PID != os.Getpid() || len(counters) != len(vni.Names()) {
		t.Errorf("stat: %+v, %d counters, %v", info, len(counters), err)
	}
	for end := time.Now().Add(patience); counters["nic_registrations"] != 1 || counters["nic_processes_now"] != 1 || counters["link_frames_in"] == 0; {
		if time.Now().After(end) { // counts are published at intervals
			t.Fatalf("counters of the other NIC: %v", counters)
		}
		if _, counters, err = far.Counters(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if ps, err := far.Processes(t.Context()); err != nil || len(ps) != 1 || ps[0].Name != "b/0" {
		t.Errorf("processes: %v, %v", ps, err)
	}
	if nodes, err := far.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].Address != c[0].Listen {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
	if names, err := far.Names(t.Context()); err != nil || len(names) != 2 {
		t.Errorf("names: %v, %v", names, err)
	}
	own := conn.NIC(idOf(t, conn))
	if ps, err := own.Processes(t.Context()); err != nil || len(ps) != 1 || ps[0].Name != "a/0" {
		t.Errorf("one's own NIC by its id: %v, %v", ps, err)
	}
}

func TestListsOfOtherNICsComeInPages(t *testing.T) {
	const many = 131 // more than fit in ListBytes, at some 400 bytes each
	c := configs(t, 2)
	grant(t, c, "observe")
	c[1].MaxProcesses = many + 7
	run(t, c...)
	first := mustAttach(t, c[0], "a/0")
	for i := range many {
		g := &ctl.Geometry{Commands: 64, Contexts: 8, Descriptors: 1, PoolPages: 1}
		if _, err := dialTool(t, c[1]).Attach(t.Context(), fmt.Sprintf("many/%d", i), g); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, first, fmt.Sprintf("many/%d", many-1))
	ps, err := dialTool(t, c[0]).NIC(idOf(t, dialTool(t, c[1]))).Processes(t.Context())
	if err != nil || len(ps) != many {
		t.Errorf("%d processes of %d, %v", len(ps), many, err)
	}
}

func TestANICThatIsNotKnownOrNotThereIsNamed(t *testing.T) {
	c := configs(t, 2)
	grant(t, c, "observe")
	run(t, c[0])
	peer := child(t, "daemon", marshal(t, c[1]))
	conn, there := dialTool(t, c[0]), dialTool(t, c[1])
	id := idOf(t, there)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, _, err := conn.NIC(id).Counters(t.Context()); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the other process's NIC does not answer:", err)
		}
	}
	if _, err := conn.NIC(77).Nodes(t.Context()); !errors.Is(err, ctl.ErrNoNIC) || !strings.Contains(err.Error(), "0:0:0:0:0:0:0:77") {
		t.Errorf("a NIC that is not known: %v", err)
	}
	peer.Process.Kill()
	peer.Wait()
	watch := startWatch(t)
	_, err := conn.NIC(id).Nodes(t.Context())
	watch.within(t, "a NIC that was killed has not answered", 4500*time.Millisecond)
	if !errors.Is(err, ctl.ErrNoAnswer) || !strings.Contains(err.Error(), registry.NICID(id).String()) {
		t.Errorf("a NIC that was killed: %v", err)
	}
}

func TestSlot0AnswersNICsAndNotProcessesAndOutlivesNonsense(t *testing.T) {
	c := configs(t, 2)
	grant(t, c, "observe")
	run(t, c...)
	a := mustAttach(t, c[0], "a/0")
	mustAttach(t, c[1], "b/0")
	wait(t, a, "b/0")
	conn, there := dialTool(t, c[0]), dialTool(t, c[1])
	if _, err := a.Peer(weft.Name{App: "nic"}).Call(t.Context(), 0, []byte(`{"version":1,"op":"stat"}`), make([]byte, 100)); err == nil {
		t.Error("slot 0 goes by a name")
	}
	half := rawProcess(t, c[0], "raw/0")
	slot0 := proc.Dest{NIC: idOf(t, there), Gen: nic.ControlGeneration}
	reply := make([]byte, 4096)
	for _, request := range []string{`{"version":1,"op":"stat"}`, "", "nonsense", strings.Repeat("x", 100_000)} {
		m, err := half.Call(t.Context(), slot0, 0, reply, []byte(request))
		if err != nil || !strings.Contains(string(reply[:m.Len]), `"error"`) {
			t.Errorf("%.30q of a process was answered with %s, %v", request, reply[:m.Len], err)
		}
		// no receive waits for an answer
		if err := half.Send(t.Context(), slot0, 0, []byte(request)); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	for range 20 { // more concurrent requests than servers
		all.Go(func() {
			if _, err := dialTool(t, c[0]).NIC(idOf(t, there)).Names(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := conn.NIC(idOf(t, there)).Check(t.Context()); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("what does more than look was asked of another NIC: %v", err)
	}
}

// rawProcess returns a process half that can name slot 0. weft.Process cannot.
func rawProcess(t *testing.T, c daemon.Config, name string) *proc.Process {
	t.Helper()
	a, err := dialTool(t, c).Attach(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	seg, err := vni.OpenSegment(a.RW, a.RO)
	if err != nil {
		t.Fatal(err)
	}
	half := seg.Process()
	p, err := proc.New(seg, a.Waiter(ctl.Hooks{Listening: half.Listening, Sleeping: half.SetSleeping}), nil, proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEveryNodeIsCheckedInBothSizes(t *testing.T) { // USNIC-61
	c := configs(t, 3)
	c[0].UnreachableAfter = daemon.Duration(time.Second) // before the check itself gives up
	run(t, c[0], c[1])
	conn := dialTool(t, c[0])
	watch := startWatch(t)
	got, err := conn.NIC(0).Check(t.Context())
	watch.within(t, "all are checked", 4*time.Second)
	if err != nil || len(got) != 2 {
		t.Fatalf("check: %v, %v", got, err)
	}
	for _, k := range got {
		if k.Address == c[1].Listen && !k.OK {
			t.Errorf("the NIC that lives: %+v", k)
		}
		if k.Address == c[2].Listen && (k.OK || !strings.Contains(k.Text, "neither small frames nor large ones")) {
			t.Errorf("the NIC that does not: %+v", k)
		}
	}
}

func TestAnIdleDaemonWithAControlProcessCostsNoProcessor(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	conn := dialTool(t, c[0])
	polls := func() uint64 {
		_, mem, unmap, err := conn.Stat(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer unmap()
		page, err := vni.OpenCounterPage(mem)
		if err != nil {
			t.Fatal(err)
		}
		return page.Load(vni.NICPolls)
	}
	var n uint64
	// it may take some time to become idle
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := polls()
		time.Sleep(300 * time.Millisecond)
		if n = polls() - before; n <= 5000 {
			return
		}
	}
	t.Errorf("%d polls in 300 ms of nothing", n)
}
