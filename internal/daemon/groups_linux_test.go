package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/vni"
)

const (
	teamSize      = 8
	teamBroadcast = 200_000 // bytes; two of them are staged for a stopped member
	teamRounds    = 5
)

func init() {
	// NAME at SOCKET, in the team. It stops itself once it is a member, and goes on when it is
	// continued.
	roles["member"] = func(arg string) error {
		name, socket, _ := cutAt(arg)
		p, err := attach(context.Background(), socket, name)
		if err != nil {
			return err
		}
		g, err := p.Join(context.Background(), "team", teamSize)
		if err != nil {
			return err
		}
		if err := g.Barrier(context.Background()); err != nil {
			return err
		}
		fmt.Println("ready")
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		for k := range teamRounds {
			if err := received(context.Background(), g, k); err != nil {
				return err
			}
		}
		return nil
	}
}

// received takes part in the k-th broadcast of the team, and checks the bytes.
func received(ctx context.Context, g *weft.Group, k int) error {
	buf := make([]byte, teamBroadcast)
	if err := g.Broadcast(ctx, 0, buf); err != nil || !bytes.Equal(buf, payload(uint64(k), teamBroadcast)) {
		return fmt.Errorf("broadcast %d at member %d: other bytes, or %w", k, g.Rank(), err)
	}
	return nil
}

func cutAt(s string) (name, socket string, ok bool) {
	b, a, ok := bytes.Cut([]byte(s), []byte(" at "))
	return string(b), string(a), ok
}

