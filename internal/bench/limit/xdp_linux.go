package limit

import (
	"net"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/internal/testbed"
)

// xdpBatch is how many frames are sent in one batch.
const xdpBatch = 64

func xdpPut(c *child) error {
	wire, err := newXDP(c)
	if err != nil {
		return err
	}
	w := wire.(*xdpWire)
	b := load.Written(c.datagram(w))
	for {
		for range xdpBatch {
			if !w.queue(b) {
				break
			}
		}
		if err := w.kick(); err != nil {
			return err
		}
	}
}

func xdpTake(c *child) error {
	w, err := newXDP(c)
	if err != nil {
		return err
	}
	return c.count(func() (bytes int, err error) {
		for range xdpBatch {
			b, err := w.receive()
			if len(b) == 0 || err != nil {
				return bytes, err
			}
			bytes += len(b)
		}
		return bytes, nil
	})
}

// xdpEcho returns datagrams to their sender, in the driver.
func xdpEcho(c *child) error {
	l, err := net.InterfaceByName(testbed.Interface)
	if err != nil {
		return err
	}
	ins := ours()
	swap := func(size asm.Size, bytes int16, a, b int16) {
		for i := int16(0); i < bytes; i += int16(size.Sizeof()) {
			ins = append(ins,
				asm.LoadMem(asm.R2, asm.R7, a+i, size),
				asm.LoadMem(asm.R3, asm.R7, b+i, size),
				asm.StoreMem(asm.R7, a+i, asm.R3, size),
				asm.StoreMem(asm.R7, b+i, asm.R2, size),
			)
		}
	}
	swap(asm.Half, 6, 0, 6)   // MAC addresses
	swap(asm.Word, 4, 26, 30) // IP addresses
	swap(asm.Half, 2, 34, 36) // ports
	ins = append(ins, asm.Mov.Imm(asm.R0, xdpTX), asm.Return())
	if _, _, err := attach(l.Index, append(ins, pass()...)); err != nil {
		return err
	}
	if err := c.ready(xdpPort); err != nil {
		return err
	}
	select {}
}

// passAll attaches a program that does nothing to our interface.
func passAll() error {
	l, err := net.InterfaceByName(testbed.Interface)
	if err != nil {
		return err
	}
	_, _, err = attach(l.Index, pass())
	return err
}

// beside runs f with an XDP program on our interface.
func beside(f func(*child) error) func(*child) error {
	return func(c *child) error {
		if err := passAll(); err != nil {
			return err
		}
		return f(c)
	}
}

// udpWithoutSum makes a socket that reaches xdpEcho. A datagram that turns round in the far
// driver passes no code that would fill in its checksum, so it goes without one.
func udpWithoutSum(c *child) (wire, error) {
	// without a program, our end has no ring for frames of the far driver
	if err := passAll(); err != nil {
		return nil, err
	}
	w, err := c.openUDPAt(busy, xdpPort)
	if err == nil {
		err = unix.SetsockoptInt(w.socket, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
	}
	return w, err
}
