package link

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
)

// Caps are what a driver can do beyond Driver. A function is nil where the driver has none; functions in one paragraph come together.
//
//	to send:      Post, PostLone · ReserveRun, CommitRun · Copy · DoubtBatches
//	both ways:    Reached, From
//	to receive:   Glance ─► Peek, Pass, or Poll · ReceiveBuffer
//	to be idle:   Sleep ─► Fd or Notify ─► Awake
type Caps struct {
	// Post ends an open reservation with a short frame that was put together elsewhere: it copies, commits and flushes the frame. now may
	// be as early as the last Poll was.
	Post func(now clock.Time, frame []byte)

	// PostLone sends a short frame at once: a header, whose words are little-endian, and a body behind it. It reports whether it could;
	// where not, Reserve may. No reservation is open.
	PostLone func(now clock.Time, to Addr, head *[6]uint64, body []byte) bool

	// ReserveRun is Reserve for frames of size bytes, at most the MTU, of which n are to be written: it offers room for as many, or for
	// fewer if the driver has no more for now, one behind the other. CommitRun makes the first n of the frames offered frames.
	ReserveRun func(to Addr, size, n int) []byte
	CommitRun  func(n int)

	// Copy copies all of from to a place in the open reservation, which has room for it: the driver's memory is not like other memory. The
	// caller writes the rest as it pleases.
	Copy func(to, from []byte)

	// DoubtBatches says that much of the first frames to an address was lost. A driver that sends several in one piece may stop doing so.
	DoubtBatches func(to Addr)

	// Reached returns the address of this host, without a port, at which the frame arrived that is
	// being handed over. From makes the frames of the next reservation leave from such an address:
	// a peer may drop frames that come from another address than the one that it calls. Without
	// From, and if the host has lost the address, the system chooses. Only a driver that is reached
	// at several addresses has the two.
	Reached func() netip.Addr
	From    func(ip netip.Addr)

	// Glance reports, without a system call, whether a Poll would find a frame. Its users may ask many times in place of a Poll that finds
	// nothing. It may overlook some frames for a while, but not for ever if the driver has Fd or Notify.
	Glance func() bool

	// Peek returns the frame that has come next from an address, nil if none has. It stays until Pass, or the next Peek, Poll or
	// Close: other frames may be sent meanwhile. Pass lets go of the frame of n bytes that Peek has returned last, which counts as handed
	// over.
	Peek func(from Addr) (frame []byte)
	Pass func(now clock.Time, n int)

	// ReceiveBuffer is how many bytes of frames may be under way to this driver.
	ReceiveBuffer func() int

	// Fd is a descriptor that becomes readable when a frame arrives. It is -1 once the driver is closed.
	Fd func() int

	// Notify is for a driver without a descriptor: it calls wake, from any goroutine, when the first frame comes to an empty queue, or at
	// once if frames wait when it is told of wake. It is how two engines in one process wake one another. wake must be quick and must not
	// call the driver.
	Notify func(wake func())

	// Sleep asks for frames to be announced, which they are by no other means between Awake and Sleep: an announcement costs the sender a
	// system call, or the kernel a look at its list of sleepers. The driver's one user calls Sleep before it parks, and parks only if it is
	// false: true says that there are frames. Polls do not end the sleep; Awake does.
	Sleep func() (ready bool)
	Awake func()
}

// PutLone writes the frame of a PostLone into b, and returns its length.
func PutLone(b []byte, head *[6]uint64, body []byte) (n int) {
	for i, h := range head {
		binary.LittleEndian.PutUint64(b[8*i:], h)
	}
	return len(head)*8 + copy(b[len(head)*8:], body)
}
