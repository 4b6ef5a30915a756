//go:build linux && !portable

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
)

// header is struct mmsghdr.
type header struct {
	unix.Msghdr
	size uint32 // bytes received or sent
}

// outbound holds the arguments of the sending calls, made once: a header for each batch of
// frames, of which there are as many as frames if each batch has only one.
type outbound struct {
	headers  []header
	vectors  []unix.Iovec
	names    []sockaddr
	nameSize uint32 // of each
	controls []sendControl
	frames   []int      // number of frames in each batch
	refused  bool       // the last send returned ECONNREFUSED
	single   int        // frames that leave one by one, as the kernel refused them as a batch
	doubt    unix.Errno // its error then, until it is known if the first can be sent at all
}

func newOutbound() outbound {
	return outbound{
		headers:  make([]header, stageFrames),
		vectors:  make([]unix.Iovec, stageFrames),
		names:    make([]sockaddr, stageFrames),
		controls: newSendControls(stageFrames),
		frames:   make([]int, stageFrames),
	}
}

// Post implements link.Caps. Frames committed before leave with it.
func (d *Driver) Post(now clock.Time, frame []byte) {
	if d.postDirect(frame) {
		return
	}
	copy(d.out.buf[d.out.tail:], frame)
	d.counters.FramesCopied++
	d.Commit(len(frame))
	d.Flush(now)
}

// postDirect sends a lone frame by the direct socket from where it lies, if that socket is
// turned to its receiver and nothing else must leave before. It returns false if the frame has
// not left.
func (d *Driver) postDirect(frame []byte) bool {
	s, o := &d.sock, &d.sock.direct
	if !o.turned || o.peer != o.most || o.peer != d.out.to || d.out.run > 0 || d.out.pending() > 0 || d.closed ||
		s.lent.size != 0 || len(frame) == 0 || len(frame) > d.mtu {
		return false
	}
	d.counters.SystemCalls++
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(o.fd), uintptr(unsafe.Pointer(&frame[0])),
		uintptr(len(frame)), unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
		return false // it is staged until it can leave
	default: // perhaps about an earlier frame; see sendDirect
		d.stats.Refused++
		d.restDirect()
		return false
	}
	s.lent.full = false
	o.sent(o.peer, true, false)
	d.out.abandon()
	d.counters.FramesOut++
	d.counters.BytesOut += uint64(len(frame))
	d.stats.Direct++
	return true
}

// transmit sends the staged frames until none is left or the kernel takes no more.
func (d *Driver) transmit() {
	d.turnDirect()
	for d.out.pending() > 0 {
		n, errno := d.sendSome()
		if !d.account(n, errno) {
			break
		}
	}
	if d.sock.lent.stale {
		d.returnLent()
	}
}

// account draws the conclusions from one system call. Either n frames were sent, or the first n,
// a batch or a single frame, were not, because of errno. It returns false if the kernel takes no
// more for now.
func (d *Driver) account(n int, errno unix.Errno) (goOn bool) {
	out := &d.sock.out
	refused := out.refused
	out.refused = false
	if errno != 0 && d.resource(errno) {
		return true
	}
	if errno != 0 && n > 1 && d.unbatch(n, errno) {
		return true
	}
	switch errno {
	case 0:
		if out.doubt != 0 { // the frames are good, so the batch was the reason
			d.renounce(d.out.addr(&d.out.waiting()[0]), "the kernel said: "+out.doubt.Error())
		}
		for i := 0; len(d.unsent) > 0 && i < n; i++ {
			d.left(d.out.addr(&d.out.waiting()[i]))
		}
		d.gone(n)
	case unix.EINTR:
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		d.stats.Blocked++
		return false
	// Longer than the interface now carries; rel notices that as it does a narrow path.
	case unix.EMSGSIZE:
		d.stats.TooBig += uint64(n)
		d.gone(n)
	case unix.ECONNREFUSED:
		// The answer to an earlier frame, perhaps to another peer's. This frame was not looked
		// at: it has a second try.
		d.stats.Refused++
		if refused {
			d.stats.Unsendable += uint64(n)
			d.gone(n)
		} else {
			out.refused = true
		}
	default:
		d.stats.Unsendable += uint64(n)
		d.refusedBySystem(d.out.addr(&d.out.waiting()[0]), errno)
		d.gone(n)
	}
	return true
}

// gone notes that the next n frames are sent, or given up.
func (d *Driver) gone(n int) {
	d.sock.out.single, d.sock.out.doubt = max(0, d.sock.out.single-n), 0
	d.out.done(n)
}

