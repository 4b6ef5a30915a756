//go:build linux && !portable

package udp_test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/testbed"
)

// Host 1 is the router between hosts 0 and 2, of which the latter has an address behind a network of 1300 bytes.
func TestANarrowPathIsFoundExplainedAndCrossedInIPFragments(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip("no testbed:", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the router is set up by the command ip:", err)
	}
	bed, err := testbed.New(testbed.Config{Hosts: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	far := netip.MustParseAddr("10.99.0.1")
	ip := func(host int, args string) {
		t.Helper()
		if out, err := bed.Host(host).Command(context.Background(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	b := bed.Host(1).Addr().String()
	ip(2, "address add 10.99.0.1/32 dev lo")
	ip(0, "route add 10.99.0.1 via "+b)
	ip(1, "route add 10.99.0.1 via "+bed.Host(2).Addr().String()+" mtu lock 1300")
	if err := bed.Host(1).Do(makeRouter); err != nil {
		t.Skip("host 1 cannot be made a router:", err)
	}
	var mu sync.Mutex
	var said []string
	open := func(host int, at netip.Addr) (d *udp.Driver) {
		t.Helper()
		if err := bed.Host(host).Do(func() (err error) {
			d, err = udp.Listen(udp.Config{Addr: netip.AddrPortFrom(at, 0), MTU: 1472, Log: func(text string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, text)
			}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	from, to := open(0, bed.Host(0).Addr()), open(2, far)
	var in linktest.Inbox
	linktest.Send(t, from, to.Addr(), make([]byte, 100))
	linktest.Collect(t, to, &in, 1)
	for end := time.Now().Add(5 * time.Second); len(in.Frames) < 20 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		for range 4 { // the first are lost, and bring the router's complaint
			from.Reserve(to.Addr())
			from.Commit(1472)
		}
		// The driver asks the kernel of the namespace that it is in.
		if err := bed.Host(0).Do(func() error { from.Flush(0); return nil }); err != nil {
			t.Fatal(err)
		}
		to.Poll(0, &in)
	}
	if len(in.Frames) < 20 || len(in.Frames[19]) != 1472 {
		t.Errorf("%d frames have arrived; want frames of 1472 bytes over a path of 1300", len(in.Frames))
	}
	if len(said) != 1 || !strings.Contains(said[0], "mtu = 1272,") || !strings.Contains(said[0], to.Addr().String()) {
		t.Errorf("the log says %q; want the destination and the mend, once", said)
	}
	// Those who can take whole frames still get them so.
	near := open(1, bed.Host(1).Addr())
	var whole linktest.Inbox
	linktest.Send(t, from, near.Addr(), make([]byte, 1472))
	linktest.Collect(t, near, &whole, 1)
}

// makeRouter has this host forward, and tell nobody of a shorter way.
func makeRouter() error {
	const conf = "/proc/sys/net/ipv4/conf/"
	devices, err := os.ReadDir(conf)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if err := os.WriteFile(conf+d.Name()+"/send_redirects", []byte("0"), 0); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}
