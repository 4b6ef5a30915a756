package weft_test

import (
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// publicPackages lists the packages that users import.
var publicPackages = []string{".", "stream", "netmem", "sim", "program", "parallel"}

// publicMethods limits the number of methods that a type may have in `go doc -all`.
var publicMethods = map[string]int{"weft.Process": 45, "weft.Port": 20}

func TestPublicTypesNameNoInternalType(t *testing.T) {
	eachPublic(t, func(t *testing.T, p *checked) {
		for _, name := range p.types.Scope().Names() {
			if o := p.types.Scope().Lookup(name); o.Exported() {
				p.refuse(o, nil)
			}
		}
	})
}

func TestTheLargestPublicTypesHaveFewMethods(t *testing.T) {
	found := 0
	eachPublic(t, func(t *testing.T, p *checked) {
		for of, most := range publicMethods {
			pkg, name, _ := strings.Cut(of, ".")
			if pkg != p.types.Name() {
				continue
			}
			found++
			set, n := types.NewMethodSet(types.NewPointer(p.types.Scope().Lookup(name).Type())), 0
			for m := range set.Methods() {
				if m.Obj().Exported() {
					n++
				}
			}
			if n > most {
				t.Errorf("%s has %d methods; expected at most %d", of, n, most)
			}
		}
	})
	if found != len(publicMethods) {
		t.Errorf("%d types were looked at; expected %d", found, len(publicMethods))
	}
}

// If a constant takes its value from another package, its documentation shows only the name
// there, not the value.
func TestConstantsOfOtherPackagesShowTheirValues(t *testing.T) {
	eachPublic(t, func(t *testing.T, p *checked) {
		for _, f := range p.files {
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
					for _, s := range g.Specs {
						p.showsValue(t, g, s.(*ast.ValueSpec))
					}
				}
			}
		}
	})
}

// showsValue checks that the comments of each constant contain its value.
func (p *checked) showsValue(t *testing.T, g *ast.GenDecl, s *ast.ValueSpec) {
	foreign := false
	for _, v := range s.Values {
		ast.Inspect(v, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok {
				if o := p.info.Uses[x.Sel]; o != nil && o.Pkg() != p.types && o.Pkg().Path() != "time" {
					foreign = true
				}
			}
			return true
		})
	}
	for _, n := range s.Names {
		c := p.info.Defs[n].(*types.Const)
		if !foreign || !n.IsExported() || c.Val().Kind() == constant.String {
			continue
		}
		text := strings.NewReplacer(",", "", "_", "").Replace(g.Doc.Text() + s.Doc.Text() + s.Comment.Text())
		if hex := strings.ToLower(constant.ToInt(c.Val()).ExactString()); !strings.Contains(text, hex) && !strings.Contains(text, hexOf(c.Val())) {
			t.Errorf("%s: the comment of %s does not show its value, %v", p.types.Path(), n.Name, c.Val())
		}
	}
}

func hexOf(v constant.Value) string {
	u, _ := constant.Uint64Val(v)
	const digits = "0123456789abcdef"
	s := ""
	for ; u > 0; u >>= 4 {
		s = digits[u&15:u&15+1] + s
	}
	return "0x" + s
}

// checked is a package that the type checker has processed.
type checked struct {
	types *types.Package
	files []*ast.File
	info  *types.Info
	t     *testing.T
}

// refuse reports the internal types that an object shows.
func (p *checked) refuse(o types.Object, path []string) {
	path = append(path, o.Name())
	if name, ok := o.(*types.TypeName); ok {
		p.declared(name, path)
		return
	}
	p.look(o.Type(), path)
}

// declared checks what a type declaration shows: its right side and its methods.
func (p *checked) declared(name *types.TypeName, path []string) {
	if name.IsAlias() {
		p.look(types.Unalias(name.Type()), path)
		return
	}
	named := name.Type().(*types.Named)
	p.look(named.Underlying(), path)
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if m.Obj().Exported() {
			p.look(m.Type(), append(path, m.Obj().Name()))
		}
	}
}

// look walks through a type in the same way as its documentation shows it.
func (p *checked) look(t types.Type, path []string) {
	switch t := t.(type) {
	case *types.Named:
		o := t.Obj()
		if o.Pkg() != nil && strings.Contains(o.Pkg().Path(), "/internal/") {
			p.t.Errorf("%s.%s shows %v", p.types.Name(), strings.Join(path, "."), t)
		}
		for a := range t.TypeArgs().Types() {
			p.look(a, path)
		}
	case *types.Alias:
		p.look(types.Unalias(t), path)
	case *types.Pointer:
		p.look(t.Elem(), path)
	case *types.Slice:
		p.look(t.Elem(), path)
	case *types.Array:
		p.look(t.Elem(), path)
	case *types.Chan:
		p.look(t.Elem(), path)
	case *types.Map:
		p.look(t.Key(), path)
		p.look(t.Elem(), path)
	case *types.Signature:
		for v := range t.Params().Variables() {
			p.look(v.Type(), path)
		}
		for v := range t.Results().Variables() {
			p.look(v.Type(), path)
		}
		for tp := range t.TypeParams().TypeParams() {
			p.look(tp.Constraint(), path)
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				p.look(f.Type(), append(path, f.Name()))
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			p.look(m.Type(), append(path, m.Name()))
		}
		for e := range t.EmbeddedTypes() {
			p.look(e, path)
		}
	case *types.Union:
		for term := range t.Terms() {
			p.look(term.Type(), path)
		}
	}
}

// eachPublic type-checks each public package and calls look with it.
func eachPublic(t *testing.T, look func(*testing.T, *checked)) {
	known := goExports(t, publicPackages)
	for _, dir := range publicPackages {
		path := module
		if dir != "." {
			path += "/" + dir
		}
		t.Run(path, func(t *testing.T) {
			p := &checked{t: t, info: &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
			fset := token.NewFileSet()
			for _, name := range known[path].GoFiles {
				f, err := parser.ParseFile(fset, filepath.Join(known[path].Dir, name), nil, parser.ParseComments)
				if err != nil {
					t.Fatal(err)
				}
				p.files = append(p.files, f)
			}
			imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(known[path].Export) })
			var err error
			if p.types, err = (&types.Config{Importer: imp}).Check(path, fset, p.files, p.info); err != nil {
				t.Fatal(err)
			}
			look(t, p)
		})
	}
}