// Attached processes stage their broadcasts and reductions, and a stopped one in the middle of
// the tree delays no member below it: of eight members on four hosts, 4 has 5 and 6 below it, and
// 6 has 7. When the stopped member goes on, it fetches from the root what its NIC had no room
// for, and only the root waits for that.
func TestAttachedMembersAreServedPastOneThatIsStopped(t *testing.T) {
	const stopped = 4
	c := configs(t, 4)
	run(t, c...)
	var groups [teamSize]*weft.Group
	var procs [teamSize]*weft.Process
	var joins []<-chan error
	for i := range teamSize {
		if i == stopped {
			continue
		}
		p := mustAttach(t, c[i%len(c)], fmt.Sprintf("m/%d", i))
		procs[i] = p
		joins = append(joins, start(func() (err error) {
			if groups[i], err = p.Join(t.Context(), "team", teamSize); err != nil {
				return err
			}
			return groups[i].Barrier(t.Context())
		}))
	}
	member := child(t, "member", fmt.Sprintf("m/%d at %s", stopped, c[stopped%len(c)].Socket))
	for _, j := range joins {
		if err := ends(t, "join", j); err != nil {
			t.Fatal(err)
		}
	}
	listsGroups(t, c[1], procs[3])

	root := start(func() error {
		for k := range teamRounds {
			if err := groups[0].Broadcast(t.Context(), 0, payload(uint64(k), teamBroadcast)); err != nil {
				return err
			}
		}
		return nil
	})
	// The third passes although there is no room for the stopped member; then the root waits.
	const before = 3
	each := func(from, to int) {
		t.Helper()
		var served []<-chan error
		for i, g := range groups {
			if i == 0 || i == stopped {
				continue
			}
			served = append(served, start(func() error {
				for k := from; k < to; k++ {
					if err := received(t.Context(), g, k); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, s := range served {
			if err := ends(t, "broadcasts past the stopped member", s); err != nil {
				t.Error(err)
			}
		}
	}
	each(0, before)
	select {
	case err := <-root:
		t.Fatalf("the root has done more than its members: %v", err)
	default:
	}
	for deadline := time.Now().Add(patience); counted(t, c[stopped%len(c)], vni.NICCollectivesLate) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) { // counts are published at intervals
			t.Fatal("nothing is to be fetched; the test shows too little")
		}
	}
	if err := member.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	each(before, teamRounds)
	if err := ends(t, "root", root); err != nil {
		t.Errorf("the root: %v", err)
	}
	if err := ends(t, "the stopped member", start(member.Wait)); err != nil {
		t.Errorf("the stopped member: %v", err)
	}
}

// listsGroups checks the output of weft groups: the application's group, to which all processes
// belong anyway, and the group that they have joined. A process is told the same.
func listsGroups(t *testing.T, c daemon.Config, p *weft.Process) {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	members, err := conn.NIC(0).Groups(t.Context())
	if err != nil || len(members) != 2*teamSize {
		t.Fatalf("groups %+v, %v", members, err)
	}
	for i, m := range members {
		group, state := "m", "application"
		if i >= teamSize {
			group, state = "team", "complete"
		}
		if m.Group != group || m.State != state || m.Size != teamSize || m.Name != fmt.Sprintf("m/%d", i%teamSize) {
			t.Errorf("line %d: %+v", i, m)
		}
	}
	names, err := p.AppGroup(t.Context())
	if err != nil || len(names) != teamSize || names[teamSize-1].String() != "m/7" {
		t.Errorf("the application's group is %v, %v", names, err)
	}
}

// counted returns a counter of a daemon.
func counted(t *testing.T, c daemon.Config, n vni.Counter) uint64 {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, b, unmap, err := conn.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	page, err := vni.OpenCounterPage(b)
	if err != nil {
		t.Fatal(err)
	}
	return page.Load(n)
}

// One file with the torus and all positions is enough for every host (QNIX-52): each NIC finds
// its own position in it, and tells the others.
func TestNICsFindTheirPositionsInTheSharedFile(t *testing.T) {
	c := configs(t, 3)
	text := "torus = [3, 1]\n"
	for i := range c {
		text += fmt.Sprintf("[[node]]\naddress = %q\nposition = [%d, 0]\n", c[i].Listen, i)
		c[i].Nodes = nil
	}
	path := filepath.Join(t.TempDir(), "fabric.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range c {
		c[i].Registry = path
	}
	run(t, c...)
	for i := range c {
		conn, err := ctl.Dial(t.Context(), c[i].Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		nodes, err := conn.Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Fatalf("nodes %+v, %v", nodes, err)
		}
		for _, n := range nodes {
			k := slices.IndexFunc(c, func(c daemon.Config) bool { return c.Listen == n.Address })
			if !slices.Equal(n.Position, []int{k, 0}) {
				t.Errorf("NIC %d has %s at %v; expected %d, 0", i, n.Address, n.Position, k)
			}
		}
	}
	joins := make([]<-chan error, len(c))
	for i := range c {
		p := mustAttach(t, c[i], fmt.Sprintf("m/%d", i))
		joins[i] = start(func() error {
			g, err := p.Join(t.Context(), "torus", len(c))
			if err != nil {
				return err
			}
			v := []int64{int64(i)}
			if err := weft.AllReduce(t.Context(), g, weft.Sum, v); err != nil || v[0] != 3 {
				return fmt.Errorf("sum %d: %w", v[0], err)
			}
			return g.Close()
		})
	}
	for _, j := range joins {
		if err := ends(t, "a member", j); err != nil {
			t.Error(err)
		}
	}
}

// A long collective has several pieces in flight. Each has a context until the waiting process
// has ended it.
func TestALongCollectiveNeedsNoMoreContextsThanThereAre(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	const members = 3
	for contexts := 1; contexts <= 2; contexts++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := atOnce(members, members, func(i int) error {
			p, err := weft.Attach(ctx, weft.AttachConfig{Socket: c.Socket, Name: weft.Name{App: fmt.Sprint("few.", contexts), Index: uint32(i)},
				Geometry: weft.Geometry{Commands: 32, Contexts: contexts, PoolPages: 1}, Groups: []weft.Membership{{Size: members}}})
			if err != nil {
				return err
			}
			defer p.Close()
			g := p.Group("")
			short, long := make([]int64, 20_000), make([]int64, 40_000) // in pieces, and in parts
			return errors.Join(g.Broadcast(ctx, 1, make([]byte, 1<<20)), weft.AllReduce(ctx, g, weft.Sum, short), weft.AllReduce(ctx, g, weft.Sum, long), g.Barrier(ctx))
		}); err != nil {
			t.Errorf("with %d contexts: %v", contexts, err)
		}
	}
}
