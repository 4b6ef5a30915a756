package limit

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/load"
)

// Bytes are counted at the receiver: datagrams that a network or a full socket loses were not
// carried. A sender that gives the receiver no time loses more; both have a core.

// mmsghdr is the header that sendmmsg and recvmmsg take for each message.
type mmsghdr struct {
	unix.Msghdr
	n uint32
	_ [4]byte
}

// headers makes n headers, each with a part of buf.
func headers(buf []byte, n int) []mmsghdr {
	hs, vs := make([]mmsghdr, n), make([]unix.Iovec, n)
	size := len(buf) / n
	for i := range hs {
		vs[i].Base = &buf[i*size]
		vs[i].SetLen(size)
		hs[i].Iov = &vs[i]
		hs[i].SetIovlen(1)
	}
	return hs
}

// byUDP returns a role that has a socket.
func byUDP(do func(*child, *udpWire) error) func(*child) error {
	return func(c *child) error {
		w, err := c.openUDP(busy)
		if err != nil {
			return err
		}
		return do(c, w)
	}
}

// udpTake counts received bytes.
func udpTake(c *child, w *udpWire) error {
	if err := w.join(); err != nil {
		return err
	}
	hs := headers(make([]byte, udpReceives*udpLanding), udpReceives)
	return c.count(func() (bytes int, err error) {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(w.socket), uintptr(unsafe.Pointer(&hs[0])),
			uintptr(len(hs)), unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 {
			if errno != unix.EAGAIN && errno != unix.EINTR && errno != unix.ECONNREFUSED {
				return 0, fmt.Errorf("recvmmsg: %w", errno)
			}
			return 0, nil
		}
		for i := range int(n) {
			bytes += int(hs[i].n)
		}
		return bytes, nil
	})
}

// datagram returns the length of the datagrams of a stream. It is the length of a message if the
// limit is a rate.
func (c *child) datagram(w wire) int {
	if find(c.Limit).Kind == Rate {
		return min(c.Size, w.piece())
	}
	return w.piece()
}

// udpGSO sends as many datagrams per call as fit.
func udpGSO(c *child, w *udpWire) error {
	if err := w.segments(c.datagram(w)); err != nil {
		return err
	}
	return w.pour(w.batch)
}

// udpSingle sends one datagram per call.
func udpSingle(c *child, w *udpWire) error { return w.pour(min(c.Size, w.segment)) }

// pour sends n bytes over and over.
func (w *udpWire) pour(n int) error {
	for b := load.Written(n); ; {
		if err := w.send(b); err != nil {
			return err
		}
	}
}

// udpMany sends several datagrams per call, each with its own header.
func udpMany(c *child, w *udpWire) error {
	for hs := headers(load.Written(mostPieces*c.datagram(w)), mostPieces); ; {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(w.socket), uintptr(unsafe.Pointer(&hs[0])),
			uintptr(len(hs)), 0, 0, 0)
		if errno != 0 && errno != unix.EINTR && errno != unix.ECONNREFUSED {
			return fmt.Errorf("sendmmsg: %w", errno)
		}
	}
}
