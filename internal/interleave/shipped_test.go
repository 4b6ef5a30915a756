package interleave_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/interleave"
)

// The shipped code is the original source: it has no hook, and so no instruction for these tests.
func TestNothingThatShipsHasSteps(t *testing.T) {
	out, err := command(t, "go", "list", "-deps", "../..", "../../sim", "../../cmd/weft").Output()
	if err != nil {
		t.Fatal(err)
	}
	if list := string(out); !strings.Contains(list, "/internal/vni\n") || strings.Contains(list, "internal/interleave") {
		t.Errorf("the binary has package interleave, or lacks vni:\n%s", list)
	}
	if interleave.Instrumented {
		t.Error("the source of package interleave says that it is a rewritten one")
	}
}

// A rewritten source differs from its original only in its imports, in the ground and in the
// mutations.
func TestARewrittenSourceKeepsItsLines(t *testing.T) {
	b, err := os.ReadFile("../vni/command.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := hook("vni/command.go", string(b)); got != string(b) {
		t.Error("a source without atomics was changed")
	}
	const atomics = "// A comment.\npackage p\n\nimport (\n\t\"sync\"\n\t\"sync/atomic\"\n)\n\nvar a atomic.Bool\nvar m sync.Mutex\n"
	const want = "// A comment.\npackage p\n\nimport (\n\tsync \"" + prefix + "/sync\"\n\tatomic \"" + prefix + "/atomic\"\n)\n\nvar a atomic.Bool\nvar m sync.Mutex\n"
	if got := hook("p/p.go", atomics); got != want {
		t.Errorf("rewritten:\n%s\nexpected:\n%s", got, want)
	}
}
