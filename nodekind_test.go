//go:build unix

package weft_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// Frames to an address of another kind would go to an invented host, and the node would be
// silent.
func TestANodeHasAnAddressOfTheKindThatTheLinkHas(t *testing.T) {
	sw := weft.NewSwitch()
	onSwitch, err := weft.OpenNIC(t.Context(), weft.Config{Link: sw.Link()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { onSwitch.Close() })
	addresses := map[string]string{"network": "127.0.0.1:7000", "shared memory": "shm:zzz", "switch": onSwitch.Addr()}
	for of, l := range map[string]weft.Link{"network": weft.UDP("127.0.0.1:0"), "shared memory": weft.SharedMemory(""), "switch": sw.Link()} {
		n, err := weft.OpenNIC(t.Context(), weft.Config{Link: l})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		for kind, addr := range addresses {
			switch err := n.AddNode(weft.Node{Addr: addr}); {
			case kind == of && err != nil:
				t.Errorf("a NIC on a %s with a node %s: %v", of, addr, err)
			case kind != of && (!errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "node "+addr+": the address is one of")):
				t.Errorf("a NIC on a %s with a node %s: %v; expected %v that names both kinds", of, addr, err, weft.ErrBadArgument)
			}
		}
	}
	if _, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.UDP("127.0.0.1:0"), Nodes: []weft.Node{{Addr: "shm:zzz"}}}); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("OpenNIC: %v; expected %v", err, weft.ErrBadArgument)
	}
}
