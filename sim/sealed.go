package sim

import (
	"encoding/binary"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
)

// fabricKey is the key of every sealed fabric. A simulation holds no secrets.
var fabricKey = func() (k trust.FabricKey) {
	copy(k[:], "a simulated fabric")
	return k
}()

// keyOf returns the static key of a host's NIC. A restart does not change it.
func keyOf(id uint64) (k trust.PrivateKey) {
	copy(k[:], "a simulated NIC")
	binary.LittleEndian.PutUint64(k[16:], id)
	return k
}

// seal adds keys and policy to the configuration of a NIC, if the fabric is sealed.
func (n *node) seal(cfg *nic.Config) (err error) {
	h := &n.f.cfg.hooks
	if !h.Sealed {
		return nil
	}
	own := keyOf(n.id)
	cfg.Security = &rel.Security{Key: own, Fabric: []trust.FabricKey{fabricKey}}
	if h.Security != nil {
		h.Security(n.index, cfg.Security)
	}
	p := trust.PolicyConfig{ID: nicid.ID(n.id), Key: own.Public(), Bound: make(map[nicid.ID]trust.PublicKey)}
	for _, o := range n.f.nodes {
		p.Bound[nicid.ID(o.id)] = keyOf(o.id).Public()
	}
	if h.Trust != nil {
		h.Trust(n.index, &p)
	}
	cfg.WallSeconds = func(now clock.Time) int64 { return wall(now).Unix() }
	if cfg.Trust, err = trust.NewPolicy(p); err == nil && h.Policy != nil {
		h.Policy(n.index, cfg.Trust)
	}
	return err
}
