// Package link defines the seam between the NIC control program and whatever carries its frames.
//
// A driver moves whole frames, in batches, and never blocks:
//
//	receive:  Poll ─► Receiver.Receive(from, frame) for every frame that has arrived
//	send:     Reserve(to) ─► the engine writes the frame in place ─► Commit(n) ─► … ─► Flush
//
// A driver that is not Reliable may lose, repeat or reorder frames; one that is not Checked may damage them.
package link

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
)

// Addr is where a driver sends a frame. UDP and AF_XDP use real addresses, mem and shm make up their own in fd57::/16,
// so that one comparable type, free of allocation, serves them all.
type Addr = netip.AddrPort

// Properties are what a driver promises of every frame that it accepted. A wrapper that breaks a promise withdraws it.
type Properties struct {
	Reliable bool // every committed frame arrives exactly once, while both ends live
	Ordered  bool // frames between two ends arrive in the order of their commits
	Checked  bool // a frame that arrives is the frame that was sent; the 16-byte tag may be left out
	Whole    bool // no address is behind a path that carries less than the MTU
}

// Receiver takes the frames that Poll finds. The frame belongs to the driver and is valid only until Receive returns.
type Receiver interface {
	Receive(now clock.Time, from Addr, frame []byte)
}

// RunReceiver is a Receiver that takes several frames at once: of size bytes each, the last perhaps fewer, one behind the other from the
// same sender. It is as if each had been handed over by itself.
type RunReceiver interface {
	ReceiveRun(now clock.Time, from Addr, frames []byte, size int)
}

// Driver is one attachment to a network. It is used by one goroutine at a time, its engine's; no method blocks.
type Driver interface {
	// Addr is the address at which others reach this driver.
	Addr() Addr

	// MTU is the largest frame, in bytes, that Reserve will ever offer. It does not change.
	MTU() int

	// Properties says what the driver promises. They do not change.
	Properties() Properties

	// Poll hands over the frames that have arrived, at most a batch of them, and returns how many, with the instant at
	// which it wants to be polled again even if nothing arrives (Never, for most).
	Poll(now clock.Time, to Receiver) (frames int, next clock.Time)

	// Reserve offers a buffer of MTU bytes in which to write the next frame for to, or nil when the driver can take no
	// more before a Flush or before its peer drains. The buffer is the driver's; it is good until Commit, and what is
	// in it before the caller writes is of no meaning. At most one reservation is open at a time; a Reserve without
	// Commit replaces the one before. A frame for an address where nobody lives is accepted and lost.
	Reserve(to Addr) []byte

	// Commit makes the first n bytes of the open reservation a frame. It may leave at once or at the next Flush.
	Commit(n int)

	// Flush starts every committed frame on its way. If the driver is Reliable, now may be as early as the last Poll was.
	Flush(now clock.Time)

	// Counters adds the driver's own counts to c.
	Counters(c *Counters)

	// Close frees what the driver holds. A closed driver loses every frame.
	Close() error
}

// Counters are what every driver counts about itself.
type Counters struct {
	FramesIn, FramesOut   uint64 // frames handed to Receive; frames committed
	BytesIn, BytesOut     uint64 // bytes of those frames
	SystemCalls           uint64 // system calls made for them
	DroppedIn, DroppedOut uint64 // frames that the driver had to let go, as it knows of them
	FramesBatched         uint64 // of FramesOut, those that left in company, several as one
	ECNMarked             uint64 // frames that came with the mark of a congested router, where the driver sees that
}

// Add adds d to c.
func (c *Counters) Add(d *Counters) {
	c.FramesIn += d.FramesIn
	c.FramesOut += d.FramesOut
	c.BytesIn += d.BytesIn
	c.BytesOut += d.BytesOut
	c.SystemCalls += d.SystemCalls
	c.DroppedIn += d.DroppedIn
	c.DroppedOut += d.DroppedOut
	c.FramesBatched += d.FramesBatched
	c.ECNMarked += d.ECNMarked
}

