package shm

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/refusal"
)

// Driver is a NIC's attachment to shared memory.
type Driver struct {
	addr   link.Addr
	mtu    int
	epoll  int // watches listen and the sockets of all connections
	listen int

	out      map[link.Addr]*outgoing
	last     *outgoing   // of the last frame, and most likely of the next
	unsent   []*outgoing // rings with an unpublished batch
	open     *outgoing   // ring of the open reservation
	reserved bool
	scratch  []byte // for frames that go nowhere

	deaf     bool  // epoll does not watch listen
	hellos   []int // connections whose hello has not arrived
	in       []*incoming
	first    int       // index in in at which the next Poll begins
	peeked   *incoming // ring of the frame that Peek returned
	sleeping bool
	polls    int        // polls since the last look at the sockets
	looked   clock.Time // time of the last look by a poll
	now      clock.Time
	counters link.Counters
	closed   bool
}

var _ link.Driver = (*Driver)(nil)

// Listen returns a driver that others can reach.
func Listen(cfg Config) (*Driver, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("weft-shm-check", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil { // a ring needs it, and a later error would only lose frames
		return nil, fmt.Errorf("shm: %w; expected another link where the call stays forbidden",
			refusal.Of("memfd_create", 0, err))
	}
	_ = unix.Close(fd)
	d := &Driver{mtu: cfg.MTU, epoll: -1, listen: -1, out: make(map[link.Addr]*outgoing)}
	if err := d.bind(cfg.Name); err != nil {
		return nil, err
	}
	return d, nil
}

// Addr implements link.Driver.
func (d *Driver) Addr() link.Addr { return d.addr }

// MTU implements link.Driver.
func (d *Driver) MTU() int { return d.mtu }

// Properties implements link.Driver. Shared memory keeps all promises.
func (d *Driver) Properties() link.Properties {
	return link.Properties{Reliable: true, Ordered: true, Checked: true, Whole: true}
}

// Caps implements link.Driver. Long functions that run for each message are closures: a method
// value costs one more call.
func (d *Driver) Caps() link.Caps {
	return link.Caps{
		PostLone: d.postLone(), Copy: d.Copy,
		Glance: d.glance(), Peek: d.peek(), Pass: d.Pass, ReceiveBuffer: d.ReceiveBuffer,
		Fd: d.Fd, Sleep: d.Sleep, Awake: d.Awake,
	}
}

// ReceiveBuffer implements link.Caps. It returns half of a ring, so that one half can be read
// while the other is written. With 104 KiB instead, 1 MiB took 1.2 times as long: a poll wrote
// two frames, and found no more to do.
func (d *Driver) ReceiveBuffer() int { return limits.ShmRing / 2 }

// Fd implements link.Caps. It returns -1 once the driver is closed.
func (d *Driver) Fd() int { return d.epoll }

// lookEvery is the number of polls between two looks at the sockets, which cost a system call. A
// NIC that connects or dies can wait that long. Compared with the look, sixteen loads in each
// poll cost nothing.
const (
	lookEvery = 1024
	// lookAfter limits the wait when polls are rare, since a waiter takes its frames itself.
	lookAfter = time.Millisecond
)

// pollBytes is the number of bytes of one sender that one Poll hands over. The NIC permits more
// bytes only between two polls, and meanwhile the sender must not run out of permission. A poll
// costs a hundredth of the time to copy that many bytes.
const pollBytes = 128 << 10

// Poll implements link.Driver.
func (d *Driver) Poll(now clock.Time, to link.Receiver) (frames int, next clock.Time) {
	d.now = now
	if d.closed {
		return 0, clock.Never
	}
	if d.polls++; d.polls >= lookEvery || now.Sub(d.looked) >= lookAfter {
		d.look()
		d.looked = now
	}
	for i := 0; i < len(d.in) && frames < limits.PollBatch; i++ {
		at := d.first + i
		if at >= len(d.in) {
			at -= len(d.in)
		}
		if in := d.in[at]; in.read.ready() {
			frames += d.take(in, now, to, limits.PollBatch-frames)
		}
	}
	if frames >= limits.PollBatch && len(d.in) > 0 { // the next poll begins at the next sender
		d.first = (d.first + 1) % len(d.in)
	}
	if d.closed || !d.sweep() && !d.deaf {
		return frames, clock.Never
	}
	return frames, now.Add(lookAfter)
}

// glance implements link.Caps, by one load for each sender. Each glance also loads the second
// line of the record, so that it arrives in parallel with the first. On two distant cores this
// shortens a round trip to 0.82 of its time.
func (d *Driver) glance() func() bool {
	return func() bool {
		for _, in := range d.in {
			first := in.read.first()
			fetch(first)
			if in.read.shows(first) {
				return true
			}
		}
		return false
	}
}

// take hands over frames of one sender, up to the limit most.
func (d *Driver) take(in *incoming, now clock.Time, to link.Receiver, most int) (frames int) {
	for bytes := 0; frames < most && bytes < pollBytes; {
		f, err := in.read.next()
		if err != nil {
			in.ended, in.broken = true, true
			d.counters.DroppedIn++
			return frames
		}
		if f == nil {
			return frames
		}
		frames++
		d.counters.FramesIn++
		d.counters.BytesIn += uint64(len(f))
		bytes += len(f)
		to.Receive(now, in.from, f)
		if in.mem == nil { // a received frame has closed the driver
			return frames
		}
		in.read.done(len(f))
	}
	return frames
}

// peek implements link.Caps.
func (d *Driver) peek() func(link.Addr) []byte {
	return func(from link.Addr) (frame []byte) {
		for _, in := range d.in {
			if in.from == from && !in.broken {
				d.peeked = in
				frame, _ = in.read.next() // Poll finds out what is wrong with a ring
				return frame
			}
		}
		return nil
	}
}

// Pass implements link.Caps.
func (d *Driver) Pass(now clock.Time, n int) {
	d.now = now
	d.counters.FramesIn++
	d.counters.BytesIn += uint64(n)
	d.peeked.read.done(n)
}

// sweep removes senders that have ended, once all their frames have been read. more reports
// whether some frames are left.
func (d *Driver) sweep() (more bool) {
	for i := 0; i < len(d.in); i++ {
		in := d.in[i]
		if !in.ended {
			continue
		}
		if !in.broken && in.read.ready() {
			more = true
			continue
		}
		in.close()
		d.in = append(d.in[:i], d.in[i+1:]...)
		d.first = 0
		i--
	}
	return more
}

// Reserve implements link.Driver. It returns nil while the ring to that address is full.
func (d *Driver) Reserve(to link.Addr) []byte {
	d.reserved, d.open = false, nil
	if d.closed {
		return nil
	}
	o := d.last
	if o == nil || o.to != to || o.dead {
		if o = d.connection(to); o == nil {
			d.reserved = true
			return d.nowhere()
		}
		d.last = o
	}
	b := o.write.reserve(d.mtu)
	if b == nil {
		d.publish(o) // a reader that waits for the rest of a batch frees nothing
		if !o.dead {
			d.counters.SystemCalls++
			d.readSocket(o.socket) // is the reader still there?
		}
		if o.dead {
			d.reserved = true
			return d.nowhere()
		}
		return nil
	}
	d.open, d.reserved = o, true
	return b
}

// Copy implements link.Caps.
func (d *Driver) Copy(to, from []byte) {
	if d.open == nil { // the frame goes nowhere
		copy(to, from)
		return
	}
	d.open.copier.Copy(to, from)
}

// nowhere returns memory for a frame that will not arrive.
func (d *Driver) nowhere() []byte {
	if d.scratch == nil {
		d.scratch = make([]byte, d.mtu)
	}
	return d.scratch
}

// batchFrames and batchBytes limit a batch: at that size it is published even without a Flush.
// That is enough to pay for the cache line that publishing costs, and little enough for the
// reader to work while the writer writes.
const (
	batchFrames = 16
	batchBytes  = 64 << 10
)

// Commit implements link.Driver. It panics if no reservation is open or n exceeds it.
func (d *Driver) Commit(n int) {
	if !d.reserved {
		panic("shm: Commit without Reserve")
	}
	if n < 0 || n > d.mtu {
		panic(fmt.Sprintf("shm: Commit of %d bytes: a frame has at most %d", n, d.mtu))
	}
	o := d.open
	d.reserved, d.open = false, nil
	d.counters.FramesOut++
	d.counters.BytesOut += uint64(n)
	if o == nil || o.dead {
		d.counters.DroppedOut++
		return
	}
	if !o.unsent {
		o.unsent = true
		d.unsent = append(d.unsent, o)
	}
	o.write.commit(n)
	if o.write.frames >= batchFrames || o.write.bytes >= batchBytes {
		d.publish(o)
	}
}

// postLone implements link.Caps. It refuses if committed frames to the same address are not
// published yet, or if the frame does not fit before the end of the ring.
func (d *Driver) postLone() func(clock.Time, link.Addr, *[6]uint64, []byte) bool {
	return func(now clock.Time, to link.Addr, head *[6]uint64, body []byte) bool {
		o := d.last
		if o == nil || o.dead || o.write.held != nil || o.to != to || len(head)*8+len(body) > d.mtu {
			return false
		}
		if !o.write.post(head, body) {
			return false
		}
		d.now = now
		d.reserved, d.open = false, nil
		d.counters.FramesOut++
		d.counters.BytesOut += uint64(len(head)*8 + len(body))
		if o.write.wakes() {
			d.announce(o)
		}
		return true
	}
}

// Flush implements link.Driver.
func (d *Driver) Flush(now clock.Time) {
	d.now = now
	for i, o := range d.unsent {
		d.publish(o)
		o.unsent = false
		d.unsent[i] = nil
	}
	d.unsent = d.unsent[:0]
}

// publish makes a batch visible to its reader, and wakes the reader if it sleeps.
func (d *Driver) publish(o *outgoing) {
	if !o.dead && o.write.publish() {
		d.announce(o)
	}
}

// announce wakes the reader.
func (d *Driver) announce(o *outgoing) {
	d.counters.SystemCalls++
	if err := unix.Sendto(o.socket, wakeByte, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil); err == unix.EPIPE ||
		err == unix.ECONNRESET {
		d.drop(o)
	} // EAGAIN: unread bytes will wake the reader as well
}

var wakeByte = []byte{1}

// Sleep implements link.Caps.
func (d *Driver) Sleep() (ready bool) {
	if d.closed {
		return false
	}
	d.sleeping = true
	for _, in := range d.in {
		ready = in.read.sleep() || ready
	}
	return ready
}

// Awake implements link.Caps.
func (d *Driver) Awake() {
	if d.closed || !d.sleeping {
		return
	}
	d.sleeping = false
	for _, in := range d.in {
		in.read.awake()
	}
	d.look()
}

// Counters implements link.Driver.
func (d *Driver) Counters(c *link.Counters) { c.Add(&d.counters) }

// Close implements link.Driver. Others can still read the frames that it has sent.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	d.Flush(d.now)
	d.closed = true
	for _, o := range d.out {
		o.close()
	}
	for _, in := range d.in {
		in.close()
	}
	for _, fd := range d.hellos {
		_ = unix.Close(fd)
	}
	d.out, d.in, d.hellos, d.last, d.open, d.reserved = nil, nil, nil, nil, nil, false
	err := unix.Close(d.listen)
	if e := unix.Close(d.epoll); err == nil {
		err = e
	}
	d.listen, d.epoll = -1, -1
	if err != nil {
		return fmt.Errorf("shm: close: %w", err)
	}
	return nil
}
