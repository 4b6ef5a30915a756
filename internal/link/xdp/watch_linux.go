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
// A watched socket tells epoll of each received frame, and of each frame that has left, even if
// its user does not sleep. That takes a seventh of the kernel's work to send a frame. It is the
// sender's time, since the sender brings the frame to the other socket. So the AF_XDP sockets
// are watched only while the user sleeps.

// watch makes the epoll descriptor, in the awake state.
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

// tell adds a descriptor to epoll or removes it.
func (d *Driver) tell(op, fd int) error {
	return unix.EpollCtl(d.epoll, op, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// Sleep implements link.Caps. A frame that arrives before its socket is watched is found when
// epoll adds the socket.
func (d *Driver) Sleep() (ready bool) {
	if d.closed || d.watched {
		return false
	}
	if d.Glance() {
		return true
	}
	d.watched = true
	if !d.watchQueues() { // no memory in the kernel: a user that cannot be woken must not sleep
		d.Awake()
		return true
	}
	return false
}

// watchQueues makes epoll watch the AF_XDP sockets.
func (d *Driver) watchQueues() bool {
	for _, q := range d.queues {
		if err := d.tell(unix.EPOLL_CTL_ADD, q.fd); err != nil {
			return false
		}
	}
	return true
}

// Awake implements link.Caps. A frame of the ordinary socket, or news, may have ended the sleep,
// so the next poll looks there.
func (d *Driver) Awake() {
	if d.closed || !d.watched {
		return
	}
	d.watched, d.polls = false, lookEvery
	for _, q := range d.queues {
		_ = d.tell(unix.EPOLL_CTL_DEL, q.fd) // fails for sockets that Sleep did not add
	}
}
