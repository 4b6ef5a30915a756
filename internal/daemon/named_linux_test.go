package daemon

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/weftnet/weft/internal/registry/file"
)

// A host with several interfaces gives each its own name, and chooses by it (NETSTAR-8).
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

// Lists of NICs and files belong to one network. A further link has only its own. The first link
// without any has those of the whole file.
func TestEachLinkHasItsOwnNodesAndTheFirstThoseOfTheFile(t *testing.T) {
	dir := t.TempDir()
	c := Config{Socket: dir + "/sock", Link: "fast0, slow0,bare0", Listen: "127.0.0.1:0", Nodes: []file.Entry{{Address: "127.0.0.9:9"}}, Named: map[string]Link{
		"fast0": {Listen: "127.0.0.1:0"},
		"slow0": {Listen: "127.0.0.1:0", Nodes: []file.Entry{{Address: "127.0.0.8:8"}}},
		"bare0": {Listen: "127.0.0.1:0"},
	}}
	all, err := c.started()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ name, nodes, state string }{
		{"fast0", "[127.0.0.9:9]", dir + "/sock.state"}, {"slow0", "[127.0.0.8:8]", dir + "/sock.state/links/slow0"}, {"bare0", "[]", dir + "/sock.state/links/bare0"},
	} {
		if s := &all[i]; s.linkName() != want.name || fmt.Sprint(s.nodes.Nodes()) != want.nodes || s.stateDir != want.state {
			t.Errorf("link %s has the nodes %v and its state in %s; expected %+v", s.linkName(), s.nodes.Nodes(), s.stateDir, want)
		}
	}
	c.Link = "slow0"
	if alone, err := c.started(); err != nil || len(alone) != 1 || fmt.Sprint(alone[0].nodes.Nodes()) != "[127.0.0.8:8]" || alone[0].stateDir != dir+"/sock.state" {
		t.Errorf("alone: %+v, %v", alone, err)
	}
}
