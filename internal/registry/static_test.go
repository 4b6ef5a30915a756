package registry

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// Each node that conflicts with others in the list is named, and the list is refused.
func TestAListNamesEachNodeThatCannotBe(t *testing.T) {
	at := func(a string, change func(n *Node)) Node {
		n := Node{Addr: mustAddr(a)}
		if change != nil {
			change(&n)
		}
		return n
	}
	id := func(n *Node) { n.ID = 7 }
	here := func(n *Node) { n.At = Position{Known: true, X: 1, Y: 2} }
	named := func(name string) func(n *Node) { return func(n *Node) { n.Name = name } }
	for what, c := range map[string]struct {
		nodes []Node
		want  []string
	}{
		"different ones":          {[]Node{at("10.0.0.1:1", id), at("10.0.0.2:1", here), at("10.0.0.1:2", named("a")), at("10.0.0.3:1", named("b"))}, nil},
		"two without an id":       {[]Node{at("10.0.0.1:1", nil), at("10.0.0.2:1", nil)}, nil},
		"no address":              {[]Node{{}}, []string{"expected an address"}},
		"no port":                 {[]Node{at("10.0.0.1:0", nil)}, []string{"expected an address"}},
		"any address":             {[]Node{at("[::]:1", nil)}, []string{"expected an address"}},
		"one address":             {[]Node{at("10.0.0.1:1", id), at("10.0.0.1:1", nil)}, []string{"10.0.0.1:1 stands twice"}},
		"one id":                  {[]Node{at("10.0.0.1:1", id), at("10.0.0.2:1", id)}, []string{"NIC 0:0:0:0:0:0:0:7 stands twice in the list, at 10.0.0.1:1 and 10.0.0.2:1"}},
		"one position":            {[]Node{at("10.0.0.1:1", here), at("10.0.0.2:1", here)}, []string{"10.0.0.1:1 and 10.0.0.2:1 are both at position 1,2"}},
		"one name":                {[]Node{at("10.0.0.1:1", named("Pi")), at("10.0.0.2:1", named("pI"))}, []string{`10.0.0.1:1 and 10.0.0.2:1 are both called "pI"`}},
		"a name of a wrong one":   {[]Node{at("10.0.0.1:0", named("pi")), at("10.0.0.2:1", named("Pi"))}, []string{"expected an address", `are both called "Pi"`}},
		"several, behind a right": {[]Node{at("10.0.0.1:1", nil), {}, at("10.0.0.1:1", nil)}, []string{"expected an address", "stands twice"}},
	} {
		s, err := NewStatic(c.nodes)
		if (err == nil) != (len(c.want) == 0) || (s == nil) != (err != nil) {
			t.Errorf("%s: %v, %v", what, s, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; expected %q in it", what, err, want)
			}
		}
		if err == nil && len(s.Nodes()) != len(c.nodes) {
			t.Errorf("%s: %d of %d nodes are listed", what, len(s.Nodes()), len(c.nodes))
		}
	}
}

