package mutate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/internal/mutate"
)

func TestEveryNameParsesBack(t *testing.T) {
	seen := map[mutate.Defect]string{mutate.None: "none"}
	for _, name := range mutate.Names() {
		d, err := mutate.Parse(name)
		if err != nil || d.String() != name {
			t.Errorf("Parse(%q) = %v, %v", name, d, err)
		}
		if other, twice := seen[d]; twice {
			t.Errorf("%q and %q are one defect", name, other)
		}
		seen[d] = name
	}
}

func TestNoneIsTheZeroDefectAndNotListed(t *testing.T) {
	var zero mutate.Defect
	if d, err := mutate.Parse("none"); err != nil || d != zero {
		t.Errorf("Parse(none) = %v, %v", d, err)
	}
	for _, name := range mutate.Names() {
		if name == zero.String() {
			t.Errorf("Names lists %q, which nothing could catch", name)
		}
	}
}

func TestAnUnknownNameIsToldWithWhatThereIs(t *testing.T) {
	d, err := mutate.Parse("window-off-by-two")
	if err == nil || d != mutate.None {
		t.Fatalf("Parse = %v, %v", d, err)
	}
	for _, want := range append(mutate.Names(), "window-off-by-two") {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}

func TestADefectNobodyKnowsPrintsItsNumber(t *testing.T) {
	if got := mutate.Defect(200).String(); got != "defect-200" {
		t.Errorf("String = %q", got)
	}
}

func TestNamesAreTheCallersToChange(t *testing.T) {
	mutate.Names()[0] = "changed"
	if mutate.Names()[0] == "changed" {
		t.Error("a change of what Names returned changed the names")
	}
}

// The names are a separate list. A defect that is added only to the middle of the constants would
// shift all names after it.
func TestNamesAreTheConstantsInOrder(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "mutate.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].IsExported() {
			want = append(want, dashed(v.Names[0].Name))
		}
		return true
	})
	if d := cmp.Diff(want, append([]string{"none"}, mutate.Names()...)); d != "" {
		t.Errorf("constants (-) and names (+) differ:\n%s", d)
	}
}

// dashed converts WindowOffByOne to window-off-by-one. Capitals in a row count as one word.
func dashed(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(name[i-1])) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
