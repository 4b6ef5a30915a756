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

// offload says which of the kernel's two segmentation offloads are used:
//
//	stage ┌──────┬──────┬──────┬────┐  one sendmsg, UDP_SEGMENT    one recvmsg, UDP_GRO  ┌──────┬──────┬──────┬────┐ slot
//	      └──────┴──────┴──────┴────┘ ──────── one packet, cut up as late as can be ───► └──────┴──────┴──────┴────┘
//
// A batch has frames of one length, but for the last. Both come and go alone: frames of a batch may arrive one by one, and
// what was sent one by one may arrive as a batch.
type offload struct {
	send    bool        // to destinations that are not plain
	receive bool        // where there is much to receive
	plain   []link.Addr // destinations that batches do not get through to
}

// batches reports whether frames for to may leave as batches.
func (o *offload) batches(to link.Addr) bool {
	if !o.send {
		return false
	}
	return !slices.Contains(o.plain, to)
}

// renounce sends frames for to one by one from now on. Where that is so of many, it is so of all: the list is searched for
// every batch.
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

// segmentControl is the control message that tells the length of the frames in a batch.
type segmentControl struct {
	unix.Cmsghdr
	size uint16
	_    [6]byte
}

// receiveControl has room for what the kernel tells of a buffer: the length of its frames (UDP_GRO, four bytes), the
// type of service (one byte, or four of IPv6's traffic class), and the address of this host at which it has arrived
// (twelve bytes, or twenty of IPv6), each behind a header of 16 bytes and padded to eight.
type receiveControl struct {
	_     [0]uint64 // the kernel's headers are aligned
	bytes [96]byte
}

// told is what a receiveControl says.
type told struct {
	size   int  // of each frame but the last; 0 if there is but one
	marked bool // a router on the way was congested (ECN: CE)
}

const (
	ecnMask   = 3 // of the type of service
	ecnMarked = 3
)

// told reads the control messages of one buffer. The kernel wrote them, so that they are whole.
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

// tell has the kernel coalesce what comes (1), and tell of it and of marks, or not (0). What a kernel does not know it does
// not do: frames then come one by one, or marks are not counted.
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
