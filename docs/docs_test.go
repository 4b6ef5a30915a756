// Package docs_test checks the documents against the repository: links have a target, every
// package and every dependency is mentioned, named files exist, and the program in README is the
// one that is tested.
package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root   = ".."
	module = "github.com/weftnet/weft"
)

// read returns a file of the repository, named by its path from the root.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files lists the repository's files with one of the extensions, by their paths from the root. It
// leaves out other modules, version control and test data.
func files(t *testing.T, extensions ...string) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || name == "bench/peers" || name == "examples/ontop") {
			return fs.SkipDir
		}
		if !d.IsDir() && slices.Contains(extensions, path.Ext(name)) {
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// anchors lists the fragments by which links can reach the headings of a document.
func anchors(document string) []string {
	var l []string
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(document, ""), -1) {
		l = append(l, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return l
}

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	links := 0
	for _, name := range files(t, ".md") {
		text := fenced.ReplaceAllString(read(t, name), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			target, anchor, _ := strings.Cut(m[1], "#")
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", name, m[1], to)
			}
		}
	}
	if links < 10 {
		t.Errorf("found %d links in all documents; the search must be broken", links)
	}
}

// The section "Layers" of docs/architecture.md describes each package in one place, and no package
// that is gone.
func TestArchitectureNamesEveryPackageInOneLayer(t *testing.T) {
	_, layers, ok := strings.Cut(read(t, "docs/architecture.md"), "\n## Layers\n")
	layers, _, ok2 := strings.Cut(layers, "\n## ")
	if !ok || !ok2 {
		t.Fatal("docs/architecture.md has no section Layers")
	}
	seen := make(map[string]bool)
	for _, name := range files(t, ".go") {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") || dir == "." || seen[dir] {
			continue
		}
		seen[dir] = true
		if n := strings.Count(layers, "`"+dir+"`"); n != 1 {
			t.Errorf("the layers of docs/architecture.md name `%s` %d times; expected once", dir, n)
		}
	}
	named := regexp.MustCompile("`((?:internal|pdl|cmd|examples|bench)/[a-z0-9_/]+)`")
	for _, m := range named.FindAllStringSubmatch(layers, -1) {
		if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
			t.Errorf("the layers of docs/architecture.md name `%s`, which is no folder", m[1])
		}
	}
}

// A tutorial also names files that its reader writes.
func TestFilesNamedInDocumentsExist(t *testing.T) {
	named := regexp.MustCompile("[`>]((?:[a-z0-9_]+/)*[a-z0-9_]+\\.go)[`<]")
	found := 0
	for _, name := range files(t, ".md", ".svg") {
		page := read(t, name)
		for _, m := range named.FindAllStringSubmatch(page, -1) {
			found++
			if strings.Contains(page, "Save this as `"+m[1]+"`:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d names of files; the search must be broken", found)
	}
}

// versions returns the modules that go.mod requires, with their versions.
func versions(t *testing.T) map[string]string {
	v := make(map[string]string)
	for _, line := range strings.Split(read(t, "go.mod"), "\n") {
		f := strings.Fields(strings.TrimPrefix(line, "require"))
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") {
			v[f[0]] = f[1]
		}
	}
	return v
}

func TestRationaleNamesEveryDependency(t *testing.T) {
	table := make(map[string]bool) // module in the table -> whether a package imports it
	required := versions(t)
	row := regexp.MustCompile(`(?m)^\| ([a-zA-Z0-9./-]+\.[a-zA-Z0-9./_-]+) \|[^|]*\|[^|]*\| (v\S+),`)
	for _, m := range row.FindAllStringSubmatch(read(t, "docs/rationale.md"), -1) {
		table[m[1]] = false
		if required[m[1]] != m[2] {
			t.Errorf("docs/rationale.md says %s %s, go.mod %q", m[1], m[2], required[m[1]])
		}
	}
	for imported, by := range foreignImports(t) {
		ok := false
		for m := range table {
			if imported == m || strings.HasPrefix(imported, m+"/") {
				table[m], ok = true, true
			}
		}
		if !ok {
			t.Errorf("docs/rationale.md does not tell why there is %s, which %s imports", imported, by)
		}
	}
	for m, used := range table {
		if !used {
			t.Errorf("docs/rationale.md has a row for %s, which nothing imports", m)
		}
	}
}

