package main

import (
	"os"
	"strings"
	"testing"
)

func TestRationaleNamesEveryDependency(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/rationale.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.SplitSeq(string(mod), "\n") {
		f := strings.Fields(strings.TrimPrefix(line, "require"))
		if len(f) != 2 || !strings.HasPrefix(f[1], "v") || f[0] == weftModule {
			continue
		}
		found++
		named := false
		for row := range strings.SplitSeq(string(doc), "\n") {
			named = named || strings.HasPrefix(row, "| "+f[0]+" |") && strings.HasSuffix(row, ", "+f[1]+" |")
		}
		if !named {
			t.Errorf("docs/rationale.md has no row for %s, %s", f[0], f[1])
		}
	}
	if found < 3 {
		t.Errorf("found %d modules in go.mod; the search must be broken", found)
	}
}
