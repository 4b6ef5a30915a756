package link

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
)

// Caps holds the functions of a driver beyond Driver. A function is nil if the driver lacks it.
// Functions in one paragraph come together.
//
//	to send:      Post, PostLone · ReserveRun, CommitRun · Copy · DoubtBatches
//	both ways:    Reached, From
//	to receive:   Glance ─► Peek, Pass, or Poll · ReceiveBuffer
//	to be idle:   Sleep ─► Fd or Notify ─► Awake
type Caps struct {
	// Post ends an open reservation with a short frame from other memory: it copies, commits and
	// flushes the frame. now may be as early as the last Poll was.
	Post func(now clock.Time, frame []byte)

	// PostLone sends a short frame at once: a header of little-endian words, followed by a body.
	// It reports whether it could; if not, Reserve may still succeed. No reservation is open.
	PostLone func(now clock.Time, to Addr, head *[6]uint64, body []byte) bool

	// ReserveRun is Reserve for n frames of size bytes each, at most the MTU. It offers room for
	// n frames one behind the other, or for fewer if the driver has no more room for now.
	// CommitRun commits the first n of the offered frames.
	ReserveRun func(to Addr, size, n int) []byte
	CommitRun  func(n int)

	// Copy copies all of from to a place in the open reservation, which must have room for it.
	// The driver's memory is unlike other memory. The caller may write the rest of the frame in
	// any way.
	Copy func(to, from []byte)

	// DoubtBatches reports that many of the first frames to an address were lost. A driver that
	// sends several frames in one piece may then stop doing so.
	DoubtBatches func(to Addr)

	// Reached returns the address of this host, without a port, at which the current frame of
	// Poll arrived. From makes the frames of the next reservation leave from such an address: a
	// peer may drop frames from another address than the one that it calls. Without From, or if
	// the host has lost the address, the system chooses one. Only a driver that is reached at
	// several addresses has the two.
	Reached func() netip.Addr
	From    func(ip netip.Addr)

	// Glance reports, without a system call, whether a Poll would find a frame. Users may call
	// it many times in place of a Poll that finds nothing. It may overlook some frames for a
	// while, but not for ever if the driver has Fd or Notify.
	Glance func() bool

	// Peek returns the next frame from an address, or nil if it can show none. The frame is
	// valid until Pass or the next Peek, Poll or Close; other frames may be sent meanwhile. Pass
	// releases the frame of n bytes that Peek returned last. That frame counts as handed over.
	Peek func(from Addr) (frame []byte)
	Pass func(now clock.Time, n int)

	// ReceiveBuffer returns how many bytes of frames may be in flight to this driver.
	ReceiveBuffer func() int

	// Fd returns a descriptor that becomes readable when a frame arrives. It returns -1 once the
	// driver is closed.
	Fd func() int

	// Notify is for a driver without a descriptor. The driver calls wake, from any goroutine,
	// when the first frame enters an empty queue. If frames wait already, Notify calls wake at
	// once. This is how two engines in one process wake each other. wake must be quick and must
	// not call the driver.
	Notify func(wake func())

	// Sleep turns the announcement of frames on, and Awake turns it off. An announcement costs
	// the sender a system call, or makes the kernel look at its list of sleepers. The driver's
	// one user calls Sleep before it parks, and parks only if Sleep returns false; true means
	// that frames are ready. Only Awake ends the sleep, a Poll does not.
	Sleep func() (ready bool)
	Awake func()
}

// PutLone writes the frame of a PostLone into b, and returns the frame's length.
func PutLone(b []byte, head *[6]uint64, body []byte) (n int) {
	for i, h := range head {
		binary.LittleEndian.PutUint64(b[8*i:], h)
	}
	return len(head)*8 + copy(b[len(head)*8:], body)
}
