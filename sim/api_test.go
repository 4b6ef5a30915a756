package sim_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Users cannot name types of internal packages, so sim exports none of them.
func TestNothingInternalIsInTheExportedAPI(t *testing.T) {
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	exported := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		internal := internals(f)
		for _, node := range exports(f) {
			exported++
			ast.Inspect(node, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if x, is := nameOf(s, ok); is && internal[x] {
					t.Errorf("%v: %s.%s is in the exported API", files.Position(s.Pos()), x, s.Sel.Name)
				}
				return true
			})
		}
	}
	if exported < 40 {
		t.Errorf("found %d exported things; the search must be broken", exported)
	}
}

// nameOf returns the name before the dot.
func nameOf(s *ast.SelectorExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	x, is := s.X.(*ast.Ident)
	if !is {
		return "", false
	}
	return x.Name, true
}

// internals returns the internal packages that a file imports, by their local names.
func internals(f *ast.File) map[string]bool {
	names := make(map[string]bool)
	for _, i := range f.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil && strings.Contains(p, "/internal/") {
			names[path.Base(p)] = true
		}
	}
	return names
}

// exports returns the types that a file exports: those of functions, and those of exported fields
// of types.
func exports(f *ast.File) (list []ast.Node) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || receiver(d).IsExported()) {
				list = append(list, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() {
					list = append(list, visible(s.Type)...)
				}
			}
		}
	}
	return list
}

func receiver(d *ast.FuncDecl) *ast.Ident {
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	return t.(*ast.Ident)
}

// visible returns the type itself or, for a struct, the types of its exported and embedded
// fields.
func visible(of ast.Expr) (list []ast.Node) {
	s, ok := of.(*ast.StructType)
	if !ok {
		return []ast.Node{of}
	}
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 || field.Names[0].IsExported() {
			list = append(list, field.Type)
		}
	}
	return list
}
