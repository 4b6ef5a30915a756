package docs_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// holders maps the names that pages give to values of the library to the types of these values.
// An op is a weft.Op or a weft.GroupOp.
var holders = map[string][]string{
	"p": {"Process"}, "client": {"Process"}, "server": {"Process"}, "o": {"Port"}, "peer": {"Peer"}, "g": {"Group"},
	"op": {"Op", "GroupOp"}, "in": {"Inbox"}, "w": {"Watcher"}, "region": {"Region"}, "m": {"Message"}, "nic": {"NIC"},
}

func TestCallsInPagesForUsersExist(t *testing.T) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	pkg, err := importer.ForCompiler(token.NewFileSet(), "gc", lookup).Import(module)
	if err != nil {
		t.Fatal(err)
	}
	has := func(holder, member string) bool {
		for _, name := range holders[holder] {
			o := pkg.Scope().Lookup(name)
			if o == nil {
				continue
			}
			if f, _, _ := types.LookupFieldOrMethod(o.Type(), true, pkg, member); f != nil {
				return true
			}
		}
		return false
	}
	call := regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`)
	code := regexp.MustCompile("(?s)```go\n.*?```|`[^`\n]+`")
	found := 0
	for _, page := range []string{"README.md", "docs/library.md", "docs/coming-from.md", "docs/links.md"} {
		for _, c := range code.FindAllString(read(t, page), -1) {
			for _, m := range call.FindAllStringSubmatch(c, -1) {
				_, known := holders[m[1]]
				switch {
				case m[1] == "weft" && pkg.Scope().Lookup(m[2]) == nil, known && !has(m[1], m[2]):
					t.Errorf("%s names %s, which does not exist", page, m[0])
				case m[1] == "weft" || known:
					found++
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d calls; the search must be broken", found)
	}
}
