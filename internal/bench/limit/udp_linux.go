package limit

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// udpWire is a connected UDP socket.
type udpWire struct {
	socket  int
	flags   uintptr // of the receiving calls
	segment int     // the largest datagram
	batch   int     // bytes of the datagrams that one call sends
	buf     []byte
}

const (
	udpHeaders  = 28       // IPv4, UDP
	mostBatch   = 65507    // bytes in one call
	mostPieces  = 64       // datagrams in one call; newer kernels take more
	udpBuffer   = 8 << 20  // of a socket
	udpLanding  = 64 << 10 // where a datagram, or a batch, is received
	udpReceives = 4        // how many at once
)

// newUDP makes one end of a wire. The role on host 1 tells its port and waits for the first
// datagram; the role on host 0 sends it.
func newUDP(c *child) (wire, error) { return c.openUDP(busy) }

func (c *child) openUDP(how waiting) (*udpWire, error) { return c.openUDPAt(how, 0) }

func (c *child) openUDPAt(how waiting, port int) (w *udpWire, err error) {
	w = &udpWire{flags: unix.MSG_DONTWAIT, segment: min(c.MTU-udpHeaders, mostBatch), buf: make([]byte, udpLanding)}
	w.batch = max(1, min(mostBatch/w.segment, mostPieces)) * w.segment
	if how == blocking {
		w.flags = 0
	}
	w.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for _, o := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(w.socket, unix.SOL_SOCKET, o[0], udpBuffer) != nil {
			// as much as is permitted
			_ = unix.SetsockoptInt(w.socket, unix.SOL_SOCKET, o[1], udpBuffer)
		}
	}
	if err := unix.Bind(w.socket, c.at(c.here(), port)); err != nil {
		return nil, err
	}
	if c.here() == 0 {
		return w, w.call(c)
	}
	return w, w.beCalled(c)
}

// call connects to the role on host 1, and sends it a datagram, which shows our address.
func (w *udpWire) call(c *child) error {
	if err := unix.Connect(w.socket, c.at(1, c.Port)); err != nil {
		return err
	}
	return w.send(make([]byte, numberBytes))
}

// beCalled tells the port, and connects to the role that sends the first datagram.
func (w *udpWire) beCalled(c *child) error {
	sa, err := unix.Getsockname(w.socket)
	if err != nil {
		return err
	}
	if err := c.ready(sa.(*unix.SockaddrInet4).Port); err != nil {
		return err
	}
	for {
		_, from, err := unix.Recvfrom(w.socket, w.buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		return unix.Connect(w.socket, from)
	}
}

func (w *udpWire) fd() int    { return w.socket }
func (w *udpWire) piece() int { return w.segment }

func (w *udpWire) send(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), w.batch)
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(w.socket), uintptr(unsafe.Pointer(&b[0])), uintptr(n),
			0, 0, 0)
		if errno != 0 && errno != unix.EINTR && errno != unix.ECONNREFUSED {
			return fmt.Errorf("sending %d bytes: %w", n, errno)
		}
		b = b[n:]
	}
	return nil
}

func (w *udpWire) receive() ([]byte, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(w.socket), uintptr(unsafe.Pointer(&w.buf[0])),
		uintptr(len(w.buf)), w.flags, 0, 0)
	switch errno {
	case 0:
		return w.buf[:n], nil
	case unix.EAGAIN, unix.EINTR, unix.ECONNREFUSED:
		return nil, nil
	}
	return nil, fmt.Errorf("receiving: %w", errno)
}

// segments makes the kernel cut outgoing data into datagrams, and join incoming datagrams.
func (w *udpWire) segments(size int) error {
	w.batch = max(1, min(mostBatch/size, mostPieces)) * size
	if w.batch > size {
		if err := unix.SetsockoptInt(w.socket, unix.IPPROTO_UDP, unix.UDP_SEGMENT, size); err != nil {
			return fmt.Errorf("segmentation offload: %w", err)
		}
	}
	return w.join()
}

func (w *udpWire) join() error {
	if err := unix.SetsockoptInt(w.socket, unix.IPPROTO_UDP, unix.UDP_GRO, 1); err != nil {
		return fmt.Errorf("receive offload: %w", err)
	}
	return nil
}

// udpFor makes an end of the wire of a ping-pong. how says how both ends wait.
func udpFor(how waiting) func(*child) (wire, error) {
	return func(c *child) (wire, error) {
		w, err := c.openUDP(how)
		if err == nil && c.Size > w.segment {
			err = w.segments(w.segment)
		}
		if err == nil && how == blocking && c.Role == 0 {
			t := unix.NsecToTimeval(int64(resend))
			err = unix.SetsockoptTimeval(w.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t)
		}
		return w, err
	}
}
