// Package grants edits the table of grants in a daemon's configuration, and leaves all other text
// unchanged:
//
//	[grants]
//	"0:0:0:96:221:127:255:140" = ["observe", "run=alice,bob"]
//
// It checks each edit: after decoding, the new text differs from the old one only in the edited
// grant.
package grants

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/trust"
)

const table = "grants"

// Line returns the grant as a line of the table.
func Line(id nicid.ID, roles trust.Roles) string {
	return strconv.Quote(id.String()) + " = " + value(roles)
}

func value(roles trust.Roles) string {
	quoted := roles.Strings()
	for i, s := range quoted {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// place describes where a grant is in a text.
type place struct {
	header   int // offset of the line after [grants]; -1 without the table
	from, to int // the key and its value; from is -1 without the grant
	value    int // offset of the value
}

// find parses text for the grant of id. The error names the line of a mistake, or says that the
// table is an inline table.
func find(text []byte, id nicid.ID) (place, error) {
	at := place{header: -1, from: -1}
	var wrong *toml.DecodeError
	if err := toml.Unmarshal(text, new(map[string]any)); errors.As(err, &wrong) {
		line, _ := wrong.Position()
		return at, fmt.Errorf("line %d: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
	} else if err != nil {
		return at, err
	}
	p := unstable.Parser{}
	p.Reset(text)
	inside := ""
	for p.NextExpression() {
		e := p.Expression()
		path, last := pathOf(e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			inside = path
			if path == table && e.Kind == unstable.Table {
				at.header = lineAfter(text, int(last.Offset))
			}
		case unstable.KeyValue:
			if inside != "" {
				path = inside + "\x00" + path
			}
			if path == table {
				return at, errors.New("grants is an inline table or a value; write it as a table: [grants]")
			}
			if path == table+"\x00"+id.String() {
				at.from, at.to = int(e.Raw.Offset), int(e.Raw.Offset+e.Raw.Length)
				at.to = at.from + len(bytes.TrimRight(text[at.from:at.to], " \t\r\n"))
				key := int(last.Offset + last.Length)
				at.value = key + bytes.IndexByte(text[key:], '=') + 1
				at.value += len(text[at.value:]) - len(bytes.TrimLeft(text[at.value:], " \t"))
			}
		}
	}
	return at, p.Error()
}

// pathOf returns the parts of an expression's key, joined by zero bytes, and the place of the last
// part.
func pathOf(e *unstable.Node) (path string, last unstable.Range) {
	var parts []string
	for it := e.Key(); it.Next(); {
		parts = append(parts, string(it.Node().Data))
		last = it.Node().Raw
	}
	return strings.Join(parts, "\x00"), last
}

// lineAfter returns the offset of the line after the one at offset.
func lineAfter(text []byte, offset int) int {
	if n := bytes.IndexByte(text[offset:], '\n'); n >= 0 {
		return offset + n + 1
	}
	return len(text)
}

// Set returns text with the new grant of id, which replaces any old one.
func Set(text []byte, id nicid.ID, roles trust.Roles) ([]byte, error) {
	at, err := find(text, id)
	if err != nil {
		return nil, err
	}
	var edited []byte
	switch {
	case at.from >= 0:
		edited = splice(text, at.value, at.to, value(roles))
	case at.header >= 0:
		line := Line(id, roles) + "\n"
		if at.header > 0 && text[at.header-1] != '\n' {
			line = "\n" + line
		}
		edited = splice(text, at.header, at.header, line)
	default:
		before := ""
		if len(text) > 0 {
			before = "\n"
			if text[len(text)-1] != '\n' {
				before = "\n\n"
			}
		}
		edited = splice(text, len(text), len(text), before+"["+table+"]\n"+Line(id, roles)+"\n")
	}
	want := make([]any, 0, 4)
	for _, s := range roles.Strings() {
		want = append(want, s)
	}
	return edited, check(text, edited, id, want)
}

// Remove returns text without the grant of id. removed is false if there is none.
func Remove(text []byte, id nicid.ID) (edited []byte, removed bool, err error) {
	at, err := find(text, id)
	if err != nil || at.from < 0 {
		return text, false, err
	}
	start := bytes.LastIndexByte(text[:at.from], '\n') + 1
	edited = splice(text, start, lineAfter(text, at.to), "")
	return edited, true, check(text, edited, id, nil)
}

func splice(text []byte, from, to int, with string) []byte {
	return append(append(bytes.Clone(text[:from]), with...), text[to:]...)
}

// check compares the meanings of two texts. They may differ only in the grant of id. In the new
// text the grant must be want, or absent if want is nil.
func check(before, after []byte, id nicid.ID, want []any) error {
	var was, is map[string]any
	if err := toml.Unmarshal(before, &was); err != nil {
		return err
	}
	if err := toml.Unmarshal(after, &is); err != nil {
		return fmt.Errorf("the edited text is wrong (%w); edit [grants] by hand", err)
	}
	if was == nil { // an empty text
		was = map[string]any{}
	}
	if is == nil {
		is = map[string]any{}
	}
	granted, _ := was[table].(map[string]any)
	if granted = maps.Clone(granted); granted == nil {
		granted = map[string]any{}
	}
	if want != nil {
		granted[id.String()] = want
	} else {
		delete(granted, id.String())
	}
	was[table] = granted
	if is[table] == nil { // the last grant was a dotted key
		is[table] = map[string]any{}
	}
	if !reflect.DeepEqual(was, is) {
		return errors.New("the text is written in a way that cannot be edited safely; edit [grants] by hand")
	}
	return nil
}
