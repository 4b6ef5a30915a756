package ontop_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/stream"
)

var long = flag.Bool("long", false, "run the long forms of the tests, whose figures docs/stream.md has")

// patience bounds waits that end soon unless something is broken.
const patience = 2 * time.Minute

// open makes a process with an embedded NIC.
func open(t *testing.T, cfg weft.Config) *weft.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := weft.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// behind returns a dialer to a service that `weft proxy` has put on the fabric. The proxy's NIC
// is at an address of this host.
func behind(t *testing.T, service, server string) *stream.Dialer {
	t.Helper()
	nic := testenv.Loopback(t)
	here.proxy(t, "--from", service, "--to", server, "--listen", nic)
	p := open(t, weft.Config{Name: weft.Name{App: "client"}, Link: weft.UDP("127.0.0.1:0"), Nodes: []weft.Node{{Addr: nic}}})
	return &stream.Dialer{Process: p, Timeout: patience}
}

// through returns a TCP address on this host that leads to a server through two proxies.
func through(t *testing.T, service, server string) (address string) {
	t.Helper()
	nic, address := testenv.Loopback(t), testenv.Loopback(t)
	here.proxy(t, "--from", service, "--to", server, "--listen", nic)
	here.proxy(t, "--from", address, "--to", service, "--listen", "127.0.0.1:0", "--node", nic)
	return address
}
