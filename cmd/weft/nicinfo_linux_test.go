package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
)

// QNIX-56: the memory map has six segments. The test prints that of this NIC and, through it, of
// another.
func TestTheMemoryMapOfANICIsPrinted(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	idA := nicIDAt(t, a)
	_, log := startNIC(t, append(observed(t, nicIDAt(t, b)), "--listen", "127.0.0.1:0", "--socket", a, "--max-processes", "200")...)
	_, address, _ := strings.Cut(log.String(), "address=")
	address, _, _ = strings.Cut(address, " ")
	startNIC(t, "--listen", "127.0.0.1:0", "--socket", b, "--node", address)
	// they know one another
	if status, _, stderr := weft("nodes", "--check", "--socket", b); status != 0 {
		t.Fatalf("weft nodes --check: %d %q", status, stderr)
	}
	for _, args := range [][]string{{"--socket", a}, {"--socket", b, "--nic", idA}} {
		line := append([]string{"nic", "info"}, args...)
		status, out, stderr := weft(append(line, "--json")...)
		m := struct { // ctl.Memory, with the printed form of the id
			NIC        string         `json:"nic"`
			Parameters ctl.Parameters `json:"parameters"`
			VNIs       ctl.VNIs       `json:"vnis"`
			Segments   []ctl.Segment  `json:"segments"`
		}{}
		d := json.NewDecoder(strings.NewReader(out))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); status != 0 || err != nil {
			t.Fatalf("weft %v --json: %d %q %q %v", line, status, out, stderr, err)
		}
		var names []string
		for _, s := range m.Segments {
			names = append(names, s.Name)
			if s.Bytes <= 0 || s.InUse > s.Bytes || len(s.Parts) == 0 {
				t.Errorf("segment %+v", s)
			}
		}
		want := []string{"virtual network interfaces", "process table", "driver command queue", "control program code", "internal memory", "managed memory"}
		if !slices.Equal(names, want) {
			t.Errorf("segments %q; want %q", names, want)
		}
		if p := m.Parameters; m.NIC != idA || p.P != 200 || p.N < 2*p.M || p.K < 1 || p.Q < 1 || p.D <= 8 || p.R < 1 || p.T < p.P || p.G < 1 || p.HeadBatch != 8 {
			t.Errorf("NIC %s: parameters %+v", m.NIC, p)
		}
		if v := m.VNIs; v.Prepared != 128 || v.Idle != 128 || v.Used != 0 || v.IdleBytes > v.IdleBytesLimit || v.IdleBytes < v.IdleSharedBytes {
			t.Errorf("VNIs %+v", v)
		}
		status, table, stderr := weft(line...)
		if status != 0 || !strings.HasPrefix(table, "NIC "+idA+"\n") {
			t.Errorf("weft %v: %d %q %q", line, status, table, stderr)
		}
		for _, n := range want {
			if !strings.Contains(table, "\n"+n+" ") {
				t.Errorf("weft %v prints no %s", line, n)
			}
		}
		fieldsAreDocumented(t, out)
	}
}

// fieldsAreDocumented looks for each field of a JSON text in docs/nic.md.
func fieldsAreDocumented(t *testing.T, text string) {
	t.Helper()
	document, err := os.ReadFile("../../docs/nic.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile("`[^`\n]*\\b" + f[1] + "\\b[^`\n]*`").Match(document) {
			t.Errorf("docs/nic.md does not tell of the field %q", f[1])
		}
	}
}
