package xdp

import "github.com/weftnet/weft/internal/link/udp"

// Slow is the driver's ordinary socket.
func (d *Driver) Slow() *udp.Driver { return d.slow }

// QueuesUsed is by how many of the interface's queues frames have come.
func (d *Driver) QueuesUsed() (n int) {
	for _, q := range d.queues {
		if q.rx.next != 0 {
			n++
		}
	}
	return n
}