// unbatch reports whether errno may be about a batch of n frames as such; then each of them
// leaves separately. If they can leave, the driver remembers that batches are impossible on the
// way to that destination, if errno says so. Some kernels also return EINVAL for a batch of
// frames that are longer than the interface now carries.
func (d *Driver) unbatch(n int, errno unix.Errno) bool {
	switch errno {
	case unix.EMSGSIZE: // perhaps the last one still fits, and each is to be counted
	case unix.EIO, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOPROTOOPT:
		d.sock.out.doubt = errno
	default:
		return false
	}
	d.sock.out.single = n
	return true
}

// sendSome sends the first of the staged frames, or more of them, and returns how many were
// sent. With an error it returns to how many of them, from the first on, the error applies.
func (d *Driver) sendSome() (int, unix.Errno) {
	waiting := d.out.waiting()
	s, out, to := &d.sock, &d.sock.out, d.out.addr(&waiting[0])
	batches, alike, lend := 0, true, false
	for i := 0; i < len(waiting) && !lend; batches++ {
		n := 1
		if i >= out.single && s.offload.batches(d.out.addr(&waiting[i])) {
			n = d.out.batch(i)
		}
		// A batch that is lent leaves separately.
		if lend = s.direct.fd >= 0 && s.lent.worth(waiting[i:i+n]); lend && i > 0 {
			lend = false
			break
		}
		if !d.prepare(batches, &waiting[i], waiting[i:i+n]) {
			break
		}
		alike = alike && d.out.addr(&waiting[i]) == to
		i += n
	}
	s.direct.sent(to, batches == 1 && out.frames[0] <= shortBatch, lend)
	switch {
	case batches == 0:
		return 1, unix.EAFNOSUPPORT
	case alike && s.direct.turned && to == s.direct.peer:
		if lend {
			if n, errno, ok := d.lend(int(waiting[0].size)); ok {
				return n, errno
			}
		}
		return d.sendDirect(batches)
	}
	return d.send(s.fd, batches)
}

// sendDirect sends the prepared batches by the direct socket. An error may be about an earlier
// frame, since the kernel reports errors of routers and of the peer's host there. Such an error
// must not be charged to another frame, and the path may have changed meanwhile. So after an
// error the listening socket sends them, and its result counts.
func (d *Driver) sendDirect(batches int) (int, unix.Errno) {
	out := &d.sock.out
	for i := range batches {
		out.headers[i].Name, out.headers[i].Namelen = nil, 0
	}
	_ = d.sock.cut(0) // cannot fail for a socket that has taken the option before
	n, errno := d.send(d.sock.direct.fd, batches)
	switch errno {
	case 0:
		d.sock.lent.full = false
		d.stats.Direct += uint64(n)
		return n, 0
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
		return n, errno
	}
	for i := range batches {
		out.headers[i].Name, out.headers[i].Namelen = (*byte)(unsafe.Pointer(&out.names[i])), out.nameSize
	}
	if n, errno = d.send(d.sock.fd, batches); errno == 0 {
		d.stats.Refused++
	}
	d.restDirect()
	return n, errno
}

// send sends the prepared batches by a socket.
func (d *Driver) send(fd, batches int) (int, unix.Errno) {
	out := &d.sock.out
	d.counters.SystemCalls++
	if batches > 1 {
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
			uintptr(unsafe.Pointer(&out.headers[0])), uintptr(batches), unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 {
			return out.frames[0], errno
		}
		n := 0
		for _, frames := range out.frames[:sent] {
			n += frames
			d.countBatch(frames)
		}
		return n, 0
	}
	h, v := &out.headers[0], &out.vectors[0]
	var errno unix.Errno
	if out.frames[0] == 1 && h.Control == nil {
		_, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(v.Base)), uintptr(v.Len),
			unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(h.Name)), uintptr(h.Namelen))
	} else {
		_, _, errno = unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&h.Msghdr)),
			unix.MSG_DONTWAIT)
		if errno == 0 {
			d.countBatch(out.frames[0])
		}
	}
	return out.frames[0], errno
}

func (d *Driver) countBatch(frames int) {
	if frames > 1 {
		d.counters.FramesBatched += uint64(frames)
	}
}

// prepare fills in the ith header for a batch, which may have one frame. It returns false if the
// socket cannot reach its destination.
func (d *Driver) prepare(i int, first *staged, batch []staged) bool {
	s, out := &d.sock, &d.sock.out
	size, ok := out.names[i].set(d.out.addr(first), s.six, &s.zones)
	if !ok {
		return false
	}
	v, h := &out.vectors[i], &out.headers[i]
	v.Base = &d.out.buf[first.off]
	v.SetLen(batch[len(batch)-1].end() - int(first.off))
	h.Name = (*byte)(unsafe.Pointer(&out.names[i]))
	h.Namelen, out.nameSize = size, size
	h.Iov = v
	h.SetIovlen(1)
	out.frames[i] = len(batch)
	length := uint16(0)
	if len(batch) > 1 {
		length = uint16(first.size)
	}
	out.controls[i].attach(h, length, d.out.peers[first.to].from, s.six)
	return true
}
