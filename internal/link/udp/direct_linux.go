//go:build linux && !portable

package udp

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// direct is the direct socket: a second one at the same address, which the kernel connects to
// one peer.
//
//	          most of the last sends were a few frames, or a large batch, for one peer
//	at rest ─────────────────────────────────────────────────────────────► turned to that peer
//	   ▲                                                                     │
//	   └──────── they no longer are; sending fails; the poller parks ────────┘
//
// The kernel knows the route of a connected socket. For another socket it looks the route up in
// each call, 0.6 µs. The kernel puts frames of the peer into the connected socket, and all
// others into the listening socket. So while the direct socket is turned both sockets must be
// asked for frames, and each look is a system call: the other one is asked now and then. For
// this reason there is one direct socket rather than one for each peer. For the same reason it
// rests while several peers are sent to in turn, and while frames leave by dozens, which need
// only one route each. Large batches are lent to the kernel (lend_linux.go), which takes them
// only from a connected socket. The receiver of a stream, which acknowledges it by lone frames,
// has its direct socket turned, too: the kernel keeps the route of frames for a connected
// socket. That saves the sender's core a twentieth of the cost of delivering them.
//
// At rest it is connected to our own address, from which nothing is sent, so that the listening
// socket gets all frames: a parked user watches only that one, and no frame pays for a second
// descriptor. The direct socket is turned only after its user has announced that it does not
// park (link.Caps.Sleep). Frames that are in a socket, or on their way into it, when it is
// turned are found later by a look at the other one: it does not matter in which socket a frame
// is found.
//
// To close it instead, or to disconnect it, would lose the frames that wait in it, or make it
// compete with the listening socket for frames of others.
type direct struct {
	fd     int       // -1 if there is none
	own    sockaddr  // our address
	size   uint32    // of own
	turned bool      // to peer
	peer   link.Addr // turned to last
	parked bool      // the user parks, or has not announced that it does not
	failed bool      // it could not be turned, and the log was told

	// The peer that may have most of the frames, and by how many sends it is ahead of all others
	// together: at most limits.DirectAfter. At 0 another peer takes its place.
	most link.Addr
	lead int

	// Looks at the other socket: the listening one while turned, this one at rest.
	first  int // looks that come before all others, until one finds nothing
	strays int // at rest, looks that are still to find nothing
	turn   int // counts down from asideBusy to the next look; see looked
	vain   int // looks at the listening socket in a row, while turned, that found nothing
	// Looks at this socket while turned that have found nothing, up to strayLooks. From then on
	// it holds only the peer's frames.
	alone int
}

// shortBatch is the most frames in a call for which the route lookup is a good part of its time:
// those of a message of some kilobytes.
const shortBatch = 12

const (
	// The other socket is asked after asideIdle polls that found nothing, so often that a frame
	// of another peer waits for a microsecond. It is also asked after asideBusy polls that found
	// something, or as many full buffers: a megabyte. If a frame of the peer arrives during a
	// look aside, the look costs it half a microsecond; with one look in five polls every frame
	// loses a tenth of a microsecond. So if no other peer sends, the looks become fewer, down to
	// one in asideBusy polls.
	asideIdle = 4
	asideBusy = 16

	// asidePatience is how many looks in a row must find nothing before their rate is halved.
	asidePatience = 8

	// firstLooks bounds how many looks in a row empty the other socket after a turn: it holds
	// older frames, unless they arrive faster than they are taken.
	firstLooks = 32

	// strayLooks is how often this socket is asked at rest. A frame that the kernel was putting
	// there while it was turned is there by the second look.
	strayLooks = 2
)

// addDirect makes the direct socket if possible, and returns a text that says so or why not. The
// frames of a driver at an unspecified address leave from the address that each peer calls
// (source_linux.go); a connected socket would be bound to one of them.
func (s *socket) addDirect(cfg Config, own link.Addr) (why string) {
	if cfg.OneSocket {
		return ""
	}
	if own.Addr().IsUnspecified() {
		return "; no direct socket for a busy peer, which needs one local address to listen at"
	}
	if err := s.openDirect(cfg, own); err != nil {
		return fmt.Sprintf("; no direct socket for a busy peer: %v", err)
	}
	if !s.lent.able && s.lent.why != nil {
		return fmt.Sprintf("; a direct socket for a busy peer, whose large batches the kernel copies: %v", s.lent.why)
	}
	return "; a direct socket for a busy peer"
}

// openDirect makes the direct socket, at rest. It is made together with the listening one, since
// the program may later lack its privileges or be in another network namespace.
func (s *socket) openDirect(cfg Config, own link.Addr) error {
	o := &s.direct
	fd, err := newSocket(s.six)
	if err != nil {
		return err
	}
	o.size, _ = o.own.set(own, s.six, &s.zones)
	if err := s.bindBeside(fd, own); err != nil {
		unix.Close(fd)
		return err
	}
	raiseBuffers(fd, cfg.SocketBuffer)
	o.fd, o.parked, o.strays, o.turn = fd, true, strayLooks, asideBusy
	return nil
}

