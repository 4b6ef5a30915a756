package xdp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The descriptor that announces frames is an epoll:
//
//	always                          while the user sleeps
//	the ordinary socket, the news   the AF_XDP sockets
//
// A socket that a user may sleep for tells epoll of each frame that comes, and of each that has left, whether one
// sleeps or not. That is a seventh of what the kernel does to send a frame, and the sender's time, since it is the sender that brings the
// frame to the other socket. So the sockets of frames are watched only by a user that says it sleeps.

// watch makes the descriptor, awake.
func (d *Driver) watch() (err error) {
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, fd := range []int{d.slow.Fd(), d.routes.newsFd} {
		if err := d.tell(unix.EPOLL_CTL_ADD, fd); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

// tell has epoll watch a descriptor, or not.
func (d *Driver) tell(op, fd int) error {
	return unix.EpollCtl(d.epoll, op, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// Sleep implements link.Caps. A frame that comes before its socket is watched is found when it is.
func (d *Driver) Sleep() (ready bool) {
	if d.closed || d.watched {
		return false
	}
	if d.Glance() {
		return true
	}
	d.watched = true
	if !d.watchQueues() { // the kernel has no memory: a user that cannot be woken must not sleep
		d.Awake()
		return true
	}
	return false
}

// watchQueues has the descriptor announce frames of the AF_XDP sockets.
func (d *Driver) watchQueues() bool {
	for _, q := range d.queues {
		if err := d.tell(unix.EPOLL_CTL_ADD, q.fd); err != nil {
			return false
		}
	}
	return true
}

// Awake implements link.Caps. What ended the sleep may be a frame of the ordinary socket, or news, so that the next poll looks there.
func (d *Driver) Awake() {
	if d.closed || !d.watched {
		return
	}
	d.watched, d.polls = false, lookEvery
	for _, q := range d.queues {
		_ = d.tell(unix.EPOLL_CTL_DEL, q.fd) // fails for those that Sleep did not come to
	}
}
