//go:build linux && !portable

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// inbound is the receive arena, and how the next system call asks for frames:
//
//	        a frame came            many in one call, or again and
//	                                again some after a lone one
//	lone ─────────────────► several ──────────────────────────────► bulk
//	  ▲   nothing came         │                                      │ nothing came, and little
//	  └────────────────────────┴──────────────────────────────────────┘ for bulkPolls
//
// An idle link is asked for a lone frame by recvfrom, which fails in three quarters of the time.
// Once a frame has arrived, recvmmsg asks for more. In bulk the kernel may coalesce successive
// frames of one sender (UDP_GRO). With each buffer it reports the length of its frames, and the
// marks of the network. These reports cost 260 ns a call, a twentieth of a small round trip, so
// they are only used in bulk. Messages of a few frames, one after the other, are bulk, too: each
// arrives by one call and as one buffer. Otherwise the kernel would cut it into frames, and a
// lone one would be taken a poll before the rest.
type inbound struct {
	mode  receiveMode
	told  bool    // the kernel coalesces and reports: options of the socket, set while in bulk
	full  bool    // the buffers of the last call were full of frames
	quiet int     // polls in bulk that brought little
	lone  bool    // a lone frame has arrived, and no call since has asked for more
	runs  int     // lone frames in a row that were followed by others of their senders
	empty [2]bool // the listening and the direct socket, at the last look

	arena   []byte
	several rack // a slot for each frame
	bulk    rack // a slot for each buffer, or frame if the kernel does not coalesce

	// The slots that the last system call filled and that were not handed over yet: next to end
	// of rack, the first from byte at on.
	rack      *rack
	next, end int
	at        int
	length    int // of the frames in the first buffer

	size uint32    // of the name, for recvfrom
	here local     // where the last frame arrived, if the kernel reports that
	sole link.Addr // the sender of the last lone frame
	last sockaddr  // the sender of the last frame, in the kernel's form
	from link.Addr // and in ours; most frames have the sender of the frame before
}

type receiveMode uint8

const (
	modeLone receiveMode = iota
	modeSeveral
	modeBulk
)

const (
	// bulkFrames is how many frames of one call make bulk: more than any lone exchange has.
	bulkFrames = 16

	// bulkPolls is how many polls that brought less end it: half a millisecond, longer than a
	// pause between two batches.
	bulkPolls = 1024

	// bulkRuns is how many lone frames in a row must be followed by others of their senders to
	// make it.
	bulkRuns = 8

	// arenaBytes bounds the arena of slots for single frames: it fits the cache if they are
	// small, and wastes little if they are huge.
	arenaBytes = 1 << 20

	// fullBuffers is how many buffers one call asks for while they arrive full of frames: as
	// many as fit the cache of a core until they have been handed over.
	fullBuffers = 8
)

// rack holds the slots of one kind and the arguments for recvmmsg to fill them.
type rack struct {
	stride   int
	headers  []header
	vectors  []unix.Iovec
	names    []sockaddr
	controls []receiveControl // empty if the kernel reports nothing
}

// newInbound makes the arena and its slots. Its buffers are for coalesced frames if bulk may
// bring several frames in one. If sources is set, the kernel reports for each frame at which
// address of this host it has arrived.
func newInbound(mtu int, coalesced, sources bool) inbound {
	// A slot for several frames is as large as a datagram can be; memory that is never written
	// takes no space. If all slots were page-aligned, they would compete for the same cache
	// lines. So each begins a little further on.
	const buffer, colour = 64 << 10, 9 * 64
	stride := (mtu + 63) &^ 63
	slots := min(max(arenaBytes/stride, 8), limits.PollBatch)
	if !coalesced {
		in := inbound{arena: make([]byte, slots*stride)}
		in.several, in.bulk = newRack(in.arena, stride, mtu, slots, sources),
			newRack(in.arena, stride, mtu, slots, true)
		return in
	}
	in := inbound{arena: make([]byte, limits.PollBatch*(buffer+colour))}
	in.several = newRack(in.arena, stride, mtu, slots, sources)
	in.bulk = newRack(in.arena, buffer+colour, buffer, limits.PollBatch, true)
	return in
}

func newRack(arena []byte, stride, size, slots int, told bool) rack {
	r := rack{
		stride:  stride,
		headers: make([]header, slots),
		vectors: make([]unix.Iovec, slots),
		names:   make([]sockaddr, slots),
	}
	if told {
		r.controls = make([]receiveControl, slots)
	}
	for i := range slots {
		r.vectors[i].Base = &arena[i*stride]
		r.vectors[i].SetLen(size)
		h := &r.headers[i]
		h.Name = (*byte)(unsafe.Pointer(&r.names[i]))
		h.Iov = &r.vectors[i]
		h.SetIovlen(1)
		if told {
			h.Control = &r.controls[i].bytes[0]
		}
		r.ready(i)
	}
	return r
}

