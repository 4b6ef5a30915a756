package udp

import (
	"fmt"
	"syscall"

	"github.com/weftnet/weft/internal/link"
)

// unsent holds, for each reason that the log has been told, the destination of the frames that
// the system did not send, for example because an interface is down or a filter of this host
// refuses them. Each reason is logged once, until a frame has left for that destination. So a
// host whose interface is down logs one peer, and a peer without a route is logged once.
type unsent map[syscall.Errno]link.Addr

// refusedBySystem logs that a frame is given up.
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
