package bench

import (
	"net"

	"golang.org/x/sys/unix"
)

// tcpAgain is what the kernel has sent again of a connection by TCP, as it counts that itself; nothing of any other.
func tcpAgain(conn net.Conn) (a Again) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return a
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return a
	}
	_ = raw.Control(func(fd uintptr) { // it fails for one that is closed
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			a.ByTCP = uint64(info.Total_retrans)
		}
	})
	return a
}
