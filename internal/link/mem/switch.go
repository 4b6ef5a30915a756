// Package mem carries frames between NICs of one process, through a switch with any number of
// ports.
//
//	port A                                   port B
//	Reserve ─► staged buffer                 queue: ring of (buffer, source)
//	Commit  ─────── the buffer itself ─────► ┌──┬──┬──┬──┬──┐
//	   ▲                                     └──┴──┴──┴──┴──┘ ─► Poll ─► Receive
//	   └── spare ◄── switch's store ◄── spare ◄───── the buffer, empty ────┘
//
// A frame is never copied. The sender writes into a buffer, which then goes into the receiver's
// queue. Afterwards the buffer joins the receiver's few spare ones, which serve for the frames
// that this port sends. Surplus buffers return to a store that all ports share. So the memory of
// a switch depends on the number of frames in flight, and not on the number of ports: a
// simulation may have thousands. Queues grow by doubling, and after that nothing is allocated.
//
// A switch keeps every promise that a link can make: a committed frame arrives once, in order
// and undamaged. The price is backpressure: Reserve returns nil while the receiver's queue is
// full. Different goroutines may drive different ports. If one goroutine drives all ports, only
// the order of its calls decides what happens.
package mem

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Config holds the parameters of all ports of a switch. The zero value is valid.
type Config struct {
	MTU   int // largest frame in bytes, at most limits.MaxFrame; 0 means limits.MemFrame
	Queue int // frames that may wait at a port; 0 means limits.MemQueue
}

// Switch connects ports. Any goroutine may call its methods.
type Switch struct {
	mtu     int
	queue   int32
	keep    int                     // spare buffers that a port keeps
	ports   atomic.Pointer[[]*Port] // by number; ports are only appended, under mu
	mu      sync.Mutex              // guards the fields below, and the appending of ports
	spare   [][]byte                // buffers of MTU bytes that belong to no port
	buffers int                     // number of existing buffers
}

// portNumber is the UDP-like port number in every address of a switch: one address is one NIC.
const portNumber = 1

// prefix is fd57::/16, a part of IPv6's private addresses. Drivers generate their addresses in
// it ("W" is 57 hex).
var prefix = [2]byte{0xfd, 0x57}

// NewSwitch returns a switch without ports. It panics if cfg is out of range, since that is a
// bug of the caller.
func NewSwitch(cfg Config) *Switch {
	if cfg.MTU == 0 {
		cfg.MTU = limits.MemFrame
	}
	if cfg.Queue == 0 {
		cfg.Queue = limits.MemQueue
	}
	if cfg.MTU < limits.LeastFrame || cfg.MTU > limits.MaxFrame {
		panic(fmt.Sprintf("mem: MTU of %d bytes: not in %d…%d", cfg.MTU, limits.LeastFrame, limits.MaxFrame))
	}
	if cfg.Queue < 1 || cfg.Queue > 1<<20 {
		panic(fmt.Sprintf("mem: queue of %d frames: not in 1…%d", cfg.Queue, 1<<20))
	}
	s := &Switch{mtu: cfg.MTU, queue: int32(cfg.Queue), keep: min(max(limits.MaxFrame/cfg.MTU, 2), 16)}
	s.ports.Store(&[]*Port{})
	return s
}

// Port adds a port and returns it. The first address is [fd57::1]:1, the next one [fd57::2]:1,
// and so on. No address is used twice.
func (s *Switch) Port() *Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	ports := *s.ports.Load()
	p := &Port{sw: s, addr: Address(len(ports) + 1)}
	// An older slice header of the same array does not include the new element, so readers need
	// no lock.
	ports = append(ports, p)
	s.ports.Store(&ports)
	return p
}

// Address returns the address of a switch's nth port, counted from 1.
func Address(n int) link.Addr {
	a := [16]byte{0: prefix[0], 1: prefix[1]}
	binary.BigEndian.PutUint64(a[8:], uint64(n))
	return netip.AddrPortFrom(netip.AddrFrom16(a), portNumber)
}

// Is reports whether a is an address of a switch.
func Is(a link.Addr) bool {
	b := a.Addr().As16()
	return a == Address(int(binary.BigEndian.Uint64(b[8:])))
}

// Addresses returns the addresses of the open ports, in the order in which they were added.
func (s *Switch) Addresses() (open []link.Addr) {
	for _, p := range *s.ports.Load() {
		if !p.shut.Load() {
			open = append(open, p.addr)
		}
	}
	return open
}

// lookup returns the port with an address, or nil.
func (s *Switch) lookup(to link.Addr) *Port {
	a := to.Addr().As16()
	n := binary.BigEndian.Uint64(a[8:])
	ports := *s.ports.Load()
	if n-1 >= uint64(len(ports)) || ports[n-1].addr != to {
		return nil
	}
	return ports[n-1]
}

// take appends n buffers of MTU bytes to into. It makes new ones if there are not enough.
func (s *Switch) take(into [][]byte, n int) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		last := len(s.spare) - 1
		if last < 0 {
			s.buffers++
			into = append(into, make([]byte, s.mtu))
			continue
		}
		into = append(into, s.spare[last])
		s.spare = s.spare[:last]
	}
	return into
}

// give returns buffers to the store.
func (s *Switch) give(buffers [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, buffers...)
}

// Buffers returns the number of buffers of MTU bytes that the switch has made. It is the largest
// number of frames that were in flight at once, and a few for each port in use.
func (s *Switch) Buffers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffers
}
