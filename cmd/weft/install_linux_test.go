package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// If there was a C compiler, as on every developer's machine, `go install` once gave a binary
// that needs the C library of that machine.
func TestABuildWithACompilerAtHandIsStaticToo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("links the whole binary")
	}
	for _, tool := range []string{"go", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	path := filepath.Join(t.TempDir(), "weft")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("go build: %v, %s; expected neither an error nor a warning", err, out)
	}
	static(t, path)
	out, err := exec.Command(path, "bench", "latency", "localhost:1", "--time", "100ms").CombinedOutput()
	// no server listens there, but the name is found without the C library
	if err == nil || strings.Contains(string(out), "lookup localhost") {
		t.Errorf("a name is looked up: %v, %s", err, out)
	}
}

// static checks that a binary needs no dynamic linker and no library.
func static(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s has a segment of type %v", path, p.Type)
		}
	}
	if l, err := f.ImportedLibraries(); err == nil && len(l) > 0 {
		t.Errorf("%s needs %v", path, l)
	}
}
