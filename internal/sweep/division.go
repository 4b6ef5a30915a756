package sweep

import (
	"context"
	"time"

	"github.com/weftnet/weft/sim"
)

// division is the first act of a stormy contest. One host is cut off for a long time, and a
// process on each side claims the same name. Both get it. When the partition is healed, the
// process at the NIC with the lower id keeps the name, whichever process claimed it first and
// whichever NIC is its home.
func (c *contest) division(p *sim.Process) {
	if !c.stormy {
		return
	}
	far := 1 + c.rng.IntN(c.nics-1) // the umpire's NIC stays
	near := c.rng.IntN(c.nics - 1)
	if near >= far {
		near++
	}
	c.closing = true // every owner of a name keeps it
	p.Runtime().Sleep(context.Background(), time.Second)
	heal := c.f.Partition(far)
	first, second := near, far
	if c.rng.IntN(2) == 0 {
		first, second = second, first
	}
	name := c.another()
	both := [2]*contender{c.claim(name, first)}
	p.Runtime().Sleep(context.Background(), time.Duration(c.rng.Int64N(int64(2*time.Second))))
	both[1] = c.claim(name, second)
	// Time for both to proceed without a home, and for the NICs to give each other up.
	p.Runtime().Sleep(context.Background(), 6*time.Second)
	for _, m := range both {
		if m.fate != has {
			c.violate("NIC %d does not get %v on its side of a partition", m.host, name)
		}
	}
	heal()
	// The longest pause between two attempts to reach a lost NIC.
	p.Runtime().Sleep(context.Background(), 12*time.Second)
	for i, m := range both {
		if o := both[1-i]; m.fate == has && o.host < m.host || m.fate == lost && o.host > m.host {
			c.violate("%v is claimed on two sides of a partition, and NIC %d keeps it, not NIC %d", name,
				max(m.host, o.host), min(m.host, o.host))
			break
		}
	}
	c.closing = false
}
