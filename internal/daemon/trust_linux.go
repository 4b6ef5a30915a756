package daemon

import (
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/trust"
)

// tellTrust logs whether links are sealed, and by which keys.
func (d *Daemon) tellTrust() {
	s := &d.settings
	if s.config.Plain {
		d.log.Warn("the link is plain: frames are neither encrypted nor authenticated, "+
			"and any host that reaches this one can read and change memory",
			"mend", "remove plain = true, which is for measuring")
		return
	}
	k := d.live.Load().keys
	if k.note != "" {
		d.log.Warn("fabric", "what", k.note)
	}
	d.log.Info("links are sealed", "key", d.key.Public(), "fabric", k.keys[0].Fingerprint(),
		"fabric_keys", len(k.keys), "from", k.from,
		"authorities", len(s.trusted.authorities), "plain_resident", s.config.plainResident())
}

// addNode tells the engine of a node, and of its key if the list binds one. The loop's lock is
// held, or there is no loop.
func (d *Daemon) addNode(n registry.Node) error {
	err := d.engine.AddNode(uint64(n.ID), n.Addr, n.Addrs()[1:]...)
	if err != nil || n.Key == (trust.PublicKey{}) {
		return err
	}
	return d.engine.Bind(uint64(n.ID), n.Key)
}
