package daemon

import (
	"net/netip"
	"testing"
)

// A host with several interfaces has each under a name of its own, and chooses by it (NETSTAR-8).
func TestALinkIsChosenByTheNameThatTheConfigurationGivesIt(t *testing.T) {
	c := Config{Link: "fast1", Prefer: preferLatency, MTU: 1400, Named: map[string]Link{
		"fast0": {Link: "xdp", Listen: "127.0.0.2:7700"},
		"fast1": {Listen: "127.0.0.3:0", MTU: 1200},
	}}
	s, err := c.check()
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&Daemon{settings: s}).openLink()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.name != "udp" || l.why()[0] != "fast1 of the configuration" {
		t.Errorf("the link is %s, %q; expected that of fast1", l.name, l.why())
	}
	if at := netip.MustParseAddr("127.0.0.3"); s.listen.Addr() != at || s.mtu != 1200 {
		t.Errorf("it listens at %v with frames of %d bytes; expected what fast1 says: %v, 1200", s.listen, s.mtu, at)
	}
}
