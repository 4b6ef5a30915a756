package userfault

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Network is the network of the sockets at which programs ask for memory. It preserves packet
// boundaries and shows the end of the connection.
const Network = "unixpacket"

// accepted is the pager's answer on success.
const accepted = "ok"

// send sends a packet with a file descriptor. The caller keeps the descriptor.
func send(c *net.UnixConn, packet []byte, fd int) error {
	_, _, err := c.WriteMsgUnix(packet, unix.UnixRights(fd), nil)
	return err
}

// receive receives a packet of len(packet) bytes with a file descriptor, which then belongs to
// the caller. A packet without a descriptor is an error text.
func receive(c *net.UnixConn, packet []byte) (fd int, err error) {
	buf, oob := make([]byte, maxText), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil {
		return -1, err
	}
	if n == 0 {
		return -1, io.EOF
	}
	var fds []int
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err == nil && len(messages) > 0 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	switch {
	case err == nil && n == len(packet) && len(fds) == 1:
		copy(packet, buf)
		return fds[0], nil
	case err == nil && len(fds) == 0:
		return -1, fmt.Errorf("the answer is %q", buf[:n])
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return -1, errors.Join(fmt.Errorf("a packet of %d bytes, with descriptors: %d; expected %d, and 1",
		n, len(fds), len(packet)), err)
}

// maxText is the largest length of a packet in bytes.
const maxText = 1024
