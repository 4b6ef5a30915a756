package hostile

import (
	"context"
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// descriptors attacks the objects behind the file descriptors, because the daemon shares their
// open file descriptions.
func descriptors(ctx context.Context, f *foothold) {
	for _, fd := range f.fds {
		// This also clears O_NONBLOCK for the daemon.
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETOWN, 1)
		_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_NOTIFY, 1)
		f.tally.Acts += 6
	}
	f.fillKick()
	wake := f.fds[fdWake]
	_ = unix.SetsockoptInt(wake, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
	_ = unix.SetsockoptInt(wake, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<24)
	f.stuff(wake)
	f.duplicate()
	if f.rng.IntN(2) == 0 {
		_ = unix.Shutdown(wake, unix.SHUT_RDWR)
	}
	f.half.SetSleeping(true) // the NIC would wake this process, and cannot write the wake-up
	for until := time.Now().Add(bored); !f.gone() && ctx.Err() == nil && time.Now().Before(until); {
		for f.send(f.code(), f.rng.IntN(4096)) {
			f.tally.Acts++
		}
		f.release(true)
		f.fillKick()
	}
	if f.rng.IntN(2) == 0 {
		f.afterwards = append(f.afterwards, func() { _ = unix.Shutdown(f.conn, unix.SHUT_RDWR) })
	}
}

// fillKick sets the counter of the kick to its maximum, so that a blocking write to it would wait
// for ever.
func (f *foothold) fillKick() {
	fd := f.fds[fdKick]
	var b [8]byte
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
	_, _ = unix.Read(fd, b[:])
	binary.NativeEndian.PutUint64(b[:], 1<<64-2)
	_, _ = unix.Write(fd, b[:])
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	f.tally.Acts++
}

// stuff sends packets with file descriptors to the other end, which does not read them.
func (f *foothold) stuff(fd int) {
	rights := unix.UnixRights(f.fds[fdRW], f.fds[fdKick])
	for range 1000 {
		if unix.Sendmsg(fd, []byte{1}, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) != nil {
			return
		}
		f.tally.Acts++
	}
}

// duplicate holds each file descriptor many times, and watches the kick from many epoll
// instances.
func (f *foothold) duplicate() {
	var more []int
	for _, fd := range f.fds {
		for range 200 {
			d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				break
			}
			more = append(more, d)
		}
	}
	for range 100 {
		ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			break
		}
		_ = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, f.fds[fdKick], &unix.EpollEvent{Events: unix.EPOLLIN})
		more = append(more, ep)
	}
	f.tally.Acts += int64(len(more))
	f.afterwards = append(f.afterwards, func() { closeAll(more) })
}
