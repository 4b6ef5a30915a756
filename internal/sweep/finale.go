package sweep

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// finale is the last act of a contest. In the first case, a NIC vanishes while no other NIC has
// an operation with it, and its names must be gone in the end. In the second case, the other NICs
// notice soon, because they have something to tell the NIC, and the NIC restarts before they have
// forgotten its names. At first it cannot be reached, so its processes claim those names again
// without the word of another NIC. Then the others must not mistake the claims that they still
// hold for the later ones.
func (c *contest) finale(p *sim.Process) {
	host := 1 + c.rng.IntN(c.nics-1) // the umpire's NIC stays
	c.enter(c.another(), host)
	p.Runtime().Sleep(context.Background(), 5*time.Second) // for everything in flight to arrive
	c.vanish(host)
	if c.rng.IntN(2) == 0 {
		return
	}
	c.stormy = true
	c.enter(c.another(), 0)
	p.Runtime().Sleep(context.Background(), 3*time.Second)
	for _, i := range c.rng.Perm(len(c.names)) {
		c.enter(c.names[i], host) // when the NIC runs again
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
