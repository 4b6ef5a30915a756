package testbed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shaped switch is a goroutine that replaces the kernel's bridge:
//
//	host 0 [eth0]────[port0 ▼]┐
//	host 1 [eth0]────[port1 ▼]┤ carrier      ▼ loss program
//	host 2 [eth0]────[port2 ▼]┘
//
// The carrier reads the frames of each port from a packet socket, holds each frame until it is
// due, and writes the frame to the port of its receiver. The kernel's netem does the same, but
// many kernels are built without it, and it draws its numbers from no seed.
//
// A frame keeps its virtio header between the sockets. The header says which checksum is still to
// be computed, so the kernel computes it as it would after a bridge.

const (
	virtioHeaderBytes = 10 // struct virtio_net_hdr

	// longestFrame is the length of the longest frame of a port, in bytes: the greatest MTU,
	// Ethernet's header, and a VLAN tag.
	longestFrame = virtioHeaderBytes + MostMTU + headerBytes + 4

	// portBufferBytes is the room for frames that a port has received and the carrier has not
	// read yet.
	portBufferBytes = 8 << 20

	// burst bounds the frames that are read from one port before due frames leave.
	burst = 64
)

// carrier is a shaped switch.
type carrier struct {
	ports []int // packet sockets, by host
	stop  int   // an event descriptor
	done  chan struct{}

	mu   sync.Mutex // guards held
	held *held
}

// newCarrier makes a carrier that has no ports yet.
func newCarrier(c *Config) (*carrier, error) {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, explain("making an event descriptor for the switch", err)
	}
	return &carrier{stop: stop, held: newHeld(c)}, nil
}

// addPort opens a link in the namespace of the calling thread, as the port of the next host.
func (c *carrier) addPort(name string, index int) error {
	sysctl("ipv6/conf/"+name+"/disable_ipv6", "1") // a port has no address
	if err := offloadOff(name); err != nil {
		return explain("telling "+name+" not to merge frames", err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return explain("opening a packet socket for the switch", err)
	}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // in network order
	for _, step := range []func() error{
		func() error { return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, portBufferBytes) },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, portBufferBytes) },
		func() error { return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}) },
	} {
		if err := step(); err != nil {
			unix.Close(fd)
			return explain("setting up a packet socket on "+name, err)
		}
	}
	c.ports = append(c.ports, fd)
	return nil
}

// offloadOff tells a link not to merge frames that it receives: each frame has its own fate.
func offloadOff(name string) error {
	const setGRO = 0x2c // ETHTOOL_SGRO
	value := struct{ command, data uint32 }{setGRO, 0}
	request := struct {
		name  [unix.IFNAMSIZ]byte
		value unsafe.Pointer
		_     [16]byte
	}{value: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); e != 0 {
		return e
	}
	return nil
}

// start begins to carry frames.
func (c *carrier) start() {
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		c.run()
	}()
}

// run carries frames until close. Ppoll takes its timeout in nanoseconds, while Go's timers are a
// millisecond late.
func (c *carrier) run() {
	fds := []unix.PollFd{{Fd: int32(c.stop), Events: unix.POLLIN}}
	for _, fd := range c.ports {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	buf := make([]byte, longestFrame)
	for {
		if _, err := unix.Ppoll(fds, c.timeout(), nil); err != nil && err != unix.EINTR {
			// This fails only for foreign descriptors.
			panic(fmt.Sprintf("testbed: the switch cannot poll its ports: %v", err))
		}
		if fds[0].Revents != 0 {
			return
		}
		for i := range c.ports {
			if fds[i+1].Revents != 0 {
				c.read(i, buf)
			}
		}
		c.deliver()
	}
}

// timeout returns how long the carrier may sleep, or nil if no frame waits.
func (c *carrier) timeout() *unix.Timespec {
	c.mu.Lock()
	defer c.mu.Unlock()
	due, some := c.held.nextDue()
	if !some {
		return nil
	}
	left := unix.NsecToTimespec(max(0, int64(time.Until(due))))
	return &left
}

// read takes the frames that a port has received. If the link of a port is down, the port returns
// an error once.
func (c *carrier) read(port int, buf []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range burst {
		n, err := unix.Read(c.ports[port], buf)
		switch {
		case err == unix.EAGAIN:
			return
		case err != nil || n < virtioHeaderBytes+headerBytes:
		default:
			c.held.take(time.Now(), port, buf[:n])
		}
	}
}

// deliver writes the frames that are due. Like any switch, it drops a frame that the port does
// not take.
func (c *carrier) deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for f := c.held.leave(now); f != nil; f = c.held.leave(now) {
		to, known := receiver(f.bytes[virtioHeaderBytes:])
		for i, fd := range c.ports {
			if i == f.from || known && i != to {
				continue
			}
			if _, err := unix.Write(fd, f.bytes); errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) {
				c.held.counts.Overflowed++
			}
		}
	}
}

// receiver returns the host that a frame is for. known is false for a frame to all hosts.
func receiver(frame []byte) (host int, known bool) {
	prefix := mac(0)[:4]
	if string(frame[:4]) != string(prefix) {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(frame[4:6])) - 1, true
}

// counters returns the counts of the switch.
func (c *carrier) counters() ShapeCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held.counts
}

// close stops the carrier and waits for it. Frames that it holds are lost.
func (c *carrier) close() {
	if c.done != nil {
		_, _ = unix.Write(c.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // the counter is far from full
		<-c.done
	}
	for _, fd := range c.ports {
		unix.Close(fd)
	}
	unix.Close(c.stop)
}
