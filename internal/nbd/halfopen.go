package nbd

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// takesReplies reports whether a client may still read replies after the end of its requests. It
// may if it has shut down only its sending direction. A unix socket shows whether the client has
// closed both directions. A TCP socket does not: the first reply to a closed client fails and
// ends the connection.
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
