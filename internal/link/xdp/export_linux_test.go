package xdp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link/udp"
)

// BindPatience is the longest wait for a queue that another socket has.
const BindPatience = bindTries * bindPause

// FillRing is the number of frames in the ring of a queue.
const FillRing = fillRing

// NotAttached returns the error for a program that the kernel did not attach to an interface
// with this MTU.
func NotAttached(err error, mtu int) error { return notAttached(err, place{mtu: mtu}) }

// Slow returns the driver's ordinary socket.
func (d *Driver) Slow() *udp.Driver { return d.slow }

// QueuesUsed returns the number of queues that have received frames.
func (d *Driver) QueuesUsed() (n int) {
	for _, q := range d.queues {
		if q.rx.next != 0 {
			n++
		}
	}
	return n
}

// Test runs the self-test of zero-copy, on queues of any kind.
func (d *Driver) Test() error { return d.test() }

// Stick hides further frames from the kernel, as if the kernel had stopped sending. It reports
// whether the test notices.
func (d *Driver) Stick() bool {
	q := d.queues[0]
	stuck := *q
	stuck.tx = newProducer(indices{new(uint32), new(uint32), new(uint32)}, make([]desc, sendRing))
	stuck.free = append([]uint64(nil), q.free...)
	return !stuck.test(d.routes.source, time.Millisecond)
}

// Announced reports whether the driver's descriptor is readable because of a frame in one of the
// AF_XDP sockets.
func (d *Driver) Announced() bool {
	var events [8]unix.EpollEvent
	n, _ := unix.EpollWait(d.epoll, events[:], 0)
	for _, ev := range events[:max(n, 0)] {
		for _, q := range d.queues {
			if int(ev.Fd) == q.fd {
				return true
			}
		}
	}
	return false
}
