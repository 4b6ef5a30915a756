package weft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// What an alias of a type in an internal package has is not in its documentation by itself: the comment has to name each field.
func TestTheFieldsOfAliasesAreDocumented(t *testing.T) {
	of := map[string]any{"OpError": weft.OpError{}, "ProgramOptions": weft.ProgramOptions{}, "ProgramInfo": weft.ProgramInfo{}, "PlacedProgram": weft.PlacedProgram{}}
	comments := make(map[string]string)
	fset := token.NewFileSet()
	for _, name := range []string{"errors.go", "programs.go"} {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				comments[g.Specs[0].(*ast.TypeSpec).Name.Name] = g.Doc.Text()
			}
		}
	}
	for name, value := range of {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			if f.IsExported() && !regexp.MustCompile(`\b`+f.Name+`\b`).MatchString(comments[name]) {
				t.Errorf("the documentation of %s does not name its field %s", name, f.Name)
			}
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && !regexp.MustCompile(`[\[ ]`+key+`[,\]]`).MatchString(comments[name]) {
				t.Errorf("the documentation of %s does not name the key %s", name, key)
			}
		}
	}
}
