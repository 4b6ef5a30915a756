package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
)

// answering listens as a daemon does and answers every request with one reply. It returns its
// socket.
func answering(t *testing.T, reply *ctl.Reply) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "nic.sock")
	l, err := ctl.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					if _, err := c.Receive(); err != nil {
						return
					}
					if c.Reply(reply) != nil {
						return
					}
				}
			}()
		}
	}()
	return socket
}

// A process of a NIC that was down was once listed like any other.
func TestPsOfTheFabricMarksProcessesOfANICThatDoesNotAnswer(t *testing.T) {
	socket := answering(t, &ctl.Reply{Names: []ctl.Name{{Name: "near/0", NIC: 1, Slot: 3}, {Name: "far/0", NIC: 2, Slot: 1, Unreachable: true}}})
	status, out, stderr := weft("ps", "--fabric", "--socket", socket)
	var got [][]string
	for line := range strings.Lines(out) {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"NAME", "NIC", "SLOT", "STATE"},
		{"near/0", "0:0:0:0:0:0:0:1", "3", "reachable"},
		{"far/0", "0:0:0:0:0:0:0:2", "1", "unreachable"},
	}
	if status != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("weft ps --fabric: %d %q %q; expected %q", status, out, stderr, want)
	}
	status, out, stderr = weft("ps", "--fabric", "--json", "--socket", socket)
	if status != 0 || strings.Count(out, `"unreachable":true`) != 1 {
		t.Errorf("weft ps --fabric --json: %d %q %q; expected one process that is unreachable", status, out, stderr)
	}
}

// The column UNEXPECTED was "early" in JSON, a word that the glossary has for something else.
func TestTheColumnsAndFieldsOfPsAreThoseOfTheDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/nic.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "\n| column of `weft ps` | field of `--json` |")
	table, _, _ = strings.Cut(table, "\n\n")
	var columns, fields []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z, ]+) \|(.*)$`).FindAllStringSubmatch(table, -1) {
		columns = append(columns, strings.Split(row[1], ", ")...)
		for _, f := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[2], -1) {
			fields = append(fields, f[1])
		}
	}
	socket := answering(t, &ctl.Reply{Processes: []ctl.Process{{Refused: map[string]uint64{"unreachable": 1}}}})
	status, out, stderr := weft("ps", "--socket", socket)
	header, _, _ := strings.Cut(out, "\n")
	if got := strings.Fields(header); status != 0 || !slices.Equal(got, columns) {
		t.Errorf("weft ps: %d %q; columns %q, in docs/nic.md %q", status, stderr, got, columns)
	}
	status, out, stderr = weft("ps", "--json", "--socket", socket)
	var p map[string]any
	if err := json.Unmarshal([]byte(out), &p); status != 0 || err != nil {
		t.Fatalf("weft ps --json: %d %q %q %v", status, out, stderr, err)
	}
	slices.Sort(fields)
	if got := slices.Sorted(maps.Keys(p)); !slices.Equal(got, slices.Compact(fields)) {
		t.Errorf("weft ps --json has the fields %q; docs/nic.md %q", got, fields)
	}
}

// Some lists were once an object, some an array, and an empty list was nothing.
func TestAListInJSONIsAnObjectALine(t *testing.T) {
	none := answering(t, &ctl.Reply{})
	two := answering(t, &ctl.Reply{
		Nodes: make([]ctl.Node, 2), Names: []ctl.Name{{NIC: 1}, {NIC: 2}}, Processes: make([]ctl.Process, 2), Groups: []ctl.Member{{NIC: 1}, {NIC: 2}},
		Checks: []ctl.Check{{OK: true}, {OK: true}}, Thrown: make([]ctl.Thrown, 2),
	})
	for _, list := range []string{"nodes", "nodes --check", "ps", "ps --fabric", "ps --thrown-out", "groups"} {
		line := append(strings.Fields(list), "--json", "--socket")
		if status, out, stderr := weft(append(line, none)...); status != 0 || out+stderr != "" {
			t.Errorf("weft %s --json of an empty list: %d %q %q; expected nothing", list, status, out, stderr)
		}
		status, out, stderr := weft(append(line, two)...)
		if status != 0 || strings.Count(out, "\n") != 2 {
			t.Errorf("weft %s --json: %d %q %q; expected two lines", list, status, out, stderr)
		}
		for l := range strings.Lines(out) {
			if err := json.Unmarshal([]byte(l), &map[string]any{}); err != nil {
				t.Errorf("weft %s --json: %q: %v; expected an object", list, l, err)
			}
		}
	}
	for _, c := range []string{"nodes", "ps", "groups"} {
		if status, out, _ := weft(c, "--help"); status != 0 || !strings.Contains(out, "one JSON object a line, and nothing for an empty list") {
			t.Errorf("weft %s --help does not say what an empty list prints", c)
		}
	}
}
