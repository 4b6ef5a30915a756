package udp

import (
	"fmt"
	"syscall"

	"github.com/weftnet/weft/internal/link"
)

// unsent is for which frames the log has told why the system does not send them, as where an interface is down or a filter of this host refuses
// them. Each reason is told once, until a frame has left for the destination that it was told of: so a host whose interface is down tells of
// one peer, and a peer that there is no route to is told of once.
type unsent map[syscall.Errno]link.Addr

// refusedBySystem tells the log that a frame is given up.
func (d *Driver) refusedBySystem(to link.Addr, why syscall.Errno) {
	if _, told := d.unsent[why]; told {
		return
	}
	if d.unsent == nil {
		d.unsent = unsent{}
	}
	d.unsent[why] = to
	d.say(fmt.Sprintf("frames for %v do not leave this host, since the system says: %v", to, why))
}

// left notes that a frame has left.
func (d *Driver) left(to link.Addr) {
	for why, told := range d.unsent {
		if told == to {
			delete(d.unsent, why)
		}
	}
}
