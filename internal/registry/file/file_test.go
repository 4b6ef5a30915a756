package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// A node with a key has the id of that key, unless the file says another one.
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

// A file is accepted only if all of its nodes are right, wherever the wrong ones stand, and each of those is named.
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
