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
)

func init() {
	roles["member"] = func(arg string) error { // NAME at SOCKET in a group of four, that stops itself once it is a member
		name, socket, _ := cutAt(arg)
		p, err := attach(context.Background(), socket, name)
		if err != nil {
			return err
		}
		g, err := p.Join(context.Background(), "team", 4)
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
		select {}
	}
}

func cutAt(s string) (name, socket string, ok bool) {
	b, a, ok := bytes.Cut([]byte(s), []byte(" at "))
	return string(b), string(a), ok
}

// Attached processes stage what they broadcast and reduce, and one in the middle of the tree that is stopped delays
// nobody below it: member 2 of 4 has member 3 below it.
func TestAttachedMembersAreServedPastOneThatIsStopped(t *testing.T) {
	c := configs(t, 2)
	run(t, c...)
	var groups [4]*weft.Group
	var procs [4]*weft.Process
	var joins []<-chan error
	for _, i := range []int{0, 1, 3} {
		p := mustAttach(t, c[i%2], fmt.Sprintf("m/%d", i))
		procs[i] = p
		joins = append(joins, start(func() (err error) {
			if groups[i], err = p.Join(t.Context(), "team", 4); err != nil {
				return err
			}
			return groups[i].Barrier(t.Context())
		}))
	}
	child(t, "member", "m/2 at "+c[0].Socket)
	for _, j := range joins {
		if err := ends(t, "join", 10*time.Second, j); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := ctl.Dial(t.Context(), c[1].Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	members, err := conn.NIC(0).Groups(t.Context())
	// The application's group, to which all belong anyway, and the one that they have joined.
	if err != nil || len(members) != 8 || members[7].Name != "m/3" || members[4].State != "complete" || members[4].Size != 4 || members[4].Group != "team" ||
		members[3].Name != "m/3" || members[0].State != "application" || members[0].Size != 4 || members[0].Group != "m" {
		t.Errorf("groups %+v, %v", members, err)
	}
	of := func(p *weft.Process) string {
		names, err := p.AppGroup(t.Context())
		return fmt.Sprint(names, err)
	}
	if l := of(procs[3]); l != "[m/0 m/1 m/2 m/3] <nil>" {
		t.Errorf("the application's group is %s", l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	want := payload(5, 200_000)
	root := start(func() error {
		for k := range 5 { // more than is staged for the stopped one
			buf := append([]byte(nil), want[k:]...)
			if err := groups[0].Broadcast(ctx, 0, buf); err != nil {
				return err
			}
		}
		return nil
	})
	served := start(func() error {
		for k := range 2 { // the root goes on only when all NICs have it, which they have for as long as there is room
			for _, i := range []int{3, 1} {
				buf := make([]byte, len(want)-k)
				if err := groups[i].Broadcast(ctx, 0, buf); err != nil || !bytes.Equal(buf, want[k:]) {
					return fmt.Errorf("broadcast %d at member %d: equal %v, %w", k, i, bytes.Equal(buf, want[k:]), err)
				}
			}
		}
		return nil
	})
	if err := ends(t, "broadcasts past the stopped member", 10*time.Second, served); err != nil {
		t.Error(err)
	}
	cancel()
	if err := ends(t, "root", 10*time.Second, root); !errors.Is(err, context.Canceled) {
		t.Errorf("the root: %v", err)
	}
}

// One file with the torus and all positions does for every host (QNIX-52): each NIC finds its own in it, and tells the others.
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
		if err := ends(t, "a member", 10*time.Second, j); err != nil {
			t.Error(err)
		}
	}
}
