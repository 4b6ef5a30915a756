package weft

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/secure"
	"github.com/weftnet/weft/internal/trust"
)

// seal sets the id of an engine. If the link leaves this program and is not plain, seal also sets
// the keys.
func (c *Config) seal(ec *nic.Config) error {
	if c.Link.sw != nil || c.Plain {
		ec.Private = c.Link.sw != nil
		for ec.ID == 0 {
			ec.ID = random()
		}
		if c.Plain && c.Log != nil {
			c.tell("link")("plain: frames are neither encrypted nor authenticated")
		}
		return nil
	}
	o := secure.Options{
		ID: nicid.ID(c.ID), PlainResident: c.PlainResident, Policy: trust.PolicyConfig{Default: trust.AllRoles},
	}
	var err error
	if c.Key != "" {
		o.Key, err = fabric.StaticKeyFile(c.Key)
	} else {
		o.Key, err = trust.NewPrivateKey(rand.Reader)
	}
	if err != nil {
		return argument(fmt.Errorf("weft: Config.Key: %w", err))
	}
	var note string
	if o.Fabric = c.jobKey; o.Fabric == nil {
		if o.Fabric, _, note, err = fabric.Load(c.Fabric); err != nil {
			return argument(fmt.Errorf("weft: Config.Fabric: %w", err))
		}
	}
	if note != "" && c.Log != nil {
		c.tell("fabric")(note)
	}
	if o.Policy.Authorities, err = fabric.ReadAuthorities(c.Authorities); err != nil {
		return argument(fmt.Errorf("weft: Config.Authorities: %w", err))
	}
	if o.Certificate, err = c.certificate(); err != nil {
		return argument(fmt.Errorf("weft: Config.Certificate: %w", err))
	}
	if o.Policy.Bound, err = c.bound(o.Key); err != nil {
		return err
	}
	if err := secure.Apply(ec, o); err != nil {
		return argument(fmt.Errorf("weft: %w", err))
	}
	return nil
}

// certificate returns the encoded certificate. It returns nil if the configuration has no
// certificate.
func (c *Config) certificate() ([]byte, error) {
	switch {
	case c.Certificate == "":
		return nil, nil
	case len(c.Authorities) == 0:
		return nil, errors.New(
			"no authority is named; set Config.Authorities to the public key that weft fabric ca show prints")
	case c.Key == "":
		return nil, errors.New("the NIC has no key of its own; set Config.Key to the file of the key that was signed")
	}
	cert, err := fabric.ReadCertificate(c.Certificate)
	if err != nil {
		return nil, err
	}
	return cert.Append(nil), nil
}

// bound returns the ids that the configuration binds to keys. If the configuration sets the NIC's
// own id, this id is bound to the NIC's own key.
func (c *Config) bound(own trust.PrivateKey) (map[nicid.ID]trust.PublicKey, error) {
	l := make(map[nicid.ID]trust.PublicKey)
	if c.ID != 0 {
		l[nicid.ID(c.ID)] = own.Public()
	}
	for _, n := range c.Nodes {
		if n.Key == "" {
			continue
		}
		key, err := n.key()
		if err != nil {
			return nil, err
		}
		if n.ID == 0 {
			n.ID = NICID(key.ID())
		}
		l[nicid.ID(n.ID)] = key
	}
	return l, nil
}

// key returns the node's public key.
func (n Node) key() (trust.PublicKey, error) {
	key, err := trust.ParsePublicKey(n.Key)
	if err != nil {
		return key, argument(fmt.Errorf("weft: node %s: %w", n.Addr, err))
	}
	return key, nil
}