// ready prepares a header for the next call, since each call changes headers.
func (r *rack) ready(i int) {
	h := &r.headers[i]
	h.Namelen, h.Flags = nameLen, 0
	if len(r.controls) > 0 {
		h.SetControllen(len(r.controls[i].bytes))
	}
}

// receive hands over the frames of one system call, or the rest of an earlier one. It makes no
// second call just to find that nothing is left.
//
// All calls are RawSyscalls: they never block, and telling the scheduler about them costs a
// quarter more.
func (d *Driver) receive(now clock.Time, to link.Receiver) int {
	in := &d.sock.in
	if in.next < in.end {
		return d.handOver(now, to)
	}
	fd, aside := d.sock.choose()
	n, looks := 0, 1
	if in.mode == modeLone {
		n = d.receiveOne(fd, now, to)
	} else {
		d.receiveMany(fd, aside)
		if in.full {
			// A frame of another peer then waits for buffers of forty frames, not for calls that
			// bring several.
			looks = in.end
		}
		n = d.handOver(now, to)
	}
	d.sock.direct.looked(aside, n > 0, looks)
	return n
}

func (d *Driver) receiveOne(fd int, now clock.Time, to link.Receiver) int {
	in := &d.sock.in
	d.counters.SystemCalls++
	if d.sock.sources {
		return d.receiveOneTold(fd, now, to)
	}
	in.size = nameLen
	name, size := &in.several.names[0], &in.size
	known := d.sock.direct.knows(fd)
	if known {
		name, size = nil, nil
	}
	// MSG_TRUNC makes it return the datagram's true length.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&in.arena[0])),
		uintptr(d.mtu), unix.MSG_DONTWAIT|unix.MSG_TRUNC,
		uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(size)))
	if errno != 0 {
		d.receiveError(errno)
		return 0
	}
	in.mode, in.lone = modeSeveral, true
	if int(n) > d.mtu {
		d.stats.Oversize++
		return 0
	}
	from := d.sock.direct.peer
	if !known {
		from = d.sender(name)
	}
	in.sole = from
	d.hand(now, to, from, in.arena[:n])
	return 1
}

// receiveMany fills slots by recvmmsg. A look aside that finds nothing does not show how frames
// arrive.
func (d *Driver) receiveMany(fd int, aside bool) {
	in := &d.sock.in
	d.counters.SystemCalls++
	in.rack = &in.several
	if in.mode == modeBulk {
		in.rack = &in.bulk
		if !in.told && d.waits(fd) { // from before the kernel was told not to coalesce
			in.told, in.quiet = true, 0
			d.sock.tell(1)
		}
	}
	slots := len(in.rack.headers)
	if in.full {
		slots = fullBuffers
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&in.rack.headers[0])),
		uintptr(slots), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		n = 0
		d.receiveError(errno)
	}
	in.next, in.end, in.at = 0, int(n), 0
	if fd == d.sock.fd {
		in.empty[0] = errno == unix.EAGAIN
	} else {
		in.empty[1] = errno == unix.EAGAIN
	}
	if n > 0 || !aside {
		d.changeMode()
	}
}

// waits reports whether a socket may have a frame, and leaves it there.
func (d *Driver) waits(fd int) bool {
	d.counters.SystemCalls++
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&d.sock.in.arena[0])), 0,
		unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
	d.receiveError(errno)
	return errno != unix.EAGAIN
}

// follows looks at the frames of a call, if it is the first after a lone frame. It reports
// whether frames of the same sender now usually follow: the kernel could have coalesced those.
func (d *Driver) follows() (usual bool) {
	in := &d.sock.in
	if in.lone {
		in.lone = false
		if in.runs++; !d.brought(in.sole) {
			in.runs = 0
		}
	}
	return in.runs >= bulkRuns
}

// brought reports whether the last call has brought a frame of a sender.
func (d *Driver) brought(from link.Addr) bool {
	in := &d.sock.in
	for i := range in.end {
		if d.sender(&in.rack.names[i]) == from {
			return true
		}
	}
	return false
}

