package interleave_test

import (
	"fmt"
	"strings"
	"testing"
)

// mutation is a mistake in the order of two accesses, which no simulation sees: there each side runs to its end. It is
// compiled into the rewritten source beside what is right, and switched on by its name. Old must be whole statements.
type mutation struct {
	name     string
	what     string
	file     string // below internal/
	old, new string
}

var mutations = []mutation{
	{"command-shown-half", "a command is present before all of it is written", "vni/process.go",
		"e.rest = packed.rest\n\tatomic.StoreUint64(&e.word, packed.word)",
		"atomic.StoreUint64(&e.word, packed.word)\n\te.rest = packed.rest"},
}

// compiledIn are the edits that put the mutations into text. Several may stand at one place.
func compiledIn(t *testing.T, text map[string]string) (edits []edit) {
	t.Helper()
	type place struct{ file, old string }
	var order []place
	branches := map[place]string{}
	for _, m := range mutations {
		p := place{m.file, m.old}
		if branches[p] == "" {
			order = append(order, p)
		}
		branches[p] += fmt.Sprintf("if interleave.Defect(%q) {\n%s\n} else ", m.name, m.new)
	}
	for _, p := range order {
		old := p.old
		if strings.HasSuffix(old, "\n") {
			t.Fatalf("%s: %q ends a line; leave that out", p.file, old)
		}
		edits = append(edits, edit{p.file, old, branches[p] + "{\n" + old + "\n}"})
	}
	return edits
}
