package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exported returns the exported names of a package: functions, types, variables and constants, and
// methods with and without their type.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, name := range files(t, ".go") {
		if path.Dir(name) != dir || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			for _, n := range declared(d) {
				names[n] = true
			}
		}
	}
	return names
}

// declared returns the names that a declaration declares.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		of := d.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		if g, ok := of.(*ast.IndexExpr); ok {
			of = g.X
		}
		if id, ok := of.(*ast.Ident); ok {
			return []string{id.Name + "." + d.Name.Name, d.Name.Name}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// The page also names calls without the package, as `Reduce` or `Machine.Close`. The first column
// of a table has the words of C*, MPI and Chapel.
func TestThePageOfParallelProgramsNamesWhatExists(t *testing.T) {
	names := exported(t, "parallel")
	page := read(t, "docs/parallel.md")
	found := 0
	check := func(name string) {
		if found++; !names[name] {
			t.Errorf("docs/parallel.md names %s, which package parallel does not have", name)
		}
	}
	for _, m := range regexp.MustCompile(`\bparallel\.([A-Z]\w*)`).FindAllStringSubmatch(page, -1) {
		check(m[1])
	}
	// Whole is a field of Axis, and PATH a variable of the shell.
	other := map[string]bool{"Whole": true, "PATH": true}
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "| `") { // the first column has the words of other systems
			_, line, _ = strings.Cut(line[1:], "|")
		}
		for _, m := range regexp.MustCompile("`([A-Z]\\w*(?:\\.[A-Z]\\w*)?)`").FindAllStringSubmatch(line, -1) {
			if !other[m[1]] {
				check(m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("found %d names; the search must be broken", found)
	}
}
