package nic

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// insiders holds the exported methods of Engine and Straight that need not call begin first, each
// with the reason.
var insiders = map[string]string{
	"Engine.ID":           "never changes",
	"Engine.Driver":       "never changes",
	"Engine.Groups":       "never changes; groups meet messages nowhere",
	"Engine.Lookup":       "no message changes the tables",
	"Engine.Names":        "no message changes the tables",
	"Engine.Applications": "no message changes the tables",
	"Engine.Session":      "no message changes it",
	"Engine.Told":         "asked behind a poll, about it",
	"Engine.Answered":     "asked behind a poll, about it",
	"Engine.WaitsAt":      "asked behind a poll, about the queues that it listens to",
	"Engine.Listening":    "asked behind a poll, about the queues that it listens to",
	"Straight.Behind":     "looks at the command queue alone",
	"Straight.Idle":       "may be asked without the engine",
	"Straight.Post":       "needs nothing that is deferred, so that an answer leaves first",
	"Straight.Meet":       "stands behind Expect, and defers what it does",
	"Straight.Due":        "stands behind Meet, which has settled what is due at once",
	"Straight.Sent":       "stands behind Send",
	"Straight.Hold":       "stands behind Send",
}

// Data of the engine that belong together are one field, of a type with its own methods.
func TestTheEngineIsMadeOfFewParts(t *testing.T) {
	if n := reflect.TypeFor[Engine]().NumField(); n > 40 {
		t.Errorf("it has %d fields; expected 40 at most", n)
	}
}

// Every call from outside settles deferred work (lone.go) by Engine.begin before it calls anything
// else.
func TestEveryEntryIntoTheEngineGoesThroughTheDoor(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[string]any)
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			sources[f] = nil
		}
	}
	passes, err := entries(sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(passes) < 40 {
		t.Fatalf("only %d exported methods are found", len(passes))
	}
	for _, m := range slices.Sorted(maps.Keys(passes)) {
		if _, listed := insiders[m]; !passes[m] && !listed {
			t.Errorf("%s calls something before it begins, or never begins", m)
		} else if passes[m] && listed {
			t.Errorf("%s begins so, and is listed as one that need not", m)
		}
	}
	for m := range insiders {
		if _, ok := passes[m]; !ok {
			t.Errorf("there is no %s", m)
		}
	}
}

func TestAnEntryThatMissesTheDoorIsNoticed(t *testing.T) {
	const head = `package nic
type Engine struct { n int; o other }
type Straight struct { e *Engine }
type other struct{}
func (e *Engine) begin() {}
func (o other) f() bool { return true }
func (s *Straight) ready() bool { s.e.begin(); return true }
func use() {}
`
	for body, want := range map[string]bool{
		"func (e *Engine) F() { e.begin(); use() }":                               true,
		"func (e *Engine) F() { n := e.n; if n > 1 { return }; e.begin() }":       true,
		"func (e *Engine) F() { use(); e.begin() }":                               false,
		"func (e *Engine) F() {}":                                                 false,
		"func (e *Engine) F() { if e.n > 1 { e.begin() }; use() }":                false,
		"func (e *Engine) F() { defer e.begin(); use() }":                         false,
		"func (e *Engine) F() { for range e.n { use() }; e.begin() }":             false,
		"func (e *Engine) F() bool { return e.o.f() }":                            false,
		"func (e *Engine) F() { func() { e.begin() }() }":                         false,
		"func (s *Straight) F() { if s.e.n > 1 || !s.ready() { return }; use() }": true,
		"func (s *Straight) F() { if s.e.o.f() || !s.ready() { return } }":        false,
		"func (s *Straight) F() bool { e := s.e; _ = len(\"\") + int(e.n); return s.G() }\nfunc (s *Straight) G() bool { return s.ready() }": true,
	} {
		passes, err := entries(map[string]any{"a.go": head + body})
		if err != nil {
			t.Fatal(err)
		}
		m := "Engine.F"
		if strings.Contains(body, "(s *Straight) F") {
			m = "Straight.F"
		}
		if got, ok := passes[m]; !ok || got != want {
			t.Errorf("%s: found %v, passes %v, want %v", body, ok, got, want)
		}
	}
}

