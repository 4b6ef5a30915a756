package weft_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/link/udp"
)

// A number without a unit counts nanoseconds, and no peer answers within a few nanoseconds. A
// daemon always refused such a time, but the NIC of a program accepted it.
func TestATimeInWhichNothingAnswersIsRefused(t *testing.T) {
	for _, d := range []time.Duration{-1, 3, 9 * time.Millisecond, 2 * time.Hour} {
		n, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.NewSwitch().Link(), UnreachableAfter: d})
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "UnreachableAfter is "+d.String()+"; expected 10ms to 1h0m0s") {
			t.Errorf("UnreachableAfter of %v: %v; expected it to say from 10ms to 1h", d, err)
		}
	}
}

// The error for an unknown link names the links that exist.
func TestAnAddressThatIsNoneIsRefusedWithTheFormsThatThereAre(t *testing.T) {
	for _, listen := range []string{"auto:10.0.0.1:7000", "here", "xdp:here", "127.0.0.1:"} {
		n, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.UDP(listen)})
		if err == nil {
			n.Close()
		}
		if !errors.Is(err, udp.ErrAddress) {
			t.Errorf("Link: %q: %v; expected ErrAddress", listen, err)
			continue
		}
		for _, want := range []string{`"xdp:HOST:PORT"`, `"xdp-generic:HOST:PORT"`, `"shm:NAME"`, "HOST:PORT, [IPv6]:PORT or :PORT"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Link: %q: %v; expected it to name %s", listen, err, want)
			}
		}
	}
}

func TestWhatIsWrongWithAConfigurationIsABadArgument(t *testing.T) {
	name := weft.Name{App: "a"}
	sw := weft.NewSwitch()
	for what, c := range map[string]weft.Config{
		"no name":                 {Link: sw.Link()},
		"a malformed name":        {Name: weft.Name{App: "Bad name!"}, Link: sw.Link()},
		"a time too short":        {Name: name, Link: sw.Link(), UnreachableAfter: 3},
		"a switch of its own":     {Name: name, Link: new(weft.Switch).Link()},
		"a malformed link":        {Name: name, Link: weft.UDP("here")},
		"a malformed node":        {Name: name, Link: sw.Link(), Nodes: []weft.Node{{Addr: "there:x"}}},
		"a node at port 0":        {Name: name, Link: sw.Link(), Nodes: []weft.Node{{Addr: "127.0.0.1:0"}}},
		"a node that is anywhere": {Name: name, Link: sw.Link(), Nodes: []weft.Node{{Addr: "0.0.0.0"}}},
		"a node without address":  {Name: name, Link: sw.Link(), Nodes: []weft.Node{{}}},
		"an unknown host":         {Name: name, Link: sw.Link(), Nodes: []weft.Node{{Addr: "nowhere.invalid"}}},
		"a node that is a port":   {Name: name, Link: sw.Link(), Nodes: []weft.Node{{Addr: ":7700"}}},
		"a nameless shared node":  {Name: name, Link: sw.Link(), Nodes: []weft.Node{{Addr: "shm:"}}},
		"a malformed node's name": {Name: name, Link: sw.Link(), Nodes: []weft.Node{{Addr: "127.0.0.1:9", Name: "Bad name!"}}},
		"a node of the own id":    {Name: name, ID: 5, Link: sw.Link(), Nodes: []weft.Node{{ID: 5, Addr: "127.0.0.1:9"}}},
		"more loss than all":      {Name: name, Link: sw.Link(), Faults: &weft.Faults{Loss: 3}},
		"a capture of less":       {Name: name, Link: sw.Link(), Capture: &weft.Capture{File: filepath.Join(t.TempDir(), "c"), Limit: -1}},
		"a place off the torus":   {Name: name, Link: sw.Link(), Position: weft.Position{X: 9, Width: 1, Height: 1}},
	} {
		p, err := weft.Open(t.Context(), c)
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("%s: %v; expected %v", what, err, weft.ErrBadArgument)
		}
	}
	if _, err := weft.Attach(t.Context(), weft.AttachConfig{Name: weft.Name{App: "Bad name!"}}); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("attaching with a malformed name: %v; expected %v", err, weft.ErrBadArgument)
	}
}

func TestANodeThatCannotBeAddedIsRefusedWithAnErrorToTestFor(t *testing.T) {
	n, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.AddNode(weft.Node{ID: n.ID(), Addr: "127.0.0.1:9"}); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("the NIC's own id: %v; expected %v", err, weft.ErrBadArgument)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.AddNode(weft.Node{ID: 9, Addr: "127.0.0.1:9"}); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("at a NIC that is closed: %v; expected %v", err, weft.ErrClosed)
	}
}

func TestANodeWithoutAPortIsAtTheDefaultPort(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.2":            "127.0.0.2:7700",
		"127.0.0.2:9":          "127.0.0.2:9",
		"::1":                  "[::1]:7700",
		"[::1]":                "[::1]:7700",
		"[fe80::1%eth0]":       "[fe80::1%eth0]:7700",
		"[fe80::1%eth0]:9":     "[fe80::1%eth0]:9",
		"::ffff:127.0.0.2":     "127.0.0.2:7700",
		"localhost":            "127.0.0.1:7700",
		"localhost:9":          "127.0.0.1:9",
		"shm:43647b182caa7a69": "shm:43647b182caa7a69",
	} {
		link := weft.UDP("127.0.0.1:0")
		if strings.HasPrefix(in, "shm:") {
			link = weft.SharedMemory("")
		}
		n, err := weft.OpenNIC(t.Context(), weft.Config{Link: link, Nodes: []weft.Node{{ID: 9, Addr: in}}})
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if nodes, err := n.Nodes(); err != nil || len(nodes) != 1 || nodes[0].Addr != want {
			t.Errorf("%s is %+v, %v; expected one node at %s", in, nodes, err, want)
		}
		if err := n.RemoveNode(weft.Node{Addr: in}); err != nil {
			t.Errorf("to remove %s: %v", in, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestASwitchThatWasNotMadeIsABadArgument(t *testing.T) {
	if _, err := weft.OpenNIC(t.Context(), weft.Config{Link: new(weft.Switch).Link()}); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a NIC at a Switch that NewSwitch has not made: %v; expected %v", err, weft.ErrBadArgument)
	}
}
