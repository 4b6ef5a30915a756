package weft_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pureFolders lists the folders of the protocol. The protocol is a value: its input and the time
// determine its output. The code in these folders starts no goroutine, reads no clock, never
// sleeps, makes no system call, and draws randomness only from a seed. So every run can be
// repeated.
var pureFolders = []string{
	"internal/clock", "internal/environ", "internal/freelist", "internal/histogram", "internal/limits", "internal/mutate", "internal/nicid", "internal/seal", "internal/secret", "internal/trust", "internal/wire", "internal/vni", "internal/driver", "internal/hotel", "internal/rel", "internal/names", "internal/coll", "internal/tree", "internal/relay", "internal/hsn", "internal/paging", "internal/program",
	"internal/nic",
	"pdl",
}

// withoutPurity lists folders inside pureFolders whose code passes the results of the others to
// the kernel.
var withoutPurity = []string{"pdl/ebpf"}

// impureImports lists the packages that do one of these things or tempt a programmer to do so. A
// "/" at the end stands for all packages below.
var impureImports = []string{"os", "os/", "net", "net/http", "syscall", "log", "crypto/rand", "golang.org/x/sys/", "math/rand"}

// pureSelectors lists the names that a pure package may use from packages that also have
// forbidden names.
var pureSelectors = map[string][]string{
	"time":         {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"},
	"math/rand/v2": {"Rand", "New", "Source", "PCG", "NewPCG", "ChaCha8", "NewChaCha8", "Zipf", "NewZipf"},
	"runtime":      {"KeepAlive"},
}

// impurities lists the violations in a file of a pure package.
func impurities(name string, src any) ([]string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var list []string
	report := func(at token.Pos, format string, args ...any) {
		p := fset.Position(at)
		list = append(list, fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...)))
	}
	watched := make(map[string]string) // local name → import path
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(impureImports, func(p string) bool {
			return imported == p || strings.HasSuffix(p, "/") && strings.HasPrefix(imported, p)
		}) {
			report(spec.Pos(), "imports %s", imported)
		}
		if pureSelectors[imported] != nil {
			local := path.Base(strings.TrimSuffix(imported, "/v2"))
			if spec.Name != nil {
				local = spec.Name.Name
			}
			watched[local] = imported
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n.Pos(), "starts a goroutine")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			if imported := watched[x.Name]; imported != "" && !slices.Contains(pureSelectors[imported], n.Sel.Name) {
				report(n.Pos(), "uses %s.%s", imported, n.Sel.Name)
			}
		}
		return true
	})
	return list, nil
}

func TestTheProtocolIsPure(t *testing.T) {
	for _, dir := range pureFolders {
		files := 0
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if slices.Contains(withoutPurity, filepath.ToSlash(name)) {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			files++
			found, err := impurities(name, nil)
			for _, v := range found {
				t.Error(v)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if files == 0 {
			t.Errorf("%s has no files", dir)
		}
	}
}

func TestImpurityIsNoticed(t *testing.T) {
	const head = "package p\nimport (\"time\"; \"math/rand/v2\"; r \"runtime\")\n"
	for body, want := range map[string]string{
		"var d = 5 * time.Second":            "",
		"var r = rand.New(rand.NewPCG(1,2))": "",
		"func f() { g() }":                   "",
		"func f() { go g() }":                "p.go:3: starts a goroutine",
		"var t = time.Now()":                 "p.go:3: uses time.Now",
		"func f() { time.Sleep(1) }":         "p.go:3: uses time.Sleep",
		"var t = time.NewTimer":              "p.go:3: uses time.NewTimer",
		"var n = rand.IntN(5)":               "p.go:3: uses math/rand/v2.IntN",
		"func f() { r.Gosched() }":           "p.go:3: uses runtime.Gosched",
	} {
		got, err := impurities("p.go", head+body)
		if err != nil || strings.Join(got, "; ") != want {
			t.Errorf("%s: %q, %v; want %q", body, got, err, want)
		}
	}
	for imported, bad := range map[string]bool{"os": true, "os/signal": true, "net": true, "net/netip": false, "errors": false,
		"math/rand": true, "math/rand/v2": false, "golang.org/x/sys/unix": true, "syscall": true} {
		got, err := impurities("p.go", fmt.Sprintf("package p\nimport %q", imported))
		if err != nil || (len(got) > 0) != bad {
			t.Errorf("import %q: %q, %v; want it reported: %v", imported, got, err, bad)
		}
	}
}
