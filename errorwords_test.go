//go:build unix

package weft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wanted matches an error text that uses another word for "expected".
var wanted = regexp.MustCompile(`[:;,(] (want|wanted|wants) `)

func TestEveryErrorSaysExpectedAndNotWant(t *testing.T) {
	texts, files := 0, token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			if strings.Contains(text.Value, "expected ") {
				texts++
			}
			if wanted.MatchString(text.Value) {
				t.Errorf("%v: %s; expected the word %q", files.Position(text.Pos()), text.Value, "expected")
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if texts < 300 {
		t.Errorf("%d texts say what was expected; the search must be broken", texts)
	}
}
