package weft

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// spoofer returns a function that sends UDP datagrams with the source address of another socket.
// It needs a raw socket.
func spoofer(from, to netip.AddrPort) (send func([]byte) error, done func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, nil, fmt.Errorf("raw socket: %w", err)
	}
	packet := make([]byte, 28, 2048)
	src, dst := from.Addr().As4(), to.Addr().As4()
	send = func(payload []byte) error {
		packet = append(packet[:28], payload...)
		packet[0], packet[8], packet[9] = 0x45, 64, unix.IPPROTO_UDP
		binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
		copy(packet[12:], src[:])
		copy(packet[16:], dst[:])
		binary.BigEndian.PutUint16(packet[20:], from.Port())
		binary.BigEndian.PutUint16(packet[22:], to.Port())
		binary.BigEndian.PutUint16(packet[24:], uint16(8+len(payload)))
		return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: dst})
	}
	return send, func() { unix.Close(fd) }, nil
}
