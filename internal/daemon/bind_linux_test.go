package daemon_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/trust"
)

// stateDir makes the state directory of a daemon, and returns it.
func stateDir(t *testing.T, c daemon.Config) string {
	t.Helper()
	dir := c.StateDir
	if dir == "" {
		dir = strings.TrimSuffix(c.Socket, ".sock") + ".state"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// staticKey returns the static key of a daemon. It makes the key if the daemon has not been
// started yet.
func staticKey(t *testing.T, c daemon.Config) trust.PrivateKey {
	t.Helper()
	k, err := fabric.StaticKey(stateDir(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// bind gives daemon i an id, and makes all configurations bind the id to the daemon's static key.
func bind(t *testing.T, configs []daemon.Config, i int, id string) {
	t.Helper()
	key := staticKey(t, configs[i]).Public().String()
	configs[i].ID = id
	for k := range configs {
		c := &configs[k]
		c.Nodes = slices.Clone(c.Nodes) // the configurations may share it
		at := slices.IndexFunc(c.Nodes, func(e file.Entry) bool { return e.Address == configs[i].Listen })
		if at < 0 {
			at = len(c.Nodes)
			c.Nodes = append(c.Nodes, file.Entry{Address: configs[i].Listen})
		}
		c.Nodes[at].ID, c.Nodes[at].Key = id, key
	}
}

// copyKey gives one daemon the static key of another, as a copied state directory does, and
// returns the id that both then have.
func copyKey(t *testing.T, from, to daemon.Config) string {
	t.Helper()
	key := staticKey(t, from)
	path := filepath.Join(stateDir(t, to), fabric.StaticKeyName)
	if err := os.WriteFile(path, []byte(key.Text()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return key.Public().ID().String()
}

// grant grants each daemon these roles at every other: a daemon of root grants none by itself.
func grant(t *testing.T, configs []daemon.Config, roles ...string) {
	t.Helper()
	all := make(map[string][]string)
	for _, c := range configs {
		all[staticKey(t, c).Public().ID().String()] = roles
	}
	for i := range configs {
		configs[i].Grants = all
	}
}
