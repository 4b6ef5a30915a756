package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testbed"
)

var long = flag.Bool("long", false, "run the long forms of the tests: 10,000 barriers and broadcasts over a network with loss, and five minutes of processes and daemons that are killed")

// lossyHosts returns daemons, each a process in its own network namespace, on a network that
// loses frames.
func lossyHosts(t *testing.T, n int, link string, loss float64) (*testbed.Testbed, []daemon.Config) {
	t.Helper()
	tb, all := lossyConfigs(t, n, link, loss)
	for i := range all {
		beginHost(t, tb.Host(i), all[i])
	}
	return tb, all
}

// beginHost starts a daemon as a process in a network namespace.
func beginHost(t *testing.T, h *testbed.Host, c daemon.Config) *exec.Cmd {
	t.Helper()
	cmd := h.Command(context.Background(), "/proc/self/exe")
	return begin(t, cmd.Cmd, cmd.Start, "daemon", marshal(t, c))
}

// lossyConfigs is like lossyHosts, but starts no daemon.
func lossyConfigs(t *testing.T, n int, link string, loss float64) (*testbed.Testbed, []daemon.Config) {
	t.Helper()
	tb, err := testbed.New(testbed.Config{Hosts: n, Loss: loss})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tb.Close() })
	dir := t.TempDir()
	all := make([]daemon.Config, n)
	var nodes []file.Entry
	for i := range all {
		listen := fmt.Sprintf("%v:%d", tb.Host(i).Addr(), daemon.DefaultPort)
		nodes = append(nodes, file.Entry{Address: listen})
		all[i] = daemon.Config{Link: link, Socket: filepath.Join(dir, fmt.Sprintf("%d.sock", i)), Listen: listen, Log: "warn",
			UnreachableAfter: daemon.Duration(unreachableAfter)} // lost probes end no session
	}
	for i := range all {
		all[i].Nodes = nodes
	}
	return tb, all
}

func TestBarriersAndBroadcastsGetThroughANetworkThatLosesFrames(t *testing.T) {
	for _, link := range []string{"udp", "xdp"} {
		t.Run(link, func(t *testing.T) { getThrough(t, link) })
	}
}

func getThrough(t *testing.T, link string) {
	const hosts = 4
	times := 100
	switch {
	case *long:
		times = 10_000
	case testing.Short():
		times = 20
	}
	tb, c := lossyHosts(t, hosts, link, 0.05)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(times)*100*time.Millisecond)
	defer cancel()
	entered := make([]atomic.Int64, hosts)
	var members []<-chan error
	for i := range hosts {
		members = append(members, start(func() error {
			p, err := weft.Attach(ctx, weft.AttachConfig{Socket: c[i].Socket, Name: weft.Name{App: "lossy", Index: uint32(i)},
				Groups: []weft.Membership{{Size: hosts}}})
			if err != nil {
				return err
			}
			defer p.Close()
			g := p.Group("")
			for k := range times {
				if err := barrierAndBroadcast(ctx, g, entered, k); err != nil {
					return err
				}
			}
			return g.Barrier(ctx) // the last messages are acknowledged before a member leaves
		}))
	}
	for i, m := range members {
		if err := <-m; err != nil {
			t.Errorf("member %d: %v", i, err)
			cancel()
		}
	}
	drops, err := tb.Drops()
	if err != nil || drops.Dropped == 0 {
		t.Errorf("the network has lost nothing: %+v, %v", drops, err)
	}
	t.Logf("%d barriers and as many broadcasts, while %d frames were lost and %d were not", times, drops.Dropped, drops.Passed)
}

// barrierAndBroadcast runs one round: no member may leave the barrier before all have entered it,
// and all must get the bytes of the root, which differs in each round.
func barrierAndBroadcast(ctx context.Context, g *weft.Group, entered []atomic.Int64, k int) error {
	entered[g.Rank()].Store(int64(k + 1))
	if err := g.Barrier(ctx); err != nil {
		return fmt.Errorf("barrier %d: %w", k, err)
	}
	for j := range entered {
		if entered[j].Load() <= int64(k) {
			return fmt.Errorf("through barrier %d, which member %d has not entered", k, j)
		}
	}
	size, root := k*7%3000, k%g.Size()
	if k%50 == 49 {
		size = 100_000
	}
	want, buf := payload(uint64(k), size), make([]byte, size)
	if g.Rank() == root {
		copy(buf, want)
	}
	if err := g.Broadcast(ctx, root, buf); err != nil || !bytes.Equal(buf, want) {
		return fmt.Errorf("broadcast %d of %d bytes: equal %v, %w", k, size, bytes.Equal(buf, want), err)
	}
	return nil
}
