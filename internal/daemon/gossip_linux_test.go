package daemon_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/testenv"
)

// gossiping returns the configurations of n daemons without a list of nodes. The gossip address
// of the first is the seed address of all.
func gossiping(t *testing.T, n int) []daemon.Config {
	t.Helper()
	seed := testenv.Loopback(t)
	all := configs(t, n)
	for i := range all {
		// the default, so that the failure timeout may also be the default
		all[i].Nodes, all[i].UnreachableAfter = nil, 0
		all[i].Gossip = &daemon.Gossip{Listen: "127.0.0.1:0", Seeds: []string{seed}}
	}
	all[0].Gossip.Listen = seed
	return all
}

// namesAt returns the names that a daemon lists, reachable or not.
func namesAt(t *testing.T, c daemon.Config) (names []string) {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l, err := conn.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range l {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// lists waits until a daemon lists these names and no others.
func lists(t *testing.T, c daemon.Config, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if got = namesAt(t, c); slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s lists %v, want %v", c.Socket, got, want)
		}
	}
}

func TestDaemonsFindOneAnotherByGossipFromOneSeed(t *testing.T) {
	c := gossiping(t, 3)
	c[2].Static = true // a NIC that gossips is known well enough
	daemons := make([]*exec.Cmd, len(c))
	for i := range c {
		daemons[i] = child(t, "daemon", marshal(t, c[i]))
	}
	p := make([]*weft.Process, len(c))
	name := []string{"p/0", "p/1", "p/2"}
	for i := range c {
		p[i] = mustAttach(t, c[i], name[i])
	}
	for i := range c {
		lists(t, c[i], name...)
	}
	exchange(t, p[0], p[1], 1)
	exchange(t, p[1], p[2], 2)

	t.Run("a name that is registered on one resolves on the others within 1 s", func(t *testing.T) {
		mustAttach(t, c[1], "late/0")
		watch := startWatch(t)
		for _, other := range []int{0, 2} {
			wait(t, p[other], "late/0")
		}
		watch.within(t, "it resolves", time.Second)
	})
	lists(t, c[0], name...) // the late process has ended with its test

	outer := t // a process that comes back outlives its subtest
	for i, who := range []string{"the seed", "another"} {
		t.Run("the names of a killed daemon vanish everywhere and come back: "+who, func(t *testing.T) {
			watch := startWatch(t)
			if err := daemons[i].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			rest := slices.Delete(slices.Clone(name), i, i+1)
			for j := range c {
				if j != i {
					lists(t, c[j], rest...)
				}
			}
			watch.within(t, "they have vanished", limits.FailureTimeout)
			for j := range c {
				if j != i {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					if err := p[j].Send(ctx, p[i].Name(), 1, []byte("anybody?")); !errors.Is(err, weft.ErrNameUnknown) {
						t.Errorf("a send of %s to a vanished name: %v", name[j], err)
					}
					cancel()
				}
			}
			p[i].Close()
			daemons[i].Wait()
			watch = startWatch(t)
			daemons[i] = child(outer, "daemon", marshal(t, c[i]))
			p[i] = mustAttach(outer, c[i], name[i])
			for j := range c {
				lists(t, c[j], name...)
			}
			watch.within(t, "they are back", 6*limits.GossipRejoinEvery)
		})
		exchange(t, p[i], p[2], weft.Tag(10+i))
		exchange(t, p[2], p[i], weft.Tag(20+i))
	}
}

func TestADaemonThatEndsInOrderLeavesTheGossipAtOnce(t *testing.T) {
	c := gossiping(t, 2)
	for i := range c {
		// so that a NIC that leaves is not found gone by its silence
		c[i].Gossip.FailureTimeout = daemon.Duration(time.Hour)
	}
	log := run(t, c[0])
	other := child(t, "daemon", marshal(t, c[1]))
	mustAttach(t, c[0], "near/0")
	mustAttach(t, c[1], "far/0")
	lists(t, c[0], "far/0", "near/0")
	says(t, log, "node is known", c[1].Listen)
	conn, err := ctl.Dial(t.Context(), c[1].Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	lists(t, c[0], "near/0")
	says(t, log, "node is gone", c[1].Listen)
	if err := ends(t, "the daemon", start(other.Wait)); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

func TestASecondDaemonWithAKnownIDStaysAlone(t *testing.T) { // decision 1
	c := gossiping(t, 3)
	id := copyKey(t, c[1], c[2])
	log := run(t, c[0], c[1])
	near := mustAttach(t, c[0], "near/0")
	first := mustAttach(t, c[1], "first/0")
	says(t, log, "node is known", id+" at "+c[1].Listen)
	second := run(t, c[2])
	mustAttach(t, c[2], "second/0")
	says(t, second, "level=ERROR", "nic="+id, "here="+c[2].Listen, "there="+c[1].Listen)
	says(t, log, "level=WARN", "nic="+id, "first="+c[1].Listen, "second="+c[2].Listen)
	exchange(t, near, first, 1)
	exchange(t, first, near, 2)
	lists(t, c[0], "first/0", "near/0")
	lists(t, c[1], "first/0", "near/0")
	lists(t, c[2], "second/0")
}

func TestOfTwoDaemonsThatStartWithOneIDOneStays(t *testing.T) { // decision 1
	c := gossiping(t, 3)
	id := copyKey(t, c[1], c[2])
	log := run(t, c...)
	near := mustAttach(t, c[0], "near/0")
	p := []*weft.Process{mustAttach(t, c[1], "p/1"), mustAttach(t, c[2], "p/2")}
	says(t, log, "level=ERROR", "nic="+id) // one of them
	var names []string
	for end := time.Now().Add(patience); len(names) != 2 || names[0] != "near/0"; time.Sleep(10 * time.Millisecond) {
		if names = namesAt(t, c[0]); time.Now().After(end) {
			t.Fatalf("there are %v", names)
		}
	}
	i := slices.IndexFunc(p, func(p *weft.Process) bool { return p.Name().String() == names[1] })
	exchange(t, near, p[i], 1)
	exchange(t, p[i], near, 2)
	lists(t, c[1+i], names...)
	lists(t, c[2-i], p[1-i].Name().String())
}

// says waits until one line of a log has all of parts.
func says(t *testing.T, log *logWriter, parts ...string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		for line := range strings.Lines(log.String()) {
			if !slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(line, s) }) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("no line of the log has %q", parts)
		}
	}
}
