package file

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/trust"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nodes.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileOfNodesIsReadAndItsMistakesAreNamed(t *testing.T) {
	s, torus, err := Load(write(t, "torus = [4, 2]\n[[node]]\nid = \"0:0:0:0:0:0:0:1\"\naddress = \"10.0.0.1:7700\"\n[[node]]\naddress = \"10.0.0.2:7700\"\nposition = [3, 1]\n"))
	if at := (registry.Position{Known: true, X: 3, Y: 1}); err != nil || torus.Width != 4 || torus.Height != 2 || len(s.Nodes()) != 2 || s.Nodes()[0].At.Known || s.Nodes()[1].At != at || s.Nodes()[0].ID != 1 || s.Nodes()[1].ID != 0 {
		t.Errorf("nodes %v, %v", s, err)
	}
	for text, want := range map[string]string{
		"[[node]]\nname = \"a b\"\naddress = \"10.0.0.1:1\"\n":                                                   `node 10.0.0.1:1: name "a b": expected 1 to 63 printable ASCII characters without blanks and quotes`,
		"[[node]]\nname = \"0:0:0:0:0:0:0:7\"\naddress = \"10.0.0.1:1\"\n":                                       `it is the id of a NIC; expected another name`,
		"[[node]]\nname = \"Pi\"\naddress = \"10.0.0.1:1\"\n[[node]]\nname = \"pi\"\naddress = \"10.0.0.2:1\"\n": `nodes 10.0.0.1:1 and 10.0.0.2:1 are both called "pi"`,
		"[[node]]\naddres = \"10.0.0.1:7700\"\n":                                                                 `line 2: unknown key "node.addres"; expected torus, or [[node]] with id, key, name, address and position`,
		"[[node]]\naddress = \"10.0.0.1:1\"\nposition = [0, 0]\n":                                                "node 10.0.0.1:1: position [0 0]: expected torus = [WIDTH, HEIGHT] beside it",
		"torus = [2, 2]\n[[node]]\naddress = \"10.0.0.1:1\"\nposition = [0, 2]\n":                                "node 10.0.0.1:1: position [0 2]: expected [X, Y] on a torus of 2 by 2",
		"torus = [2]\n":    "torus [2]: expected [WIDTH, HEIGHT], 1 to 4096 each",
		"torus = [2, 0]\n": "torus [2 0]: expected [WIDTH, HEIGHT], 1 to 4096 each",
		"torus = [2, 2]\n[[node]]\naddress = \"10.0.0.1:1\"\nposition = [0, 1]\n[[node]]\naddress = \"10.0.0.2:1\"\nposition = [0, 1]\n": "nodes 10.0.0.1:1 and 10.0.0.2:1 are both at position 0,1",
		"[[node]]\naddress = 7\n":                "line 2:",
		"[[node]\n":                              "line 1:",
		"[[node]]\naddress = \"here:x\"\n":       `address "here:x": expected HOST or HOST:PORT`,
		"[[node]]\n":                             `address "": expected HOST or HOST:PORT`,
		"[[node]]\naddress = \"0.0.0.0:7700\"\n": "expected an address that others can be reached at",
		strings.Repeat("[[node]]\naddress = \"10.0.0.1:7700\"\n", 2):                                                           "10.0.0.1:7700 stands twice",
		"[[node]]\nid=\"0:0:0:0:0:0:0:1\"\naddress=\"10.0.0.1:1\"\n[[node]]\nid=\"0:0:0:0:0:0:0:1\"\naddress=\"10.0.0.2:1\"\n": "NIC 0:0:0:0:0:0:0:1 stands twice in the list, at 10.0.0.1:1 and 10.0.0.2:1",
	} {
		path := write(t, text)
		if _, _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// A node with a key has the id of that key, unless the file gives another one.
func TestANodeWithAKeyHasItsID(t *testing.T) {
	key := trust.PublicKey{1, 2, 3}
	s, _, err := Load(write(t, fmt.Sprintf("[[node]]\nkey = %q\naddress = \"10.0.0.1:1\"\n[[node]]\nkey = %q\nid = \"0:0:0:0:0:0:0:9\"\naddress = \"10.0.0.2:1\"\n", key, key)))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Nodes(); n[0].ID != key.ID() || n[0].Key != key || n[1].ID != 9 || n[1].Key != key {
		t.Errorf("the nodes are %+v; expected ids %v and 9", n, key.ID())
	}
}

// A file is accepted only if all of its nodes are right, wherever the wrong ones are. Each of
// those is named.
func TestEachNodeThatIsWrongIsNamed(t *testing.T) {
	const good, bad, worse = "[[node]]\naddress = \"10.0.0.%d:1\"\n", "[[node]]\naddress = \"here:x\"\n", "[[node]]\naddress = \"10.0.0.9:1\"\nname = \"a b\"\n"
	ok := func(i int) string { return fmt.Sprintf(good, i) }
	const sayBad, sayWorse = `address "here:x"`, `name "a b"`
	for text, wants := range map[string][]string{
		ok(1) + ok(2):               nil,
		bad + ok(1) + ok(2):         {sayBad},
		ok(1) + bad + ok(2):         {sayBad},
		ok(1) + ok(2) + bad:         {sayBad},
		bad + worse + ok(1):         {sayBad, sayWorse},
		worse + ok(1) + bad + ok(2): {sayBad, sayWorse},
	} {
		_, _, err := Load(write(t, text))
		if (err == nil) != (len(wants) == 0) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v; want %q in it", text, err, want)
			}
		}
	}
}

