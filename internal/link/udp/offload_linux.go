//go:build linux && !portable

package udp

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// offload holds which of the kernel's two segmentation offloads are used:
//
//	stage ┌───┬───┬───┬──┐  one sendmsg, UDP_SEGMENT  one recvmsg, UDP_GRO  ┌───┬───┬───┬──┐ slot
//	      └───┴───┴───┴──┘ ────── one packet, cut as late as possible ────► └───┴───┴───┴──┘
//
// A batch has frames of one length, except for the last. The two are independent: frames of a
// batch may arrive one by one, and frames that were sent one by one may arrive as a batch.
type offload struct {
	send    bool        // to destinations that are not plain
	receive bool        // when there is much to receive
	plain   []link.Addr // destinations that batches do not reach
}

// batches reports whether frames for to may leave as batches.
func (o *offload) batches(to link.Addr) bool {
	if !o.send {
		return false
	}
	return !slices.Contains(o.plain, to)
}

// renounce sends frames for to one by one from now on. If that happens to many destinations, it
// applies to all: the list is searched for every batch.
func (d *Driver) renounce(to link.Addr, why string) {
	o := &d.sock.offload
	if !o.batches(to) {
		return
	}
	what := fmt.Sprintf("frames for %v", to)
	if len(o.plain) == limits.PlainDestinations {
		o.send, what = false, "all frames"
	} else {
		o.plain = append(o.plain, to)
	}
	d.say(fmt.Sprintf("%s leave one by one from now on, without segmentation offload: %s", what, why))
}

// DoubtBatches implements link.Caps.
func (d *Driver) DoubtBatches(to link.Addr) {
	d.renounce(to, "much of the first that was sent so was lost")
}

// segmentControl is the control message with the length of the frames in a batch.
type segmentControl struct {
	unix.Cmsghdr
	size uint16
	_    [6]byte
}

// receiveControl has room for the kernel's control messages about a buffer: the length of its
// frames (UDP_GRO, four bytes), the type of service (one byte, or four of IPv6's traffic class),
// and the address of this host at which it has arrived (twelve bytes, or twenty of IPv6). Each
// has a header of 16 bytes and is padded to eight.
type receiveControl struct {
	_     [0]uint64 // the kernel's headers are aligned
	bytes [96]byte
}

// told is the contents of a receiveControl.
type told struct {
	size   int  // of each frame except the last; 0 if there is only one
	marked bool // a router on the way was congested (ECN: CE)
}

const (
	ecnMask   = 3 // of the type of service
	ecnMarked = 3
)

// told reads the control messages of one buffer. The kernel wrote them, so they are complete.
func (s *socket) told(b []byte) (t told) {
	const head = unix.SizeofCmsghdr
	for len(b) > head {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		length := int(h.Len)
		if length <= head || length > len(b) {
			return t
		}
		switch data := b[head:length]; {
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			t.size = int(binary.NativeEndian.Uint32(data))
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS:
			t.marked = data[0]&ecnMask == ecnMarked
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS && len(data) >= 4:
			t.marked = binary.NativeEndian.Uint32(data)&ecnMask == ecnMarked
		}
		b = b[min(len(b), unix.CmsgSpace(length-head)):]
	}
	return t
}

// tell makes the kernel coalesce incoming frames, and report that and ECN marks (1), or not (0).
// A kernel that does not know an option ignores it: frames then arrive one by one, or marks are
// not counted.
func (s *socket) tell(on int) {
	s.tellOf(s.fd, on)
	if s.direct.fd >= 0 {
		s.tellOf(s.direct.fd, on)
	}
}

func (s *socket) tellOf(fd, on int) {
	if s.offload.receive {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, on)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, on)
	if s.six {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, on)
	}
}