func TestANameOfANodeFitsTheQuotesOfAProgram(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "host-3": true, "!~": true, strings.Repeat("n", maxName): true, "": false, strings.Repeat("n", maxName+1): false,
		"a b": false, "a\"b": false, "a\x7fb": false, "ä": false, "a\n": false, "0:0:0:0:0:0:0:7": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

func TestATorusAndItsPositionsHaveBounds(t *testing.T) { // QNIX-52
	const most = limits.TorusSide
	for _, c := range []struct {
		v  []int
		ok bool
	}{{nil, true}, {[]int{1, 1}, true}, {[]int{most, most}, true}, {[]int{most + 1, 1}, false}, {[]int{1, most + 1}, false}, {[]int{0, 1}, false}, {[]int{1, 0}, false}, {[]int{4}, false}, {[]int{4, 4, 4}, false}} {
		got, err := ParseTorus(c.v)
		if (err == nil) != c.ok || c.ok && len(c.v) == 2 && got != (Torus{c.v[0], c.v[1]}) || !c.ok && got != (Torus{}) {
			t.Errorf("torus %v: %v, %v", c.v, got, err)
		}
	}
	torus := Torus{4, 3}
	for _, c := range []struct {
		v  []int
		ok bool
	}{{nil, true}, {[]int{0, 0}, true}, {[]int{3, 2}, true}, {[]int{4, 2}, false}, {[]int{3, 3}, false}, {[]int{-1, 0}, false}, {[]int{0, -1}, false}, {[]int{1}, false}, {[]int{1, 1, 1}, false}} {
		got, err := torus.ParsePosition(c.v)
		want := Position{}
		if c.ok && len(c.v) == 2 {
			want = Position{true, c.v[0], c.v[1]}
		}
		if (err == nil) != c.ok || got != want {
			t.Errorf("position %v: %v, %v; expected %v", c.v, got, err, want)
		}
	}
	if got, err := (Torus{}).ParsePosition([]int{0, 0}); err == nil || got.Known {
		t.Errorf("a position without a torus: %v, %v", got, err)
	}
	if got, err := (Torus{}).ParsePosition(nil); err != nil || got.Known {
		t.Errorf("no position without a torus: %v, %v", got, err)
	}
}

// Every address of a node identifies it: another registry's node at any of them is the same one.
func TestANodeIsKnownByEachOfItsAddresses(t *testing.T) {
	n := Node{ID: 7, Addr: mustAddr("10.0.0.1:1")}
	for i := range n.Others {
		n.Others[i] = mustAddr(fmt.Sprintf("10.0.1.%d:1", i+1))
	}
	all := n.Addrs()
	if len(all) != limits.NodeAddresses || all[0] != n.Addr || all[len(all)-1] != n.Others[len(n.Others)-1] {
		t.Errorf("the addresses are %v", all)
	}
	n.Others[1] = netip.AddrPort{}
	if all = n.Addrs(); len(all) != 2 {
		t.Errorf("the first invalid address does not end them: %v", all)
	}
	merged := Merge(&told{now: []Node{n}}, &told{now: []Node{{Addr: n.Others[0]}, {ID: 7, Addr: mustAddr("10.9.9.9:1")}, {ID: 8, Addr: mustAddr("10.9.9.8:1")}}})
	if got := merged.Nodes(); len(got) != 2 || got[0] != n || got[1].ID != 8 {
		t.Errorf("together they say %v", got)
	}
}

// A resolver that never answers holds nothing up for longer than the bound of a lookup.
func TestTheLookupOfAHostNameHasADeadline(t *testing.T) {
	find := func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		if by, ok := ctx.Deadline(); !ok || time.Until(by) > lookUpFor {
			t.Errorf("the deadline of the lookup is %v, %v; expected one within %v", by, ok, lookUpFor)
		}
		return nil, context.DeadlineExceeded
	}
	if _, err := resolve("host:1", 7700, find); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lookup that timed out returned %v", err)
	}
}

// A failed lookup returns the reason. A host name, a port and an IP are told apart before any
// lookup.
func TestOnlyAHostNameIsLookedUp(t *testing.T) {
	asked := ""
	find := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		asked = host
		return nil, errors.New("no such host")
	}
	longest := strings.Repeat("a", mostHostName)
	for s, want := range map[string]string{"10.0.0.1": "", "10.0.0.1:7": "", "[fe80::1]": "", "fe80::1": "", "[fe80::1]:7": "", "1.2.3": "", "1.2.3.4.5:7": "", "-host": "", ".host": "", "ho/st": "", "host:": "", "host:65536": "",
		"host:-1": "", longest + "a": "", "host": "host", "HOST-2.a_b:65535": "HOST-2.a_b", "9a:0": "9a", longest: longest} {
		asked = ""
		all, err := resolve(s, 7700, find)
		if asked != want || want != "" && (err == nil || !strings.Contains(err.Error(), "no such host")) || want == "" && err != nil && !strings.Contains(err.Error(), "expected HOST") {
			t.Errorf("%.20q: %q is looked up; %v, %v; expected %q", s, asked, all, err, want)
		}
	}
}