// changeMode draws the conclusions from how much the last call brought. Bulk ends when both
// sockets have been found empty, and are found so again after the kernel was told not to
// coalesce. From then on the kernel no longer reports that a buffer was coalesced, and a look
// for a lone frame would cut the buffer to one frame.
func (d *Driver) changeMode() {
	in := &d.sock.in
	in.full = in.mode == modeBulk && in.end > 0 && d.sock.told(in.bulk.message(0)).size > 0
	runs := d.follows() && d.sock.offload.receive
	switch {
	case in.full || in.end >= bulkFrames || runs && in.mode != modeBulk:
		in.quiet, in.runs = 0, 0
		in.mode = modeBulk
		if !in.told {
			in.told = true
			d.sock.tell(1)
		}
	case in.mode == modeBulk:
		in.quiet++
		switch {
		case in.quiet < bulkPolls:
		case in.quiet == bulkPolls:
			d.askBoth()
		case in.end > 0 || !in.empty[0] || !in.empty[1] && d.sock.direct.asked():
		case in.told:
			in.told = false
			d.sock.tell(0)
			d.askBoth()
		default:
			in.mode = modeLone
		}
	case in.end == 0:
		in.mode = modeLone
	}
}

// askBoth makes both sockets count as not empty, until the next looks.
func (d *Driver) askBoth() {
	d.sock.in.empty = [2]bool{}
	d.sock.direct.turn = 0 // the other one is asked next
}

// message returns the control messages of the ith header.
func (r *rack) message(i int) []byte { return r.controls[i].bytes[:r.headers[i].Controllen] }

// handOver hands over frames of the last call, at most one batch of them.
func (d *Driver) handOver(now clock.Time, to link.Receiver) (frames int) {
	in := &d.sock.in
	for in.next < in.end && frames < limits.PollBatch && !d.closed {
		i, r := in.next, in.rack
		size := int(r.headers[i].size)
		if in.at == 0 {
			d.openBuffer(r, i)
		}
		if in.length > d.mtu {
			in.at = size
		} else {
			frames += d.handBuffer(now, to, d.sender(&r.names[i]), r.slot(i)[:size], limits.PollBatch-frames)
		}
		if in.at >= size {
			r.ready(i)
			in.next, in.at = i+1, 0
		}
	}
	return frames
}

// handBuffer hands over the rest of a buffer's frames, at most most. An empty buffer is one
// frame.
func (d *Driver) handBuffer(now clock.Time, to link.Receiver, from link.Addr, b []byte, most int) (frames int) {
	in := &d.sock.in
	if len(b)-in.at > in.length {
		end := min(in.at+most*in.length, len(b))
		frames = (end - in.at + in.length - 1) / in.length
		d.counters.FramesIn += uint64(frames)
		d.counters.BytesIn += uint64(end - in.at)
		b, in.at = b[in.at:end], end
		to.ReceiveRun(now, from, b, in.length)
		return frames
	}
	b, in.at = b[in.at:], len(b)
	d.hand(now, to, from, b)
	return 1
}

// openBuffer finds the length of the frames in the ith buffer, and updates the counts for all of
// them.
func (d *Driver) openBuffer(r *rack, i int) {
	in, h := &d.sock.in, &r.headers[i]
	size := int(h.size)
	in.length = size
	var t told
	if len(r.controls) > 0 {
		if t = d.sock.told(r.message(i)); t.size > 0 {
			in.length = t.size
		}
		if d.sock.sources {
			in.here.note(reached(r.message(i)))
		}
	}
	frames := uint64(1)
	if in.length < size {
		frames = uint64((size + in.length - 1) / in.length)
	}
	if t.marked {
		d.counters.ECNMarked += frames
	}
	if h.Flags&unix.MSG_TRUNC != 0 {
		in.length = d.mtu + 1 // or more; the bytes that did not fit are gone
	}
	if in.length > d.mtu {
		d.stats.Oversize += frames
	}
}

// slot returns the memory of the ith slot.
func (r *rack) slot(i int) []byte { return unsafe.Slice(r.vectors[i].Base, r.vectors[i].Len) }

// more reports whether a Poll now would find frames without a system call.
func (s *socket) more() bool { return s.in.next < s.in.end }

// receiveError counts an error of a peer's host that the kernel reports on our socket. It is not
// an error if there is nothing to receive, and after a signal the next poll tries again.
func (d *Driver) receiveError(errno unix.Errno) {
	if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
		d.stats.Refused++
	}
}

// sender returns the address in name.
func (d *Driver) sender(name *sockaddr) link.Addr {
	in := &d.sock.in
	if name.Family == unix.AF_INET {
		// The bytes after an IPv4 address in memory are not the kernel's.
		name.Addr, name.Scope_id = [16]byte{}, 0
	}
	if *name != in.last {
		in.last, in.from = *name, name.addr(&d.sock.zones)
	}
	return in.from
}