// bindBeside binds fd to the address of the listening socket, and connects it to this same
// address. Other sockets can bind the address only in between.
func (s *socket) bindBeside(fd int, own link.Addr) error {
	if err := setOptions(fd, s.six, own.Addr()); err != nil {
		return err
	}
	share := func(on int) error {
		for _, socket := range []int{s.fd, fd} {
			if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, on); err != nil {
				return os.NewSyscallError("setsockopt SO_REUSEPORT", err)
			}
		}
		return nil
	}
	err := share(1)
	if err == nil {
		err = bindTo(fd, &s.direct.own, s.direct.size)
	}
	if again := share(0); err == nil {
		err = again
	}
	if err == nil {
		err = os.NewSyscallError("connect", connect(fd, &s.direct.own, s.direct.size))
	}
	return err
}

func connect(fd int, to *sockaddr, size uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(to)), uintptr(size))
	if errno != 0 {
		return errno
	}
	return nil
}

// sent notes that a call sends to a peer: a few frames, a batch to be lent, or something else.
func (o *direct) sent(to link.Addr, few, lent bool) {
	switch {
	case !few && !lent:
		o.lead = max(o.lead-1, 0)
	case to == o.most:
		o.lead = min(o.lead+1, limits.DirectAfter)
	case o.lead > 0:
		o.lead--
	default:
		o.most, o.lead = to, 1
	}
}

// turnDirect turns the direct socket to the peer with most of the sends, or lets it rest, if
// that is due.
func (d *Driver) turnDirect() {
	s, o := &d.sock, &d.sock.direct
	if o.turned && o.lead == 0 {
		d.restDirect()
		return
	}
	if o.lead < limits.DirectAfter || o.parked || o.fd < 0 || o.turned && o.most == o.peer {
		return
	}
	var name sockaddr
	size, ok := name.set(o.most, s.six, &s.zones)
	if !ok {
		return
	}
	o.lead = 0
	if err := connect(o.fd, &name, size); err != nil {
		if !o.failed {
			o.failed = true
			d.say(fmt.Sprintf(
				"frames for %v leave by the listening socket, which is slower, "+
					"since the direct one cannot be connected: %v",
				o.most, err))
		}
		d.restDirect() // whatever it was connected to, it may not be now
		return
	}
	o.lead = limits.DirectAfter
	d.lentTo(o.peer, o.most)
	o.turned, o.peer, o.first, o.turn, o.vain, o.alone = true, o.most, firstLooks, asideBusy, 0, 0
	d.stats.Turned++
}

// restDirect makes the listening socket get all frames again.
func (d *Driver) restDirect() {
	o := &d.sock.direct
	o.turned, o.lead = false, 0
	o.first, o.strays, o.turn, o.vain = firstLooks, strayLooks, asideBusy, 0
	if err := connect(o.fd, &d.sock.direct.own, o.size); err != nil {
		d.stats.Overrun += dropped(o.fd)
		unix.Close(o.fd) // frames in it are lost, but this address is no longer ours
		*o = direct{fd: -1}
		d.say(fmt.Sprintf(
			"all frames leave by the listening socket from now on, which is slower, since the direct one cannot be "+
				"connected to this NIC's own address: %v",
			err))
	}
}

// choose returns the socket that a poll asks for frames, and whether that is the other one.
func (s *socket) choose() (fd int, aside bool) {
	o := &s.direct
	fd, other := s.fd, o.fd
	if o.turned {
		fd, other = other, fd
	} else if !o.asked() {
		return fd, false
	}
	if o.first > 0 {
		o.first--
		return other, true
	}
	if o.turn <= 0 {
		o.turn = asideBusy
		return other, true
	}
	return fd, false
}

// asked reports whether this socket may hold frames, so that it must be looked at.
func (o *direct) asked() bool { return o.turned || o.strays > 0 }

// knows reports whether all frames in a socket are of the peer to which the direct one is
// turned, so that the kernel need not tell the sender. Frames from before the turn have been
// taken by then, also those that the kernel was putting there meanwhile.
func (o *direct) knows(fd int) bool { return fd == o.fd && o.turned && o.alone == strayLooks }

// looked draws the conclusions from a look. One that found something counts as looks polls.
// After a look aside that found something the other socket is asked again soon: more frames may
// wait there.
func (o *direct) looked(aside, found bool, looks int) {
	switch {
	case !aside && found:
		o.turn -= looks
	case !aside:
		o.turn -= max(asideBusy/asideIdle>>(o.vain/asidePatience), 1)
		o.alone = min(o.alone+1, strayLooks)
	case found:
		o.turn, o.vain = 1, 0
	case o.turned || o.strays == 0:
		o.first = 0
		if o.turned {
			o.vain = min(o.vain+1, 2*asidePatience)
		}
	default:
		o.first = 0
		o.strays--
	}
}

// Sleep implements link.Caps.
func (d *Driver) Sleep() (ready bool) {
	o := &d.sock.direct
	if d.closed || o.fd < 0 {
		return false
	}
	if o.turned {
		d.restDirect()
	}
	if !d.sock.more() && o.strays > 0 {
		d.receiveMany(o.fd, true)
	}
	o.lead, o.parked = 0, !d.sock.more()
	return !o.parked
}

// Awake implements link.Caps.
func (d *Driver) Awake() { d.sock.direct.parked = false }
