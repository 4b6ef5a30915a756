//go:build linux && !portable

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
)

// header is struct mmsghdr.
type header struct {
	unix.Msghdr
	size uint32 // bytes received or sent
}

// inbound is the receive arena and what recvmmsg needs to fill it.
type inbound struct {
	stride  int
	arena   []byte
	headers []header
	vectors []unix.Iovec
	names   []sockaddr
	many    bool      // the last call found something, so the next one asks for a batch
	size    uint32    // of the name, for recvfrom
	last    sockaddr  // the sender of the last frame, as the kernel says it
	from    link.Addr // and as we say it; most frames come from where the last one came from
}

// receive hands over what one system call brings. An idle link is asked by recvfrom, which fails in half the time; once a frame
// has come, recvmmsg asks for the rest in the next poll. Neither is called again to hear that nothing is left.
//
// All calls are RawSyscalls: they never block, and telling the scheduler about them costs a quarter more.
func (d *Driver) receive(now clock.Time, to link.Receiver) int {
	d.counters.SystemCalls++
	if d.sock.in.many {
		return d.receiveBatch(now, to)
	}
	return d.receiveOne(now, to)
}

func (d *Driver) receiveOne(now clock.Time, to link.Receiver) int {
	in := &d.sock.in
	in.size = nameLen
	// MSG_TRUNC makes it return the datagram's true length.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(d.sock.fd), uintptr(unsafe.Pointer(&in.arena[0])), uintptr(d.mtu),
		unix.MSG_DONTWAIT|unix.MSG_TRUNC, uintptr(unsafe.Pointer(&in.names[0])), uintptr(unsafe.Pointer(&in.size)))
	if errno != 0 {
		d.receiveError(errno)
		return 0
	}
	in.many = true
	if int(n) > d.mtu {
		d.stats.Oversize++
		return 0
	}
	d.hand(now, to, d.sender(&in.names[0]), in.arena[:n])
	return 1
}

func (d *Driver) receiveBatch(now clock.Time, to link.Receiver) int {
	in := &d.sock.in
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(d.sock.fd), uintptr(unsafe.Pointer(&in.headers[0])), uintptr(len(in.headers)),
		unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		in.many = false
		d.receiveError(errno)
		return 0
	}
	frames := 0
	for i := range in.headers[:n] {
		h := &in.headers[i]
		size, cut := int(h.size), h.Flags&unix.MSG_TRUNC != 0
		h.Namelen, h.Flags = nameLen, 0
		if cut {
			d.stats.Oversize++
			continue
		}
		if d.closed {
			return frames
		}
		d.hand(now, to, d.sender(&in.names[i]), in.arena[i*in.stride:i*in.stride+size])
		frames++
	}
	return frames
}

// receiveError counts an error of a peer's host that the kernel reports on our socket. Nothing to receive is no error,
// and a signal only means that the next poll tries again.
func (d *Driver) receiveError(errno unix.Errno) {
	if errno != unix.EAGAIN && errno != unix.EINTR {
		d.stats.Refused++
	}
}

// sender is the address in name.
func (d *Driver) sender(name *sockaddr) link.Addr {
	in := &d.sock.in
	if name.Family == unix.AF_INET {
		// What lies behind an IPv4 address in memory is not the kernel's.
		name.Addr, name.Scope_id = [16]byte{}, 0
	}
	if *name != in.last {
		in.last, in.from = *name, name.addr(&d.sock.zones)
	}
	return in.from
}

// transmit sends the staged frames until none is left or the kernel takes no more.
func (d *Driver) transmit() {
	for d.out.pending() > 0 {
		n, errno := d.sendSome()
		if !d.account(n, errno) {
			return
		}
	}
}

// account draws the conclusions from one system call: n frames were sent, or the first one was not, because of errno.
// It is false if the kernel takes no more for now.
func (d *Driver) account(n int, errno unix.Errno) (goOn bool) {
	refused := d.sock.refused
	d.sock.refused = false
	switch errno {
	case 0:
		d.out.done(n)
	case unix.EINTR:
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		d.stats.Blocked++
		return false
	case unix.EMSGSIZE:
		d.stats.TooBig++
		d.out.done(1)
	case unix.ECONNREFUSED:
		// The answer to an earlier frame, perhaps to another peer's. This one was not looked at: it has a second try.
		d.stats.Refused++
		if refused {
			d.stats.Unsendable++
			d.out.done(1)
		} else {
			d.sock.refused = true
		}
	default:
		d.stats.Unsendable++
		d.out.done(1)
	}
	return true
}

// sendSome sends the first of the staged frames, or more of them, and returns how many were sent. An error means that
// the first one was not.
func (d *Driver) sendSome() (int, unix.Errno) {
	waiting := d.out.waiting()
	n := 0
	for i := range waiting {
		if !d.prepare(i, &waiting[i]) {
			break
		}
		n++
	}
	if n == 0 {
		return 0, unix.EAFNOSUPPORT
	}
	s := &d.sock
	d.counters.SystemCalls++
	if n == 1 {
		h, v := &s.outHeaders[0], &s.outVectors[0]
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(v.Base)), uintptr(v.Len),
			unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(h.Name)), uintptr(h.Namelen))
		return 1, errno
	}
	sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.outHeaders[0])), uintptr(n),
		unix.MSG_DONTWAIT, 0, 0)
	return int(sent), errno
}

// prepare fills in the ith header for f. It is false if the socket cannot reach f's destination.
func (d *Driver) prepare(i int, f *staged) bool {
	s := &d.sock
	size, ok := s.outNames[i].set(f.to, s.six, &s.zones)
	if !ok {
		return false
	}
	v, h := &s.outVectors[i], &s.outHeaders[i]
	v.Base = &d.out.buf[f.off]
	v.SetLen(f.size)
	h.Name = (*byte)(unsafe.Pointer(&s.outNames[i]))
	h.Namelen = size
	h.Iov = v
	h.SetIovlen(1)
	return true
}
