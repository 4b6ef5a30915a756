package sweep

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// finale is the last act of a contest. A NIC vanishes while no other wants anything of it, and its names must be gone in the
// end. Or the others notice soon, since they tell it something, and it comes back in another life before they have
// forgotten its names. It is out of their reach at first, so its processes claim those names again without the word of
// another NIC. Then the others must not take what they still have for the later claims.
func (c *contest) finale(p *sim.Process) {
	host := 1 + c.rng.IntN(c.nics-1) // the umpire's stays
	c.enter(c.another(), host)
	p.Runtime().Sleep(context.Background(), 5*time.Second) // for all that is under way
	c.vanish(host)
	if c.rng.IntN(2) == 0 {
		return
	}
	c.stormy = true
	c.enter(c.another(), 0)
	p.Runtime().Sleep(context.Background(), 3*time.Second)
	for _, i := range c.rng.Perm(len(c.names)) {
		c.enter(c.names[i], host) // when it is back
	}
	heal := c.f.Partition(host)
	c.f.StartNIC(host)
	p.Runtime().Sleep(context.Background(), time.Duration(c.rng.Int64N(int64(4*time.Second))))
	heal()
}

// another returns a name that no process has claimed yet.
func (c *contest) another() vni.Name {
	name := vni.Name{App: c.names[0].App, Index: uint32(len(c.names))}
	c.names = append(c.names, name)
	return name
}
