package bench

import (
	"net"

	"golang.org/x/sys/unix"
)

// tcpAgain returns how much the kernel has retransmitted on a TCP connection, by its own count;
// zero for other connections.
func tcpAgain(conn net.Conn) (a Again) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return a
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return a
	}
	_ = raw.Control(func(fd uintptr) { // it fails if the connection is closed
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			a.ByTCP = uint64(info.Total_retrans)
		}
	})
	return a
}
