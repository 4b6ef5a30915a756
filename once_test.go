package weft_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// onceRules lists the rules of the core that must be implemented in one place each. A row holds
// the rule, the objects that stand for it, and the functions in the packages below that write
// such a field or call such a function. A new place that does one of these things is a mistake,
// or needs a new row here.
var onceRules = []struct {
	what    string
	objects []string // "package.Type.field", "package.Type.method" or "package.Function"
	by      []string // "package.Type.method" or "package.Function"
}{
	{"advances the packet counter", []string{"rel.packets.counter"}, []string{"rel.packets.next"}},
	{"takes a packet counter", []string{"rel.packets.next"}, []string{"rel.Endpoint.PostLone", "rel.Module.send", "rel.packets.sealAs"}},
	{"makes the tag of a frame", []string{"rel.guard.seal", "rel.cookieTag.seal", "rel.bare.seal", "rel.sealed.seal"}, []string{"rel.packets.sealAs"}},
	{"writes a tag", []string{"wire.Seal", "wire.SealSum"}, []string{"rel.cookieTag.seal"}},
	{"checks the tag of a frame", []string{"rel.guard.open", "rel.cookieTag.open", "rel.bare.open", "rel.sealed.open"}, []string{"rel.Module.open"}},
	{"reads a tag", []string{"wire.Open", "wire.OpenInto"}, []string{"rel.cookieTag.open", "rel.cookieTag.peek"}},
	{"encrypts a frame", []string{"seal.Key.Seal"}, []string{"rel.sealed.seal"}},
	{"decrypts a frame", []string{"seal.Key.Open", "seal.Incoming.OpenOther"}, []string{"rel.sealed.open", "rel.sealed.openOther", "rel.sealed.peek"}},
	{"writes mac1", []string{"seal.Gate.Sign"}, []string{"rel.Module.send"}},
	{"checks mac1", []string{"seal.Gate.Verify"}, []string{"rel.Module.receiveHandshake"}},
	{"takes a packet counter from the peer", []string{"rel.replayWindow.take"}, []string{"rel.Module.settleDeferred", "rel.Module.take"}},
	{"uses up a message number", []string{"nic.dest.number"}, []string{"nic.dest.leave"}},
	{"spends a receiver's credit", []string{"nic.credit.spent"}, []string{"nic.credit.spend"}},
	{"calls a filter", []string{"nic.guard.filter"}, []string{"nic.Engine.drops"}},
}

// oncePackages lists the packages that the test examines.
var oncePackages = []string{"internal/rel", "internal/nic"}

func TestEachRuleOfTheCoreStandsInOnePlace(t *testing.T) {
	uses := usesOf(t, oncePackages)
	for _, r := range onceRules {
		var by []string
		for _, o := range r.objects {
			if !uses.exists[o] {
				t.Errorf("%s: there is no %s", r.what, o)
			}
			by = append(by, uses.by[o]...)
		}
		slices.Sort(by)
		if by = slices.Compact(by); !slices.Equal(by, r.by) {
			t.Errorf("what %s (%s): %v; expected %v", r.what, strings.Join(r.objects, ", "), by, r.by)
		}
	}
}

// uses records which functions write each field, and which functions call each function.
type uses struct {
	exists map[string]bool
	by     map[string][]string
}

// goPackage is one package in the output of go list.
type goPackage struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
}

// goExports lists packages of this module and their imports, with the files for the type checker.
func goExports(t *testing.T, packages []string) map[string]goPackage {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	known := map[string]goPackage{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l goPackage
		if err := d.Decode(&l); err == io.EOF {
			return known
		} else if err != nil {
			t.Fatal(err)
		}
		known[l.ImportPath] = l
	}
}

// usesOf type-checks packages of this module, without their tests.
func usesOf(t *testing.T, packages []string) uses {
	known := goExports(t, packages)
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(known[path].Export) })
	u := uses{exists: map[string]bool{}, by: map[string][]string{}}
	for _, p := range packages {
		l := known[module+"/"+p]
		var files []*ast.File
		for _, name := range l.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
		cfg := types.Config{Importer: imp}
		pkg, err := cfg.Check(l.ImportPath, fset, files, info)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		for _, used := range pkg.Imports() {
			for _, name := range used.Scope().Names() {
				u.exists[objectName(used.Scope().Lookup(name))] = true
			}
		}
		for _, o := range info.Defs {
			u.exists[objectName(o)] = true
		}
		for _, s := range info.Selections {
			u.exists[selected(s)] = true
		}
		for _, f := range files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					u.look(info, objectName(info.Defs[fn.Name]), fn.Body)
				}
			}
		}
	}
	return u
}

// look records the fields that one function writes and the functions that it calls. If a function
// takes the address of a field, the field counts as written.
func (u *uses) look(info *types.Info, by string, body ast.Node) {
	enter := func(e ast.Expr) {
		switch e := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			if s := info.Selections[e]; s != nil {
				u.by[selected(s)] = append(u.by[selected(s)], by)
			} else if o := info.Uses[e.Sel]; o != nil {
				u.by[objectName(o)] = append(u.by[objectName(o)], by)
			}
		case *ast.Ident:
			if o := info.Uses[e]; o != nil {
				u.by[objectName(o)] = append(u.by[objectName(o)], by)
			}
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				enter(e)
			}
		case *ast.IncDecStmt:
			enter(n.X)
		case *ast.CallExpr:
			enter(n.Fun)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				enter(n.X)
			}
		}
		return true
	})
}

// selected returns the name of a field or method, prefixed by the type that declares it.
func selected(s *types.Selection) string {
	if s.Kind() != types.FieldVal {
		return objectName(s.Obj())
	}
	t := s.Recv()
	for _, i := range s.Index()[:len(s.Index())-1] { // through embedded fields
		t = deref(t).Underlying().(*types.Struct).Field(i).Type()
	}
	return fmt.Sprintf("%s.%s", typeName(t), s.Obj().Name())
}

// objectName returns the name of a function or method.
func objectName(o types.Object) string {
	f, ok := o.(*types.Func)
	if !ok || f.Pkg() == nil {
		return ""
	}
	if recv := f.Signature().Recv(); recv != nil {
		return fmt.Sprintf("%s.%s", typeName(recv.Type()), f.Name())
	}
	return f.Pkg().Name() + "." + f.Name()
}

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

func typeName(t types.Type) string {
	n, ok := types.Unalias(deref(t)).(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return deref(t).String()
	}
	return n.Obj().Pkg().Name() + "." + n.Obj().Name()
}
