package daemon_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/vni"
)

// The switch carries 1,300 bytes and drops longer frames without a word, from the start or in the middle. Everything comes
// through, and the tools say what is the matter.
func TestAPathThatCarriesLessThanItsEndsIsFoundAndCrossed(t *testing.T) {
	for _, link := range []string{"udp", "xdp"} {
		t.Run(link, func(t *testing.T) {
			s := onHosts(t, link, testbed.Config{Lossy: true})
			log := s.run(t, 0)
			s.run(t, 1)
			a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[1], "b/0")
			wait(t, a, "b/0")
			wait(t, b, "a/0")
			exchange(t, a, b, 1)
			if n := peerOf(t, s.c[0]); n.Frame != 1472 || n.WholeFrame != 1472 {
				t.Errorf("on an ordinary path, frames have %d of %d bytes; expected all 1472", n.Frame, n.WholeFrame)
			}
			for _, mtu := range []int{1300, 1000} {
				if err := s.bed.Host(0).SetPathMTU(mtu); err != nil {
					t.Fatal(err)
				}
				exchange(t, a, b, 2)
				exchange(t, b, a, 3)
				var n ctl.Node
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if n = peerOf(t, s.c[0]); n.Frame > mtu-28-24 && n.Frame <= mtu-28+4 {
						break // with the room that the kernel leaves for a VLAN's tag
					}
				}
				if n.Frame <= mtu-28-24 || n.Frame > mtu-28+4 {
					t.Errorf("over a switch of %d bytes, frames have %d; expected about %d", mtu, n.Frame, mtu-28)
				}
			}
			const says = "the path to a peer carries less than both ends"
			for end := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), says) && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			if !strings.Contains(log.String(), says) {
				t.Errorf("the log does not say that the path is narrow: %s", log)
			}
			if c := counters(t, s.c[0]); c["rel_path_doubts"] == 0 || c["rel_paths_narrowed"] == 0 || c["rel_parts_sent"] == 0 {
				t.Errorf("%d doubts, %d narrow paths, %d parts sent", c["rel_path_doubts"], c["rel_paths_narrowed"], c["rel_parts_sent"])
			}
		})
	}
}

// peerOf is the one other NIC that a daemon knows.
func peerOf(t *testing.T, c daemon.Config) ctl.Node {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, err := conn.NIC(0).Nodes(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("nodes: %+v, %v; expected one", all, err)
	}
	return all[0]
}

// counters are a daemon's, by name.
func counters(t *testing.T, c daemon.Config) map[string]uint64 {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, page, unmap, err := conn.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	p, err := vni.OpenCounterPage(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{}
	for i, name := range vni.Names() {
		all[name] = p.Load(vni.Counter(i))
	}
	return all
}
