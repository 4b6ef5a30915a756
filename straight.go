package weft

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
)

// newStraight returns the straight way of the process at slot: the process sends and receives
// messages by calls of the NIC, without the command queue. newStraight fails with ErrClosed if
// the process or the NIC is closed.
func (n *NIC) newStraight(slot uint16, gen uint32) (d *nic.Direct, err error) {
	n.poller.Do(func(clock.Time) {
		if way := n.engine.Straight(slot, gen, poller.Now); way != nil {
			d = nic.NewDirect(way, n.poller)
		}
	})
	if d == nil {
		return nil, ErrClosed
	}
	return d, nil
}
