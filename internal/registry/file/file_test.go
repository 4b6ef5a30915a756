package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	s, err := Load(write(t, "[[node]]\nid = \"0:0:0:0:0:0:0:1\"\naddress = \"10.0.0.1:7700\"\n[[node]]\naddress = \"10.0.0.2:7700\"\n"))
	if err != nil || len(s.Nodes()) != 2 || s.Nodes()[0].ID != 1 || s.Nodes()[1].ID != 0 {
		t.Errorf("nodes %v, %v", s, err)
	}
	for text, want := range map[string]string{
		"[[node]]\naddres = \"10.0.0.1:7700\"\n": `line 2: unknown key "node.addres"; expected [[node]] with id and address`,
		"[[node]]\naddress = 7\n":                "line 2:",
		"[[node]\n":                              "line 1:",
		"[[node]]\naddress = \"here\"\n":         `address "here": expected IP:PORT`,
		"[[node]]\n":                             `address "": expected IP:PORT`,
		"[[node]]\naddress = \"0.0.0.0:7700\"\n": "expected an address that others can be reached at",
		strings.Repeat("[[node]]\naddress = \"10.0.0.1:7700\"\n", 2):                                                           "10.0.0.1:7700 stands twice",
		"[[node]]\nid=\"0:0:0:0:0:0:0:1\"\naddress=\"10.0.0.1:1\"\n[[node]]\nid=\"0:0:0:0:0:0:0:1\"\naddress=\"10.0.0.2:1\"\n": "NIC 0:0:0:0:0:0:0:1 stands twice in the list, at 10.0.0.1:1 and 10.0.0.2:1",
	} {
		path := write(t, text)
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
