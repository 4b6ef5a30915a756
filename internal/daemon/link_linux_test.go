package daemon

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/testbed"
)

// opened opens the link that a configuration asks for, and returns its name and what the log says of it, or the error.
func opened(t *testing.T, c Config, at netip.AddrPort) (name, why string) {
	t.Helper()
	d := &Daemon{settings: settings{listen: at, config: c}}
	l, err := d.openLink()
	if err != nil {
		t.Errorf("link %q, prefer %q: %v", c.Link, c.Prefer, err)
		return "", err.Error()
	}
	defer l.Close()
	return l.name, l.why()
}

// "The log says what was tried, chosen and why" (decision 12).
func TestTheChoiceOfALinkIsExplained(t *testing.T) {
	loopback := netip.MustParseAddrPort("127.0.0.1:0")
	off := false
	for _, test := range []struct {
		config Config
		want   string
	}{
		{Config{}, "MTU "},
		{Config{Link: "udp", GSO: &off}, "no segmentation offload, as configured"},
		{Config{Link: "auto"}, "auto: UDP rather than AF_XDP, which costs the bandwidth"},
		{Config{Link: "auto", Prefer: preferLatency}, "auto: UDP, though latency is preferred, because of AF_XDP unavailable: "},
	} {
		if name, why := opened(t, test.config, loopback); name != "udp" || !strings.Contains(why, test.want) {
			t.Errorf("link %q, prefer %q: %s, %s; want udp, %q", test.config.Link, test.config.Prefer, name, why, test.want)
		}
	}
}

func TestWhoPrefersLatencyGetsAFXDPWhereItCanBeHad(t *testing.T) {
	if err := testbed.Check(); err != nil {
		t.Skip("no testbed:", err)
	}
	bed, err := testbed.New(testbed.Config{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer bed.Close()
	for _, test := range []struct {
		config     Config
		want, says string
	}{
		{Config{Link: "auto", Prefer: preferBandwidth}, "udp", "auto: UDP"},
		{Config{Link: "auto", Prefer: preferLatency}, "xdp", "native, copying (zero-copy: "}, // a veth has no zero-copy, and the log says so
		{Config{Link: "xdp-generic"}, "xdp-generic", "generic, copying"},
	} {
		var name, why string
		if err := bed.Host(0).Do(func() error {
			name, why = opened(t, test.config, netip.AddrPortFrom(bed.Host(0).Addr(), 0))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(why, "AF_XDP unavailable") {
			t.Skip("this system has none:", why)
		}
		if name != test.want || !strings.Contains(why, test.says) {
			t.Errorf("link %q, prefer %q: %s (%s); want %s, %q", test.config.Link, test.config.Prefer, name, why, test.want, test.says)
		}
	}
}