// foreignImports returns every package that is imported from other modules, each with a file that
// imports it.
func foreignImports(t *testing.T) map[string]string {
	imports := make(map[string]string)
	for _, name := range files(t, ".go") {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") && !strings.HasPrefix(p+"/", module+"/") {
				imports[p] = name
			}
		}
	}
	return imports
}

func TestGlossaryGivesAWordOneMeaning(t *testing.T) {
	text, _, _ := strings.Cut(read(t, "docs/glossary.md"), "\n## Weft's words and libfabric's")
	_, text, _ = strings.Cut(text, "\n## ")
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| [A-Z\*]`)
	seen := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		for _, word := range strings.Split(m[1], ", ") {
			if seen[word] {
				t.Errorf("docs/glossary.md explains %q twice", word)
			}
			seen[word] = true
		}
	}
	if len(seen) < 60 {
		t.Errorf("found %d words in docs/glossary.md; the search must be broken", len(seen))
	}
}

func TestREADMEShowsTheTestedExample(t *testing.T) {
	_, after, ok := strings.Cut(read(t, "README.md"), "```go\n")
	shown, _, ok2 := strings.Cut(after, "\n```")
	if !ok || !ok2 {
		t.Fatal("README.md has no block of Go")
	}
	_, after, ok = strings.Cut(read(t, "example_test.go"), "func Example() {\n")
	body, _, ok2 := strings.Cut(after, "\n}\n")
	if !ok || !ok2 {
		t.Fatal("example_test.go has no Example")
	}
	body, _, _ = strings.Cut(body, "\n\t// Output:")
	var tested []string
	for _, line := range strings.Split(body, "\n") {
		tested = append(tested, strings.TrimPrefix(line, "\t"))
	}
	if want := strings.Join(tested, "\n"); shown != want {
		t.Errorf("README.md shows\n%s\n\nbut example_test.go tests\n%s", shown, want)
	}
}

// The list of what Weft is not once still denied streams and programs, long after both existed.
func TestREADMEDeniesNothingThatIsThere(t *testing.T) {
	_, after, ok := strings.Cut(read(t, "README.md"), "\n## What Weft does not do\n")
	list, _, ok2 := strings.Cut(after, "\n## ")
	if !ok || !ok2 {
		t.Fatal("README.md does not say what Weft does not do")
	}
	there := map[string]string{"stream": "stream", "program": "pdl", "group": "group.go", "datagram": "datagram.go", "simulator": "sim", "proxy": "internal/proxy"}
	for _, m := range regexp.MustCompile(`(?i)\bno (\w+?)s?\b`).FindAllStringSubmatch(list, -1) {
		if path := there[strings.ToLower(m[1])]; path != "" {
			t.Errorf("README.md says %q where it lists what Weft is not for, and there is %s", m[0], path)
		}
	}
}

// Code, tests and documents cite decisions by number. Such citations once had no target.
func TestEachDecisionThatIsCitedIsListed(t *testing.T) {
	_, list, ok := strings.Cut(read(t, "docs/rationale.md"), "\n## Decisions\n")
	list, _, ok2 := strings.Cut(list, "\n## ")
	if !ok || !ok2 {
		t.Fatal("docs/rationale.md has no list of decisions")
	}
	listed := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|.*\|.*\[.*\]\(#.*\|$`).FindAllStringSubmatch(list, -1) {
		listed[m[1]] = true
	}
	cited := regexp.MustCompile(`(?i)\bdecisions? (\d+(?:(?:, | and )\d+)*)`)
	found := 0
	for _, name := range files(t, ".go", ".md") {
		for _, m := range cited.FindAllStringSubmatch(read(t, name), -1) {
			for _, n := range regexp.MustCompile(`\d+`).FindAllString(m[1], -1) {
				if found++; !listed[n] {
					t.Errorf("%s cites decision %s, which docs/rationale.md does not list with its reason", name, n)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("found %d decisions cited; the search must be broken", found)
	}
}
