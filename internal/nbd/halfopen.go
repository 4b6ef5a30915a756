package nbd

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// takesReplies reports whether a client whose requests have ended may still read replies: it may have
// ended its sending direction alone, as by shutdown. A unix socket tells the two apart. At TCP the
// first reply to a client that closed its socket fails, which ends the connection.
func takesReplies(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(p, 0)
		open = err == nil && p[0].Revents&(unix.POLLHUP|unix.POLLERR) == 0
	})
	return err == nil && open
}
