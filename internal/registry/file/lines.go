package file

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Lines holds the line of each key and each table of a TOML file, so that an error about a value
// has its place. A key is preceded by its tables: "listen", "vni.contexts", and "node.1.address"
// in the second [[node]].
type Lines map[string]int

// LinesOf returns the lines of a file that DecodeTOML has accepted.
func LinesOf(b []byte) Lines {
	l := Lines{}
	table, nth := "", map[string]int{}
	p := unstable.Parser{}
	p.Reset(b)
	for p.NextExpression() {
		e := p.Expression()
		key, line := keyOf(&p, e)
		switch e.Kind {
		case unstable.Table:
			table = key + "."
		case unstable.ArrayTable:
			n := nth[key]
			nth[key]++
			key += "." + strconv.Itoa(n)
			table = key + "."
		case unstable.KeyValue:
			key = table + key
		}
		l[key] = line
	}
	return l
}

// keyOf returns the key of an expression, and its line.
func keyOf(p *unstable.Parser, e *unstable.Node) (key string, line int) {
	var parts []string
	for it := e.Key(); it.Next(); {
		n := it.Node()
		parts = append(parts, string(n.Data))
		line = p.Shape(n.Raw).Start.Line
	}
	return strings.Join(parts, "."), line
}

// Under returns the lines of the keys in a table, without its name.
func (l Lines) Under(table string) Lines {
	in := Lines{}
	for key, line := range l {
		if rest, ok := strings.CutPrefix(key, table+"."); ok {
			in[rest] = line
		}
	}
	return in
}

// Overridden notes that the value of key is no longer that of the file.
func (l Lines) Overridden(key string) {
	if l != nil {
		l[key] = 0
	}
}

// At adds the line of key to err, or of the table that holds key. It returns err alone if neither
// is in the file, or if the value is no longer the file's.
func (l Lines) At(key string, err error) error {
	if err == nil {
		return nil
	}
	for ; key != ""; key = key[:max(strings.LastIndexByte(key, '.'), 0)] {
		switch line, ok := l[key]; {
		case ok && line == 0:
			return err
		case ok:
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	return err
}