// A flag has an address, perhaps behind an id. The default port is that of a daemon.
func TestAFlagNamesANode(t *testing.T) {
	for in, want := range map[string]Entry{
		"10.0.0.2:1":                  {Address: "10.0.0.2:1"},
		"10.0.0.2":                    {Address: "10.0.0.2:7700"},
		"fe80::2":                     {Address: "[fe80::2]:7700"},
		"host":                        {Address: "host"},
		"0:0:0:0:0:0:0:7@10.0.0.2":    {ID: "0:0:0:0:0:0:0:7", Address: "10.0.0.2:7700"},
		"0:0:0:0:0:0:0:7@10.0.0.2:1":  {ID: "0:0:0:0:0:0:0:7", Address: "10.0.0.2:1"},
		"0:0:0:0:0:0:0:7@localhost:1": {ID: "0:0:0:0:0:0:0:7", Address: "localhost:1"},
	} {
		got := EntryOf(in)
		if got.ID != want.ID || got.Address != want.Address || got.Key != "" || got.Name != "" || got.Position != nil {
			t.Errorf("%s is %+v; expected %+v", in, got, want)
		}
	}
	torus := registry.Torus{Width: 4, Height: 3}
	n, err := Entry{ID: "0:0:0:0:0:0:0:7", Address: "10.0.0.2:1", Name: "pi", Position: []int{3, 2}}.Node(torus)
	if want := (registry.Node{ID: 7, Addr: netip.MustParseAddrPort("10.0.0.2:1"), Name: "pi", At: registry.Position{Known: true, X: 3, Y: 2}}); err != nil || n != want {
		t.Errorf("the node is %+v, %v; expected %+v", n, err, want)
	}
	if n, err = (Entry{Address: "localhost:1"}).Node(torus); err != nil || len(n.Addrs()) < 1 || n.Addr != netip.MustParseAddrPort("127.0.0.1:1") {
		t.Errorf("localhost is %+v, %v", n.Addrs(), err)
	}
	all, err := registry.ResolveAll("localhost:1", 7700)
	if err != nil || !slices.Equal(n.Addrs(), all) {
		t.Errorf("localhost is at %v; the node has %v, %v", all, n.Addrs(), err)
	}
}

// A node has all addresses of its host, the first one first.
func TestANodeHasAllAddressesOfItsHost(t *testing.T) {
	var all []netip.AddrPort
	for i := range limits.NodeAddresses {
		all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 7700))
		n, err := Entry{ID: "0:0:0:0:0:0:0:7", Address: "host"}.node(registry.Torus{}, func(host string, port uint16) ([]netip.AddrPort, error) {
			if host != "host" || port != registry.DefaultPort {
				t.Errorf("%s with port %d is looked up", host, port)
			}
			return all, nil
		})
		if err != nil || n.ID != 7 || !slices.Equal(n.Addrs(), all) {
			t.Errorf("the node has %v, %v; expected %v", n.Addrs(), err, all)
		}
	}
}

// An error about an entry names the wrong field, whichever it is.
func TestAnEntryNamesTheFieldThatIsWrong(t *testing.T) {
	for want, e := range map[string]Entry{
		"expected HOST or HOST:PORT":   {Address: "here:x"},
		"expected eight decimal octet": {ID: "7", Address: "10.0.0.2:1"},
		"weft fabric key prints it":    {Key: "weftpub1-x", Address: "10.0.0.2:1"},
		"expected torus":               {Position: []int{0, 0}, Address: "10.0.0.2:1"},
		"without blanks and quotes":    {Name: "a b", Address: "10.0.0.2:1"},
	} {
		if n, err := e.Node(registry.Torus{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v; expected %q", e, n, err, want)
		}
	}
}

// The error about a file that is missing, is not TOML, or has a value of the wrong type is in
// terms of the file.
func TestAFileThatCannotBeReadSaysWhy(t *testing.T) {
	if s, _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) || s != nil {
		t.Errorf("a file that is not there: %v, %v", s, err)
	}
	for text, want := range map[string]string{
		"torus = 4\n":                           `line 1: key "torus"`,
		"[[node]]\nname = 7\n":                  `the value is of type integer; expected text in quotes, such as "…"`,
		"[[node]]\nposition = [\"a\", \"b\"]\n": `expected a whole number`,
		"[[node]]\nname = [1]\n":                "line 2:",
		"node = true\n":                         "line 1:",
		"x":                                     "line 1:",
		"[[node]]\nx = 1\ny = 2\n":              `line 3: unknown key "node.y"`,
	} {
		if _, _, err := Load(write(t, text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: %v; expected %q", text, err, want)
		}
	}
	var flags struct{ On bool }
	if err := DecodeTOML([]byte("on = 7\n"), &flags, "on"); err == nil || !strings.Contains(err.Error(), "expected true or false") {
		t.Errorf("a number for a flag: %v", err)
	}
	var other struct{ On map[string]int }
	if err := DecodeTOML([]byte("on = 7\n"), &other, "on"); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a number for a table: %v", err)
	}
	if err := DecodeTOML([]byte("on = true\n"), &flags, "on"); err != nil || !flags.On {
		t.Errorf("a flag: %v, %v", flags.On, err)
	}
}

// The lines of a table are those of its keys alone.
func TestATableHasTheLinesOfItsKeys(t *testing.T) {
	l := LinesOf([]byte("a = 1\n[t]\nb = 2\nc.d = 3\n[tt]\ne = 4\n"))
	if in := l.Under("t"); len(in) != 2 || in["b"] != 3 || in["c.d"] != 4 {
		t.Errorf("under t: %v", in)
	}
	Lines(nil).Overridden("a") // has no effect
	if l.Overridden("a"); l["a"] != 0 || l["t.b"] != 3 {
		t.Errorf("the lines are %v", l)
	}
}
