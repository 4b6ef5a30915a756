package daemon

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/secure"
	"github.com/weftnet/weft/internal/trust"
)

// trusted holds what the configuration says about other NICs, and about this one's certificate.
type trusted struct {
	certificate []byte // encoded; nil without one
	authorities []trust.CAPublic
	revocations string   // the file of the lists; empty without authorities
	lists       [][]byte // lists that the file held
	grants      map[nicid.ID]trust.Roles
}

// Programs is the part of a Config about programs of users.
type Programs struct {
	PlainResident bool `toml:"plain_resident"`
}

// plainResident reports whether datagrams of programs in drivers may go unsealed.
func (c Config) plainResident() bool { return c.Programs != nil && c.Programs.PlainResident }

// trusted reads the files that the configuration names about trust.
func (c Config) trusted(stateDir string, wrong func(key, format string, args ...any)) (t trusted) {
	var err error
	if t.authorities, err = fabric.ReadAuthorities(c.Authorities); err != nil {
		wrong("authorities", "%w", err)
	} else if n := len(t.authorities); n > limits.CertificateAuthorities {
		wrong("authorities", "%d of them; expected at most %d", n, limits.CertificateAuthorities)
	}
	if c.Certificate != "" {
		certificate, err := fabric.ReadCertificate(c.Certificate)
		switch {
		case err != nil:
			wrong("certificate", "%w", err)
		case len(c.Authorities) == 0:
			wrong("certificate",
				"no authority is named; expected authorities with the public key that weft fabric ca show prints")
		default:
			t.certificate = certificate.Append(nil)
		}
	}
	switch {
	case len(c.Authorities) > 0:
		if t.revocations = c.Revocations; t.revocations == "" {
			t.revocations = filepath.Join(stateDir, "revocations")
		}
		if t.lists, err = fabric.ReadRevocations(t.revocations); err != nil {
			wrong("revocations", "%w", err)
		}
	case c.Revocations != "":
		wrong("revocations",
			"no authority is named; expected authorities with the public key that weft fabric ca show prints")
	}
	t.grants = make(map[nicid.ID]trust.Roles)
	for text, roles := range c.Grants {
		id, err := nicid.Parse(text)
		if err == nil {
			t.grants[id], err = trust.ParseRoles(roles...)
		}
		if err != nil {
			wrong("grants."+text, "%w; weft fabric grant writes grants", err)
		}
	}
	return t
}

// bound returns the keys to which the list of nodes binds ids.
func bound(nodes []registry.Node) map[nicid.ID]trust.PublicKey {
	ids := make(map[nicid.ID]trust.PublicKey)
	for _, n := range nodes {
		if n.Key != (trust.PublicKey{}) {
			ids[n.ID] = n.Key
		}
	}
	return ids
}

// usersOwn reports whether the daemon is a user's, and not root's. The holders of its fabric key
// are then the user's own processes.
func usersOwn() bool { return os.Geteuid() != 0 }

// fabricKeys returns the keys of the fabric, and where they were found. Unless mayMake is true,
// it makes no key. If there is none then, the note tells why. Any other note is for the log.
func (s *settings) fabricKeys(mayMake bool) (keys []trust.FabricKey, source, note string, err error) {
	if files := s.config.KeyFiles; len(files) > 0 {
		if keys, err = fabric.LoadFiles(files); err != nil {
			err = s.config.mistake("key_files", "%w", err)
		}
		return keys, files[0], "", err
	}
	if os.Getenv(fabric.FileVariable) != "" {
		return fabric.Load("")
	}
	path := filepath.Join(cmp.Or(s.config.fabricDir, s.stateDir), fabric.FileName)
	if usersOwn() {
		if path, err = fabric.DefaultFile(); err != nil {
			if !mayMake {
				return nil, "", err.Error(), nil
			}
			return fabric.Load("") // a key for this process, and why
		}
	}
	if mayMake {
		return fabric.LoadOrMake(path)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, path, err.Error(), nil
	}
	keys, err = fabric.LoadKept(path)
	return keys, path, "", err
}

// staticKey returns the static key in the state directory. Unless mayMake is true, it makes no
// file, and the key may be a fresh one.
func (s *settings) staticKey(mayMake bool) (k trust.PrivateKey, err error) {
	path := filepath.Join(s.stateDir, fabric.StaticKeyName)
	_, err = os.Stat(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh && s.id != 0 && !s.config.Plain {
		return k, fmt.Errorf("id: there is no static key yet to which NIC %v could be bound; "+
			"run weft fabric key --state-dir %s, and bind the id to what it prints "+
			"by [[node]] id and key, or by a certificate", s.id, s.stateDir)
	}
	if fresh && !mayMake {
		return trust.NewPrivateKey(rand.Reader)
	}
	return fabric.StaticKey(s.stateDir)
}

// seal makes the links of an engine sealed, and gives it its id. The error says what is wrong
// with the keys, the id or the certificate, and names the cure. On a plain link seal only sets
// the id.
func (s *settings) seal(c *nic.Config, key trust.PrivateKey, keys []trust.FabricKey) error {
	if s.config.Plain {
		if c.ID = uint64(s.id); c.ID == 0 {
			c.ID = uint64(key.Public().ID())
		}
		return nil
	}
	o := secure.Options{
		ID: s.id, Key: key, Fabric: keys, Certificate: s.trusted.certificate, PlainResident: s.config.plainResident(),
		Policy: trust.PolicyConfig{
			Bound: bound(s.nodes.Nodes()), Authorities: s.trusted.authorities,
			Revocations: s.trusted.lists, Grants: s.trusted.grants,
		},
	}
	if usersOwn() {
		o.Policy.Default = trust.AllRoles
	}
	return secure.Apply(c, o)
}

// checkKeys checks the existing keys and the configuration about them. It makes no key.
func (s *settings) checkKeys() error {
	keys, _, _, err := s.fabricKeys(false)
	if err != nil {
		return err
	}
	key, err := s.staticKey(false)
	if err != nil {
		return err
	}
	return s.seal(new(nic.Config), key, keys)
}
