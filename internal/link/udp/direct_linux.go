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

// direct is the direct socket: a second one at the same address, which the kernel connects to one peer.
//
//	          of the last sends most were of a few frames, or a large batch, for one peer
//	at rest ─────────────────────────────────────────────────────────────► turned to that peer
//	   ▲                                                                     │
//	   └─────────────────────────────────────────────────────────────────────┘ they no longer are; sending fails; the
//	                                                                           poller parks
//
// The kernel knows the route of a connected socket; for each call of another it looks it up, 0.6 µs. Of the frames that
// come it gives the connected socket those of its peer, and the listening socket the rest. So both are to be asked for
// frames while the direct socket is turned, and each look is a system call: the other one is asked now and then. That is
// why there is one direct socket rather than one for each peer, and why it rests while peers are sent to by turns, and
// where frames go by dozens, which need but one route each. Large batches are lent to the kernel
// (lend_linux.go), which takes them from a connected socket only. A receiver of a stream, which acknowledges it by lone frames, has it turned,
// too: of what comes for a connected socket the kernel keeps the route, so that it costs the sender's core a twentieth less to bring it here.
//
// At rest it is connected to our own address, from which nothing is sent, so that the listening socket gets all frames:
// a parked user watches that one alone, and no frame pays for a second descriptor. Only once its user has said that
// it does not park (link.Caps.Sleep) is the direct socket turned. Frames that are in a socket, or on their way into it, when it is
// turned are found later by a look at the other one: whose frame is found in which socket makes no difference.
//
// To close it instead, or to take its connection away, would lose frames that wait in it, or have it compete with the
// listening socket for those of others.
type direct struct {
	fd     int       // -1: there is none
	own    sockaddr  // our address
	size   uint32    // of own
	turned bool      // to peer
	peer   link.Addr // turned to last
	parked bool      // the user parks, or has not said that it does not
	failed bool      // it could not be turned, and that has been said

	// The peer that may have most of the frames, and by how many sends it is ahead of all others together: at most
	// limits.DirectAfter, and 0 if another takes its place.
	most link.Addr
	lead int

	// Looks at the other socket: the listening one while turned, this one at rest.
	first  int // so many come before all others, until one finds nothing
	strays int // at rest, as many as are to find nothing
	turn   int // so many polls until the next, at asideBusy
	vain   int // looks at the listening socket in a row, while turned, that found nothing
	alone  int // looks at this socket while turned that have found nothing, up to strayLooks: since then it has the peer's frames only
}

// shortBatch is how many frames a call sends at most for which the look for a route is a good part of its time: those of a message of some kilobytes.
const shortBatch = 12

const (
	// The other socket is asked after asideIdle polls that found nothing, so often that a frame of another peer waits for a
	// microsecond; and after asideBusy that found something, or so many full buffers: a megabyte. A look that the peer's frame falls into costs that half a microsecond, and with one
	// in five polls every frame a tenth of one. So where no other peer sends, the looks become fewer, down to one in asideBusy polls.
	asideIdle = 4
	asideBusy = 16

	// asidePatience is how many looks in a row find nothing before half as many do.
	asidePatience = 8

	// firstLooks bounds how many looks in a row empty the other socket after a turn: it holds older frames, unless they
	// come faster than they are taken.
	firstLooks = 32

	// strayLooks is how often this socket is asked at rest. A frame that the kernel was putting there while it was turned
	// is there by the second.
	strayLooks = 2
)

// addDirect makes the direct socket if it can be had, and says why not. The frames of a
// driver at an unspecified address leave from the one that each peer calls (source_linux.go); a connected socket would
// hold to one of them.
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

// openDirect makes the direct socket, at rest. It is made together with the listening one, since the program may be without its privileges
// or in another network namespace later.
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

// bindBeside binds fd to the address of the listening socket, and connects it to just that. Others can do so in
// between only.
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

// turnDirect turns the direct socket to the peer that most is sent to, or lets it rest, if that is due.
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
			d.say(fmt.Sprintf("frames for %v leave by the listening socket, which is slower, since the direct one cannot be connected: %v", o.most, err))
		}
		d.restDirect() // whatever it was connected to, it no longer may be
		return
	}
	o.lead = limits.DirectAfter
	d.lentTo(o.peer, o.most)
	o.turned, o.peer, o.first, o.turn, o.vain, o.alone = true, o.most, firstLooks, asideBusy, 0, 0
	d.stats.Turned++
}

// restDirect has the listening socket get all frames again.
func (d *Driver) restDirect() {
	o := &d.sock.direct
	o.turned, o.lead = false, 0
	o.first, o.strays, o.turn, o.vain = firstLooks, strayLooks, asideBusy, 0
	if err := connect(o.fd, &d.sock.direct.own, o.size); err != nil {
		d.stats.Overrun += dropped(o.fd)
		unix.Close(o.fd) // frames in it are lost; but this address is no longer ours
		*o = direct{fd: -1}
		d.say(fmt.Sprintf("all frames leave by the listening socket from now on, which is slower, since the direct one cannot be connected to this NIC's own address: %v", err))
	}
}

// choose says which socket a poll asks for frames, and whether that is the other one.
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

// asked reports whether this socket may hold frames, so that it is looked at.
func (o *direct) asked() bool { return o.turned || o.strays > 0 }

// knows reports whether all frames in a socket are of the peer that the direct one is turned to, so that the kernel need not say whose
// they are. What was there before it was turned has been taken by then, also what the kernel was putting there meanwhile.
func (o *direct) knows(fd int) bool { return fd == o.fd && o.turned && o.alone == strayLooks }

// looked draws the conclusions from a look, which counts for so many if it has found something: more may wait in the other socket where
// there was something.
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
