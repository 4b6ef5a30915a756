// Package file reads the list of existing NICs from a TOML file (QNIX-52's configuration file).
// It is separate from package registry so that programs that embed a NIC, and have no such file,
// do not link a TOML parser.
package file

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/trust"
)

// Entry is a node in a TOML file:
//
//	[[node]]
//	id      = "0:0:0:96:221:127:255:140"   # optional
//	key     = "weftpub1-…"                  # optional: its static key; without id,
//	                                        # the id is that of the key
//	name    = "host-3"                      # optional: a name for programs and tools
//	address = "10.0.0.2:7700"              # or the name of its host; without a port: 7700
//	position = [3, 0]                       # on the torus, if the fabric is one
type Entry struct {
	ID       string `toml:"id"`
	Key      string `toml:"key"`
	Name     string `toml:"name"`
	Address  string `toml:"address"`
	Position []int  `toml:"position"`
}

// EntryOf returns the entry of a node in a flag, "ADDRESS" or "ID@ADDRESS".
func EntryOf(s string) Entry {
	id, addr, found := strings.Cut(s, "@")
	if !found {
		id, addr = "", s
	}
	if a, err := netip.ParseAddr(addr); err == nil {
		addr = netip.AddrPortFrom(a, registry.DefaultPort).String()
	}
	return Entry{ID: id, Address: addr}
}

// Node converts the fields. A position must be on t.
func (e Entry) Node(t registry.Torus) (registry.Node, error) { return e.node(t, registry.ResolveAll) }

// node is Node, with a resolver like registry.ResolveAll.
func (e Entry) node(t registry.Torus, resolve func(string, uint16) ([]netip.AddrPort, error)) (registry.Node, error) {
	all, err := resolve(e.Address, registry.DefaultPort)
	if err != nil {
		return registry.Node{}, err
	}
	s := all[0].String()
	if e.ID != "" {
		s = e.ID + "@" + s
	}
	n, err := registry.ParseNode(s)
	if err != nil {
		return n, err
	}
	copy(n.Others[:], all[1:])
	if e.Key != "" {
		if n.Key, err = trust.ParsePublicKey(e.Key); err != nil {
			return n, fmt.Errorf("node %v: key: %w; weft fabric key prints it on its host", n, err)
		}
		if n.ID == 0 {
			n.ID = n.Key.ID()
		}
	}
	if n.At, err = t.ParsePosition(e.Position); err != nil {
		return n, fmt.Errorf("node %v: %w", n, err)
	}
	if n.Name = e.Name; n.Name != "" {
		if err := registry.CheckName(n.Name); err != nil {
			return n, fmt.Errorf("node %v: %w", n, err)
		}
	}
	return n, nil
}

// Load reads a file with [[node]] tables, and optionally the size of the torus, but nothing else:
// one file that all hosts of a fabric share.
func Load(path string) (*registry.Static, registry.Torus, error) {
	fail := func(err error) (*registry.Static, registry.Torus, error) {
		return nil, registry.Torus{}, fmt.Errorf("registry: %s: %w", path, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, registry.Torus{}, fmt.Errorf("registry: %w", err)
	}
	var f struct {
		Torus []int   `toml:"torus"`
		Node  []Entry `toml:"node"`
	}
	if err := DecodeTOML(b, &f, "torus, or [[node]] with id, key, name, address and position"); err != nil {
		return fail(err)
	}
	lines := LinesOf(b)
	t, err := registry.ParseTorus(f.Torus)
	if err != nil {
		return fail(lines.At("torus", err))
	}
	nodes, err := Nodes(f.Node, t, lines)
	if err != nil {
		return fail(err)
	}
	s, err := registry.NewStatic(nodes)
	return s, t, err
}

// Nodes converts a list of entries on a torus. The error names every wrong entry, with its line
// if it is known.
func Nodes(entries []Entry, t registry.Torus, lines Lines) (nodes []registry.Node, err error) {
	var errs []error
	for i, e := range entries {
		n, err := e.Node(t)
		errs = append(errs, lines.At("node."+strconv.Itoa(i), err))
		nodes = append(nodes, n)
	}
	return nodes, errors.Join(errs...)
}

// DecodeTOML decodes a whole file strictly. An unknown key is refused with its name and place,
// and with the expected keys.
func DecodeTOML(b []byte, into any, expected string) error {
	d := toml.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		var errs []error
		for i := range unknown.Errors {
			row, _ := unknown.Errors[i].Position()
			errs = append(errs, fmt.Errorf("line %d: unknown key %q; expected %s",
				row, strings.Join(unknown.Errors[i].Key(), "."), expected))
		}
		return errors.Join(errs...)
	case errors.As(err, &wrong):
		row, _ := wrong.Position()
		if k := wrong.Key(); len(k) > 0 {
			return fmt.Errorf("line %d: key %q: %s", row, strings.Join(k, "."), plain(wrong))
		}
		return fmt.Errorf("line %d: %s", row, plain(wrong))
	}
	return err
}

// mistyped matches the TOML library's error for a value of the wrong type. That error names
// fields of Go structures, which mean nothing to the author of the file.
var mistyped = regexp.MustCompile(`^cannot (?:decode|store) (?:TOML )?(\w+) into .*type (\S+)$`)

// types describes Go types in terms of a file.
var types = map[string]string{
	"string": `text in quotes, such as "…"`, "bool": "true or false", "int": "a whole number",
	"int64": "a whole number",
}

// plain returns an error of the TOML library in terms of the file.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "toml: ")
	m := mistyped.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	expected, known := types[strings.TrimPrefix(m[2], "*")]
	if !known {
		expected = "a value of another type; see the table of keys in docs/nic.md"
	}
	return fmt.Sprintf("the value is of type %s; expected %s", m[1], expected)
}
