package netmem_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
)

// openIn returns the files of a directory that this program has open, including files without a
// name.
func openIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if name, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(name, dir) {
			names = append(names, name)
		}
	}
	return names
}

// Serve may refuse a server after it has opened the spill file or taken the port. It then closes
// the file, whose space would otherwise stay in use, and the process may have another server.
func TestARefusedServerLeavesNoFileAndNoPort(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "mem"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	used, spill := filepath.Join(dir, "used"), filepath.Join(dir, "spill")
	if err := os.WriteFile(used, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, cfg := range map[string]netmem.ServerConfig{
		"more memory than the host has": {Bytes: 1 << 50, Spill: spill, SpillBytes: 1 << 20},
		"a larger file than fits":       {Bytes: 1 << 20, Spill: spill, SpillBytes: 1 << 60},
		"a file with content":           {Bytes: 1 << 20, Spill: used},
	} {
		if _, err := netmem.Serve(p, cfg); err == nil {
			t.Fatalf("%s: served", what)
		}
		if names := openIn(t, dir); len(names) > 0 {
			t.Errorf("%s: open after the refusal: %q", what, names)
		}
	}
	s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: 1 << 20, Spill: spill})
	if err != nil {
		t.Fatalf("a server after the refused ones: %v", err)
	}
	if names := openIn(t, dir); len(names) != 1 {
		t.Errorf("a server has open %q; expected its spill file", names)
	}
	s.Close()
	if names := openIn(t, dir); len(names) > 0 {
		t.Errorf("open after Close: %q", names)
	}
}
