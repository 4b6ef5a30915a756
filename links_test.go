package weft_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
)

// network describes how the NICs of one test are connected.
type network struct {
	weft.Config                  // of each NIC; on its own host, Link is a prefix
	bed         *testbed.Testbed // a host for each NIC; nil: all NICs are on this host
	used        int              // number of hosts in use
}

// onSwitch reports whether a Switch connects the NICs. Such NICs belong to one program.
func (n *network) onSwitch() bool { return n.Link.String() == "switch" }

// on returns a network of NICs on this host.
func on(cfg weft.Config) *network { return &network{Config: cfg} }

// host returns the host for the next NIC, or nil for this host, and the NIC's address there.
func (n *network) host() (h *testbed.Host, listen string) {
	if n.bed == nil {
		return nil, n.Link.String()
	}
	h = n.bed.Host(n.used)
	n.used++
	return h, fmt.Sprintf("%v%v:7700", n.Link, h.Addr())
}

// add opens one more NIC on its host.
func (n *network) add(t testing.TB, open func(c weft.Config) error) {
	t.Helper()
	c := n.Config
	h, listen := n.host()
	var err error
	if !n.onSwitch() {
		if c.Link, err = weft.ParseLink(listen); err != nil {
			t.Fatal(err)
		}
	}
	if h == nil {
		err = open(c)
	} else {
		err = h.Do(func() error { return open(c) })
	}
	if errors.Is(err, xdp.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pair opens two processes, a/0 and b/0, on two NICs.
func pair(t testing.TB, n *network) (ctx context.Context, a, b *weft.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	open := func(name string, nodes ...weft.Node) (p *weft.Process) {
		n.add(t, func(c weft.Config) (err error) {
			c.Name, c.Nodes = weft.Name{App: name}, nodes
			p, err = weft.Open(ctx, c)
			return err
		})
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Errorf("close %v: %v", p.Name(), err)
			}
		})
		return p
	}
	a = open("a")
	b = open("b", weft.Node{ID: a.NIC().ID(), Addr: a.NIC().Addr()})
	for _, w := range []struct{ p, to *weft.Process }{{a, b}, {b, a}} {
		if _, err := w.p.WaitName(ctx, w.to.Name()); err != nil {
			t.Fatal(err)
		}
	}
	return ctx, a, b
}

// hosts opens several NICs. Each NIC knows the NICs before it.
func hosts(t testing.TB, n *network, many int) (all []*weft.NIC) {
	t.Helper()
	t.Cleanup(func() { closeAll(t, all) })
	var nodes []weft.Node
	for range many {
		var h *weft.NIC
		n.add(t, func(c weft.Config) (err error) {
			c.Nodes = nodes
			h, err = weft.OpenNIC(t.Context(), c)
			return err
		})
		all = append(all, h)
		nodes = append(nodes, weft.Node{ID: h.ID(), Addr: h.Addr()})
	}
	return all
}

// closeAll closes NICs concurrently: a NIC whose last frames are lost waits for an answer, and so
// may the next.
func closeAll(t testing.TB, all []*weft.NIC) {
	t.Helper()
	together(t, len(all), func(i int) error { return all[i].Close() })
}

// mostHosts is how many NICs a test on all links may have.
const mostHosts = 4

// links runs a test on every link: without faults, and with frames that are lost, duplicated,
// reordered and damaged. With faults, a link that promises none of these takes back its promise
// (decision 12).
func links(t *testing.T, test func(t *testing.T, n *network)) {
	bad := &weft.Faults{Loss: 0.05, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.02}
	for _, l := range []struct {
		name   string
		link   weft.Link // shared memory and AF_XDP exist only on Linux
		faults *weft.Faults
		bed    *testbed.Config
	}{
		{name: "udp"},
		{name: "bad udp", faults: bad},
		{name: "udp between hosts, lossy", bed: &testbed.Config{Loss: 0.05}},
		{name: "shm", link: weft.SharedMemory("")},
		{name: "bad shm", link: weft.SharedMemory(""), faults: bad},
		{name: "xdp", link: weft.XDP(""), bed: &testbed.Config{}},
		{name: "xdp, lossy", link: weft.XDP(""), bed: &testbed.Config{Loss: 0.05}},
		{name: "bad xdp", link: weft.XDP(""), bed: &testbed.Config{}, faults: bad},
	} {
		t.Run(l.name, func(t *testing.T) {
			n := on(weft.Config{Link: l.link, Faults: l.faults})
			if l.link != (weft.Link{}) && runtime.GOOS != "linux" {
				t.Skip(strings.TrimSuffix(l.link.String(), ":"), "is a link of Linux")
			}
			if l.bed != nil {
				l.bed.Hosts = mostHosts
				n.bed = newBed(t, *l.bed)
			}
			test(t, n)
		})
	}
	t.Run("switch", func(t *testing.T) { test(t, on(weft.Config{Link: weft.NewSwitch().Link()})) })
}

// newBed makes hosts for a test. It skips the test if the hosts cannot be made.
func newBed(t *testing.T, c testbed.Config) *testbed.Testbed {
	t.Helper()
	bed, err := testbed.New(c)
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	return bed
}

// A link that is requested by name is opened, or refused with the cause.
func TestALinkThatCannotBeHadIsRefusedWithTheCause(t *testing.T) {
	for link, want := range map[weft.Link]string{
		weft.XDP("127.0.0.1:0"): "127.0.0.1",
		weft.XDP(":0"):          "::",
		weft.UDP("10.0.0.1"):    "10.0.0.1",
	} {
		p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: link})
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(link.String(), "xdp:") && runtime.GOOS == "linux" && !errors.Is(err, xdp.ErrUnavailable) {
			t.Errorf("%v: %v; expected an error that names %s", link, err, want)
		}
	}
}
