package daemon

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// The differences of two configurations, by key, as a reload reports them.

// reloadable holds the keys that a reload applies while the NIC runs. Every other key needs a
// restart, and so do some of these beside another change: see step.applies. The nodes, the fabric
// keys, the certificate and the revocation lists are compared by their contents, in
// reload_linux.go.
var reloadable = map[string]bool{
	"log": true, "allow_uids": true, "allow_gids": true, "program_uids": true, "slots": true, "grants": true,
	"key_files": true, "certificate": true, "revocations": true, "registry": true,
}

// The names of changes in the contents of files, which have no key.
const (
	changedNode        = "node"
	changedPosition    = "position of this NIC"
	changedCertificate = "certificate of this NIC"
	changedAuthorities = "keys of authorities"
	changedToken       = "token of metrics"
)

// ofLink holds the keys that each link has for itself. The other keys apply to all links, and the
// first link reports them.
var ofLink = map[string]bool{
	"id": true, "link": true, "prefer": true, "listen": true, "mtu": true, "certificate": true, "capture": true,
	"registry": true, "gossip": true, changedNode: true, changedPosition: true, changedCertificate: true,
}

// different returns the keys of the configuration file that differ between now and next, in
// alphabetical order. now and next are settings of the same link. It leaves out the tables of nodes
// and of named links: the settings hold the link's part of them.
func different(now, next *settings) (applied, restart []ctl.Change) {
	was, is := now.config.values(), next.config.values()
	if !slices.Equal(now.torusText(), next.torusText()) { // the registry may give it
		was["torus"], is["torus"] = strings.Join(now.torusText(), ", "), strings.Join(next.torusText(), ", ")
	}
	keys := maps.Clone(was)
	maps.Copy(keys, is)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		table, _, _ := strings.Cut(key, ".")
		if was[key] == is[key] || now.config.besides && !ofLink[table] {
			continue
		}
		c := ctl.Change{Key: key, Was: shortened(was[key]), Is: shortened(is[key])}
		if reloadable[table] {
			applied = append(applied, c)
		} else {
			restart = append(restart, c)
		}
	}
	return applied, restart
}

func (s *settings) torusText() []string {
	if s.torus == (registry.Torus{}) {
		return nil
	}
	return []string{strconv.Itoa(s.torus.Width), strconv.Itoa(s.torus.Height)}
}

// values returns the keys of the file with their values as text. An empty text is the default.
func (c Config) values() map[string]string {
	all := make(map[string]string)
	collect(all, "", reflect.ValueOf(c))
	return all
}

// collect adds the keys of a table.
func collect(all map[string]string, prefix string, table reflect.Value) {
	for i := range table.NumField() {
		key := table.Type().Field(i).Tag.Get("toml")
		if key == "" || key == "-" || key == "node" || key == "links" {
			continue
		}
		v := table.Field(i)
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			v = v.Elem()
		}
		switch key = prefix + key; {
		case table.Field(i).Kind() == reflect.Pointer && v.Kind() != reflect.Struct:
			all[key] = fmt.Sprint(v.Interface()) // zero is a value here
		case v.Kind() == reflect.Struct:
			all[key] = "set" // an empty table may have an effect, as that of gossip
			collect(all, key+".", v)
		case v.Kind() == reflect.Map:
			for m := v.MapRange(); m.Next(); {
				all[key+"."+m.Key().String()] = valueText(m.Value())
			}
		default:
			all[key] = valueText(v)
		}
	}
}

// valueText returns the text of a value. An empty list in a table of lists is a value, too.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Slice && v.IsNil() || v.IsZero() && v.Kind() != reflect.Slice && v.Kind() != reflect.Bool {
		return ""
	}
	if d, ok := v.Interface().(Duration); ok {
		return time.Duration(d).String()
	}
	return fmt.Sprint(v.Interface())
}

// changedNodes returns the nodes that differ between two lists.
func changedNodes(now, next []registry.Node) (all []ctl.Change) {
	at := func(list []registry.Node, n registry.Node) (registry.Node, bool) {
		i := slices.IndexFunc(list, func(o registry.Node) bool { return o.Addr == n.Addr || n.ID != 0 && o.ID == n.ID })
		if i < 0 {
			return registry.Node{}, false
		}
		return list[i], true
	}
	for _, n := range now {
		if o, is := at(next, n); !is {
			all = append(all, ctl.Change{Key: changedNode, Was: nodeText(n)})
		} else if o != n {
			all = append(all, ctl.Change{Key: changedNode, Was: nodeText(n), Is: nodeText(o)})
		}
	}
	for _, n := range next {
		if _, was := at(now, n); !was {
			all = append(all, ctl.Change{Key: changedNode, Is: nodeText(n)})
		}
	}
	return all
}

// nodeText returns all properties of a node in a list.
func nodeText(n registry.Node) string {
	text := n.String()
	if n.Name != "" {
		text += ", name " + n.Name
	}
	if n.At.Known {
		text += fmt.Sprintf(", position %d,%d", n.At.X, n.At.Y)
	}
	var none registry.Node
	if n.Key != none.Key {
		text += ", key " + n.Key.String()
	}
	return shortened(text)
}

// mostValue is the longest value of a change, in bytes. Lists of users can be long.
const mostValue = 256

// shortened returns a value, cut after mostValue bytes.
func shortened(s string) string {
	if len(s) <= mostValue {
		return s
	}
	return strings.ToValidUTF8(s[:mostValue], "") + "…"
}

// report returns the result of a reload, up to the size of one reply. If there is not enough room,
// it keeps the changes that need a restart, because the user must act on them.
func report(applied, restart []ctl.Change) *ctl.Reloaded {
	all := slices.Concat(restart, applied)
	page, _ := ctl.Page(all, 0)
	n := min(len(restart), len(page))
	return &ctl.Reloaded{Restart: page[:n], Applied: page[n:], Left: len(all) - len(page)}
}

// onLink adds the name of a link to the changes that concern only this link.
func onLink(changes []ctl.Change, link string) []ctl.Change {
	for i := range changes {
		if table, _, _ := strings.Cut(changes[i].Key, "."); ofLink[table] {
			changes[i].Link = link
		}
	}
	return changes
}