// Pollable is a driver that a descriptor can announce frames for. The poller watches it when it parks.
type Pollable interface {
	// Fd is a descriptor that becomes readable when a frame arrives. It is -1 for a wrapper around a driver that has none.
	Fd() int
}

// Doubter is a driver that can send in more than one way, and is told when the losses on the way to an address are odd.
type Doubter interface {
	// DoubtBatches says that much of the first frames was lost: if some leave in one piece, perhaps it is lost whole.
	DoubtBatches(to Addr)
}

// Runner is a driver whose frames may lie side by side, so that several of one length are offered, written and committed at once.
type Runner interface {
	// ReserveRun is Reserve for frames of size bytes, at most the MTU, of which n are to be written: it offers room for as many, or for
	// fewer if the driver has no more for now, one behind the other.
	ReserveRun(to Addr, size, n int) []byte

	// CommitRun makes the first n of the frames that ReserveRun has offered frames.
	CommitRun(n int)
}

// Copier is a driver that knows how to copy payload into the frames that it has reserved: its memory is not like other memory.
type Copier interface {
	// Copy copies all of from to a place in the open reservation, which has room for it. The caller writes the rest as it pleases.
	Copy(to, from []byte)
}

// Glancer is a driver that knows without a system call whether a frame has come. Its engine's user may ask it many times in
// place of a Poll that finds nothing.
type Glancer interface {
	// Glance reports whether a Poll would find a frame. It may overlook some for a while, but not for ever, if it is
	// Pollable or a Notifier as well.
	Glance() bool
}

// Poster is a driver that takes one short frame at a step.
type Poster interface {
	// Post ends an open reservation with a frame that was put together elsewhere: it copies, commits and flushes it. now may be as
	// early as the last Poll was.
	Post(now clock.Time, frame []byte)
}

// LonePoster is a driver that takes a short frame without a reservation, if nothing is in its way.
type LonePoster interface {
	// PostLone sends a frame at once, of a header, whose words are little-endian, and a body behind it. It reports whether it could:
	// where not, Reserve may. No reservation is open.
	PostLone(now clock.Time, to Addr, head *[6]uint64, body []byte) bool
}

// PutLone writes the frame of a PostLone into b, and returns its length.
func PutLone(b []byte, head *[6]uint64, body []byte) (n int) {
	for i, h := range head {
		binary.LittleEndian.PutUint64(b[8*i:], h)
	}
	return len(head)*8 + copy(b[len(head)*8:], body)
}

// Peeker is a driver whose next frame can be looked at before it is taken.
type Peeker interface {
	// Peek returns the frame that has come next from an address; nil if none has. It stays until Pass, or the next Peek, Poll, Take or
	// Close: other frames may be sent meanwhile.
	Peek(from Addr) (frame []byte)
	// Pass lets go of the frame of n bytes that Peek has returned last: it counts as handed over.
	Pass(now clock.Time, n int)
}

// Taker is a Glancer that can hand over one frame alone, so that who waits for it need not wait until the driver has looked for
// more.
type Taker interface {
	Glancer
	// Take hands over the next frame, and reports whether there was one.
	Take(now clock.Time, to Receiver) bool
}

// Notifier is a driver without a descriptor that calls back instead, from any goroutine, when the first frame comes
// to an empty queue, or at once if frames wait when it is told of wake. It is how two engines in one process wake one
// another. wake must be quick and must not call the driver. A wrapper around a driver that is none does nothing.
type Notifier interface {
	Notify(wake func())
}

// Sleeper is a driver whose frames are announced by its descriptor only while somebody asks for it, since the announcement
// costs whoever sends them time: a system call, or a way through the kernel's lists of those who wait. Whoever is about
// to park calls Sleep, as the driver's one user, and parks only if it is false: true says that there are frames. Polls do
// not end the sleep; Awake does. A wrapper around a driver that is none returns false.
type Sleeper interface {
	Sleep() (ready bool)
	Awake()
}
