//go:build !cgo

package main

import (
	"debug/elf"
	"os"
	"testing"
)

// The binary needs no dynamic linker and no library. The test's own has the packages of weft, and is linked as weft is.
func TestABuildWithoutCgoIsStatic(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
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
