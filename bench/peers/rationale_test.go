package main

import (
	"os"
	"strings"
	"testing"
)

// ownModules are the directories whose go.mod is not Weft's.
var ownModules = []string{".", "../../examples/ontop"}

func TestRationaleNamesEveryDependency(t *testing.T) {
	doc, err := os.ReadFile("../../docs/rationale.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range ownModules {
		mod, err := os.ReadFile(dir + "/go.mod")
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
			t.Errorf("found %d modules in go.mod of %s; the search must be broken", found, dir)
		}
	}
}
