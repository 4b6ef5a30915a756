package ctl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// network is the kind of socket: packets keep messages apart, and the end of the connection is seen.
const network = "unixpacket"

// packets sends and receives messages with descriptors.
type packets struct {
	c   *net.UnixConn
	buf []byte
	oob []byte
}

// newPackets takes in messages of so many bytes, with so many descriptors. Where none are wanted the kernel lets go of
// those that come without ever making them ours.
func newPackets(c *net.UnixConn, longest, descriptors int) *packets {
	p := &packets{c: c, buf: make([]byte, longest)}
	p.expect(descriptors)
	return p
}

// expect has so many descriptors be taken in with each message from the next one on.
func (p *packets) expect(descriptors int) {
	if descriptors > 0 {
		p.oob = make([]byte, unix.CmsgSpace(4*descriptors))
	}
}

// shorten bounds the messages from the next one on.
func (p *packets) shorten(longest int) { p.buf = make([]byte, longest) }

// send sends one message. The descriptors stay the caller's.
func (p *packets) send(m any, fds ...int) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = p.c.WriteMsgUnix(b, oob, nil)
	return withoutAddress(err)
}

// withoutAddress leaves out what Go adds to an error of a socket: the name under which a daemon made it, before it was put in place.
func withoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// receive returns the next message, which is valid until the next receive, and the descriptors that came with it,
// which are the caller's, with an error, too. io.EOF says that the other side is gone.
func (p *packets) receive() (b []byte, fds []int, err error) {
	n, oobn, flags, _, err := p.c.ReadMsgUnix(p.buf, p.oob) // close-on-exec is set by the runtime
	if err != nil {
		if errors.Is(err, syscall.ECONNRESET) {
			err = io.EOF
		}
		return nil, nil, withoutAddress(err)
	}
	fds, err = descriptors(p.oob[:oobn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = fmt.Errorf("%w: message longer than %d bytes, or with more descriptors than are expected", ErrBadRequest, len(p.buf))
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, fds, err
	}
	return p.buf[:n], fds, nil
}

// descriptors takes the descriptors out of control messages.
func descriptors(oob []byte) (fds []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		if f, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, f...)
		}
	}
	return fds, nil
}

// Peer is the process at the other end of a connection, as the kernel knows it.
type Peer struct {
	PID, UID int
	GIDs     []int // the group that it runs as, and the others of its user
}

// peer asks the kernel.
func peer(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var groups []int
	var inner error
	if err := raw.Control(func(fd uintptr) {
		if cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner == nil {
			groups = peerGroups(fd)
		}
	}); err != nil {
		return Peer{}, err
	}
	if inner != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", inner)
	}
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid), GIDs: append([]int{int(cred.Gid)}, groups...)}, nil
}

// peerGroups are the supplementary groups of the process at the other end; none before Linux 4.13.
func peerGroups(fd uintptr) (l []int) {
	groups := make([]uint32, 64)
	for {
		size := uint32(4 * len(groups)) // in bytes; the kernel says what it would be
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS, uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch n := int(size) / 4; {
		case errno == unix.ERANGE && n > len(groups):
			groups = make([]uint32, n)
			continue
		case errno == 0:
			for _, g := range groups[:n] {
				l = append(l, int(g))
			}
		}
		return l
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
