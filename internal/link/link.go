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

	// ReceiveRun is Receive for several frames from one sender: of size bytes each, the last perhaps fewer, one behind the other.
	ReceiveRun(now clock.Time, from Addr, frames []byte, size int)
}

// Each is the ReceiveRun of a Receiver that takes frames one by one.
func Each(to Receiver, now clock.Time, from Addr, frames []byte, size int) {
	for len(frames) > 0 {
		n := min(size, len(frames))
		to.Receive(now, from, frames[:n])
		frames = frames[n:]
	}
}

// Driver is one attachment to a network. It is used by one goroutine at a time, its engine's; no method blocks.
type Driver interface {
	// Addr is the address at which others reach this driver.
	Addr() Addr

	// MTU is the largest frame, in bytes, that Reserve will ever offer. It does not change.
	MTU() int

	// Properties says what the driver promises. They do not change.
	Properties() Properties

	// Caps says what else the driver can do. It does not change: users ask once, and call what they got. A wrapper needs a Caps of its
	// own, since the functions of the driver below pass it by.
	Caps() Caps

	// Poll hands over the frames that have arrived, at most a batch of them, and returns how many, with the instant at
	// which it wants to be polled again even if nothing arrives (Never, for most).
	Poll(now clock.Time, to Receiver) (frames int, next clock.Time)

	// Reserve offers a buffer of MTU bytes in which to write the next frame for to, or nil when the driver can take no
	// more before a Flush or before its peer drains. The buffer is the driver's; it is good until Commit, and what is
	// in it before the caller writes is of no meaning. At most one reservation is open at a time; a Reserve without
	// Commit replaces the one before. A frame for an address without a driver is accepted and lost.
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
	FramesCopied          uint64 // of FramesOut, those that Post has copied
	ECNMarked             uint64 // frames that came with the mark of a congested router, where the driver sees that
	CaptureMissed         uint64 // frames that passed a capture and are not in its file
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
	c.FramesCopied += d.FramesCopied
	c.ECNMarked += d.ECNMarked
	c.CaptureMissed += d.CaptureMissed
}
