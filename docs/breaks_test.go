package docs_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The maps say which code meets which demand of a design. That is only useful if a test fails
// when the code does not meet it. Therefore each map has a list of breaks: a small change at one
// place after which the demand of a row is not met, and the test that shows it. The go command
// compiles the broken source instead of the file (go test -overlay). No file of the repository is
// changed.
//
//	go test ./docs                                    check the list against code and maps
//	go test ./docs -run EachBreak -args -long         every break, some minutes
//	go test ./docs -run EachBreak -args -tenth REV    a tenth of them, by REV: .ci/run does this
//	go test ./docs -run EachBreak/USNIC-43 -args -long

var (
	long  = flag.Bool("long", false, "break every row of the maps, and look whether its test fails")
	tenth = flag.String("tenth", "", "break a tenth of the rows, chosen by this `word`, such as a commit")
)

// lineBreak is a change after which a demand is not met.
type lineBreak struct {
	item     string // item of the row
	file     string // path from the root
	old, new string // old occurs exactly once
	shown    string // package, from the root, and its test that then fails
}

// where splits the field shown.
func (b lineBreak) where() (pkg, test string) {
	pkg, test, _ = strings.Cut(b.shown, " ")
	return pkg, test
}

// allBreaks returns the breaks of all maps, and of areas that have no map.
func allBreaks() []lineBreak {
	return slices.Concat(
		breaksOfQNIX,
		breaksOfUSNIC,
		breaksOfHSN,
		breaksOfNETSTAR,
		breaksOfPANIC,
		breaksOfLimits,
		breaksOfLinks,
		breaksOfSilent,
		breaksOfRoaming,
		breaksOfTestbed,
	)
}

// An outdated list would break nothing, or the wrong thing.
func TestTheListOfBreaksIsNotStale(t *testing.T) {
	for _, b := range allBreaks() {
		if n := strings.Count(read(t, b.file), b.old); n != 1 {
			t.Errorf("%s: %s has %d times, expected once:\n%s", b.item, b.file, n, b.old)
		}
		if b.old == b.new {
			t.Errorf("%s: the break of %s changes nothing", b.item, b.file)
		}
		pkg, test := b.where()
		if !hasTest(t, pkg, test) {
			t.Errorf("%s: package %s has no test %s", b.item, pkg, test)
		}
	}
}

// hasTest reports whether a package has a test with that name.
func hasTest(t *testing.T, pkg, test string) bool {
	t.Helper()
	return hasIn(t, pkg, `(?m)^func `+regexp.QuoteMeta(test)+`\(`)
}

// hasIn reports whether an expression matches in the tests of a package.
func hasIn(t *testing.T, pkg, expr string) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(expr)
	return slices.ContainsFunc(names, func(name string) bool { return re.MatchString(read(t, strings.TrimPrefix(name, root+"/"))) })
}

func TestEachBreakIsShownByItsTest(t *testing.T) {
	breaks := allBreaks()
	switch {
	case *long:
	case *tenth != "":
		breaks = tenthOf(breaks, *tenth)
	default:
		t.Skip("builds a test for each row of the maps: run with -args -long, or -tenth WORD for some of them")
	}
	for _, b := range breaks {
		t.Run(b.item, func(t *testing.T) {
			t.Parallel()
			b.mustBeShown(t)
		})
	}
}

// tenthOf chooses a tenth by a word, so that each break has its turn as words change.
func tenthOf(breaks []lineBreak, word string) []lineBreak {
	key := func(b lineBreak) string {
		sum := sha256.Sum256([]byte(word + b.item + b.file + b.old))
		return string(sum[:])
	}
	chosen := slices.Clone(breaks)
	slices.SortFunc(chosen, func(a, b lineBreak) int { return strings.Compare(key(a), key(b)) })
	return chosen[:(len(chosen)+9)/10]
}

// mustBeShown runs the test on the broken source. The source must compile, and the test must
// fail.
func (b lineBreak) mustBeShown(t *testing.T) {
	pkg, test := b.where()
	args := []string{"-count=1", "-timeout=2m", "-run=^" + test + "$", "./" + pkg}
	if hasIn(t, pkg, `"pgregory\.net/rapid"`) {
		// Otherwise rapid would keep the failing input for the correct code.
		args = append(args, "-rapid.nofailfile")
	}
	out, err := b.run(t, args...)
	switch said := string(out); {
	case err == nil && strings.Contains(said, "--- SKIP: "+test):
		t.Skipf("%s is skipped here:\n%s", test, said)
	case err == nil:
		t.Errorf("%s passes in spite of the break of %s:\n%s\n↓\n%s", test, b.file, b.old, b.new)
	case !regexp.MustCompile(`(?m)^--- FAIL: ` + test + `\b`).MatchString(said):
		t.Errorf("%s did not fail in the way of a test:\n%s", test, said)
	}
}

// run runs go test with the broken source instead of the file.
func (b lineBreak) run(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	text := read(t, b.file)
	if strings.Count(text, b.old) != 1 {
		t.Fatalf("the list of breaks is stale: %s has %d times, expected once:\n%s", b.file, strings.Count(text, b.old), b.old)
	}
	dir := t.TempDir()
	broken, overlay := filepath.Join(dir, path.Base(b.file)), filepath.Join(dir, "overlay.json")
	file, err := filepath.Abs(filepath.Join(root, b.file))
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{broken: strings.Replace(text, b.old, b.new, 1), overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-vet=off", "-v", "-overlay=" + overlay}, args...)...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}

// shownBy returns the text of a map's test column for the breaks of an item.
func shownBy(breaks []lineBreak, item string) string {
	var l []string
	for _, b := range breaks {
		if pkg, test := b.where(); b.item == item {
			l = append(l, fmt.Sprintf("`%s` `%s`", pkg, test))
		}
	}
	return strings.Join(slices.Compact(l), ", ")
}
