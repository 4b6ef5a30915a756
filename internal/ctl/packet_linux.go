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

// network is the kind of socket: it preserves message boundaries, and reports the end of the
// connection.
const network = "unixpacket"

// packets sends and receives messages with descriptors.
type packets struct {
	c   *net.UnixConn
	buf []byte
	oob []byte
}

// newPackets receives messages of at most longest bytes, with the given number of descriptors. If
// no descriptors are expected, the kernel discards those that come without ever giving them to
// us.
func newPackets(c *net.UnixConn, longest, descriptors int) *packets {
	p := &packets{c: c, buf: make([]byte, longest)}
	p.expect(descriptors)
	return p
}

// expect sets how many descriptors are received with each message from the next one on.
func (p *packets) expect(descriptors int) {
	if descriptors > 0 {
		p.oob = make([]byte, unix.CmsgSpace(4*descriptors))
	}
}

// shorten bounds the length of messages from the next one on.
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

// withoutAddress removes the address that Go adds to an error of a socket. That is the name under
// which a daemon made the socket before moving it to its place.
func withoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// receive returns the next message, which is valid until the next receive. It also returns the
// descriptors that came with it; they belong to the caller, even if there is an error. io.EOF
// means that the other side is gone.
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
		err = fmt.Errorf("%w: message longer than %d bytes, or with more descriptors than are expected",
			ErrBadRequest, len(p.buf))
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, fds, err
	}
	return p.buf[:n], fds, nil
}

// descriptors extracts the descriptors from control messages.
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
	GIDs     []int // the process's group, and its supplementary groups
}

// peer asks the kernel for the process at the other end.
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

// peerGroups returns the supplementary groups of the process at the other end. Before Linux 4.13
// it returns none.
func peerGroups(fd uintptr) (l []int) {
	groups := make([]uint32, 64)
	for {
		size := uint32(4 * len(groups)) // in bytes; the kernel returns the needed size
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
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
