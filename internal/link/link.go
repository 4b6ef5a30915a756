// Package link defines the interface between the NIC control program and the drivers that carry
// its frames.
//
// A driver moves whole frames, in batches, and never blocks:
//
//	receive:  Poll ─► Receiver.Receive(from, frame) for every frame that has arrived
//	send:     Reserve(to) ─► the engine writes the frame in place ─► Commit(n) ─► … ─► Flush
//
// A driver that is not Reliable may lose, repeat or reorder frames. A driver that is not Checked
// may damage them.
package link

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
)

// Addr is the destination or source of a frame. UDP and AF_XDP use real addresses, and mem and
// shm generate theirs in fd57::/16. So one comparable type that needs no allocation serves all
// drivers.
type Addr = netip.AddrPort

// Properties are the promises of a driver for every frame that it accepted. A wrapper that
// breaks a promise clears it.
type Properties struct {
	Reliable bool // every committed frame arrives exactly once, while both ends live
	Ordered  bool // frames between two ends arrive in commit order
	// An arriving frame equals the frame that was sent. So the 16-byte tag may be left out.
	Checked bool
	Whole   bool // no path to an address carries less than the MTU
}

// Receiver takes the frames that Poll finds. A frame belongs to the driver and is valid only
// until Receive returns.
type Receiver interface {
	Receive(now clock.Time, from Addr, frame []byte)

	// ReceiveRun is Receive for several frames from one sender, one behind the other. Each has
	// size bytes; the last may be shorter.
	ReceiveRun(now clock.Time, from Addr, frames []byte, size int)
}

// Each implements ReceiveRun for a Receiver that takes frames one by one.
func Each(to Receiver, now clock.Time, from Addr, frames []byte, size int) {
	for len(frames) > 0 {
		n := min(size, len(frames))
		to.Receive(now, from, frames[:n])
		frames = frames[n:]
	}
}

// Driver is an attachment to a network. One goroutine at a time uses it, its engine's. No method
// blocks.
type Driver interface {
	// Addr returns the address at which others reach this driver.
	Addr() Addr

	// MTU returns the length of the longest frame that Reserve offers, in bytes. It does not
	// change.
	MTU() int

	// Properties returns the promises of the driver. They do not change.
	Properties() Properties

	// Caps returns the driver's further functions. They do not change: users ask once, and call
	// what they got. A wrapper needs its own Caps, since the functions of the driver below
	// bypass the wrapper.
	Caps() Caps

	// Poll hands over the frames that have arrived, at most a batch of them, and returns their
	// number. next is the time at which the driver must be polled again even if nothing arrives,
	// Never for most drivers.
	Poll(now clock.Time, to Receiver) (frames int, next clock.Time)

	// Reserve returns a buffer of MTU bytes for the next frame to an address. It returns nil if
	// the driver can take no more frames before a Flush, or before its peer drains. The buffer
	// is the driver's and is valid until Commit; its initial content is arbitrary. At most one
	// reservation is open at a time: a Reserve without Commit replaces the one before. A frame
	// for an address without a driver is accepted and lost.
	Reserve(to Addr) []byte

	// Commit commits the first n bytes of the open reservation as a frame. The frame may leave
	// at once or at the next Flush.
	Commit(n int)

	// Flush sends every committed frame. If the driver is Reliable, now may be as early as the
	// last Poll was.
	Flush(now clock.Time)

	// Counters adds the driver's own counts to c.
	Counters(c *Counters)

	// Close releases the resources of the driver. A closed driver loses every frame.
	Close() error
}

// Counters holds the counters of a driver.
type Counters struct {
	FramesIn, FramesOut   uint64 // frames handed to Receive; frames committed
	BytesIn, BytesOut     uint64 // bytes of those frames
	SystemCalls           uint64 // system calls made for them
	DroppedIn, DroppedOut uint64 // frames that the driver dropped, as far as it knows
	FramesBatched         uint64 // of FramesOut, frames sent together with others as one
	FramesCopied          uint64 // of FramesOut, frames that Post has copied
	ECNMarked             uint64 // frames with a congestion mark of a router, if the driver sees it
	CaptureMissed         uint64 // frames that passed a capture and are missing in its file
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
