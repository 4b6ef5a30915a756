// Package file reads which NICs exist from a TOML file (QNIX-52's configuration file). It stands apart from package
// registry so that programs which embed a NIC, and have no such file, do not link a TOML parser.
package file

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/weftnet/weft/internal/registry"
)

// Entry is a node as a TOML file has it:
//
//	[[node]]
//	id      = "0:0:0:96:221:127:255:140"   # may be left out
//	address = "10.0.0.2:7700"
type Entry struct {
	ID      string `toml:"id"`
	Address string `toml:"address"`
}

// Node reads the two fields.
func (e Entry) Node() (registry.Node, error) {
	s := e.Address
	if e.ID != "" {
		s = e.ID + "@" + e.Address
	}
	return registry.ParseNode(s)
}

// Load reads a file with nothing but [[node]] tables: one file that all hosts of a fabric share.
func Load(path string) (*registry.Static, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	var f struct {
		Node []Entry `toml:"node"`
	}
	if err := DecodeTOML(b, &f, "[[node]] with id and address"); err != nil {
		return nil, fmt.Errorf("registry: %s: %w", path, err)
	}
	nodes, err := Nodes(f.Node)
	if err != nil {
		return nil, fmt.Errorf("registry: %s: %w", path, err)
	}
	return registry.NewStatic(nodes)
}

// Nodes reads a list of entries, and names every one that is wrong.
func Nodes(entries []Entry) (nodes []registry.Node, err error) {
	var errs []error
	for _, e := range entries {
		n, err := e.Node()
		errs = append(errs, err)
		nodes = append(nodes, n)
	}
	return nodes, errors.Join(errs...)
}

// DecodeTOML reads a whole file strictly. A key that into does not have is refused by its name and place, with what was
// expected.
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
			errs = append(errs, fmt.Errorf("line %d: unknown key %q; expected %s", row, strings.Join(unknown.Errors[i].Key(), "."), expected))
		}
		return errors.Join(errs...)
	case errors.As(err, &wrong):
		row, _ := wrong.Position()
		if k := wrong.Key(); len(k) > 0 {
			return fmt.Errorf("line %d: key %q: %s", row, strings.Join(k, "."), strings.TrimPrefix(wrong.Error(), "toml: "))
		}
		return fmt.Errorf("line %d: %s", row, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return err
}