// entries reports for each exported method of Engine and Straight whether it passes the door
// before it calls anything else.
func entries(sources map[string]any) (map[string]bool, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		f, err := parser.ParseFile(fset, name, sources[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	d := doors{bodies: make(map[types.Object]*ast.FuncDecl), known: make(map[types.Object]bool)}
	d.info = types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object), Types: make(map[ast.Expr]types.TypeAndValue)}
	// The contents of other packages do not matter.
	conf := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := conf.Check("nic", fset, files, &d.info)
	for _, f := range files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				d.bodies[d.info.Defs[fn.Name]] = fn
			}
		}
	}
	passes := make(map[string]bool)
	for _, name := range []string{"Engine", "Straight"} {
		methods := types.NewMethodSet(types.NewPointer(pkg.Scope().Lookup(name).Type()))
		for i := range methods.Len() {
			if m := methods.At(i).Obj(); m.Exported() {
				passes[name+"."+m.Name()] = d.passes(m)
			}
		}
	}
	return passes, nil
}

// nothing imports every package as an empty one.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

type doors struct {
	info   types.Info
	bodies map[types.Object]*ast.FuncDecl
	known  map[types.Object]bool
}

// passes reports whether the first call of a function is the door, or a function that passes it.
func (d *doors) passes(f types.Object) bool {
	fn := d.bodies[f]
	if fn == nil || fn.Recv == nil || fn.Body == nil {
		return false
	}
	if f.Name() == "begin" {
		return true
	}
	if known, ok := d.known[f]; ok {
		return known
	}
	d.known[f] = false // for now, in case it calls itself
	for _, s := range fn.Body.List {
		if first, always := d.firstCall(s); first != nil {
			d.known[f] = always && d.passes(d.callee(first))
			break
		}
	}
	return d.known[f]
}

// firstCall returns the call of a statement that comes first in the text. It reports whether the
// statement always makes this call if the function continues: a condition in front of the call may
// have ended the function.
func (d *doors) firstCall(s ast.Stmt) (first *ast.CallExpr, always bool) {
	always = true
	switch s := s.(type) {
	case *ast.IfStmt:
		if s.Init != nil {
			if first, always = d.firstCall(s.Init); first != nil {
				return first, always
			}
		}
		if first = d.callIn(s.Cond); first != nil {
			return first, true
		}
		return d.callIn(s), false
	case *ast.AssignStmt, *ast.ExprStmt, *ast.ReturnStmt, *ast.DeclStmt, *ast.IncDecStmt:
		return d.callIn(s), true
	}
	return d.callIn(s), false
}

// callIn returns the first call in a piece of code that is neither a conversion nor a builtin
// function.
func (d *doors) callIn(n ast.Node) (first *ast.CallExpr) {
	ast.Inspect(n, func(n ast.Node) bool {
		if _, later := n.(*ast.FuncLit); later {
			return false
		}
		if c, ok := n.(*ast.CallExpr); ok && first == nil {
			if tv := d.info.Types[c.Fun]; !tv.IsType() && !tv.IsBuiltin() {
				if in := d.callIn(c.Fun); in != nil { // the function is the result of a call
					c = in
				}
				for _, a := range c.Args { // arguments come first
					if in := d.callIn(a); in != nil {
						c = in
						break
					}
				}
				first = c
			}
		}
		return first == nil
	})
	return first
}

func (d *doors) callee(c *ast.CallExpr) types.Object {
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		return d.info.Uses[f.Sel]
	case *ast.Ident:
		return d.info.Uses[f]
	}
	return nil
}
