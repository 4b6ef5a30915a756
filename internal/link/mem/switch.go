// Package mem carries frames between NICs of one process: a switch of any number of ports.
//
//	port A                                   port B
//	Reserve ─► staged buffer                 queue: ring of (buffer, source)
//	Commit  ─────── the buffer itself ─────► ┌──┬──┬──┬──┬──┐
//	   ▲                                     └──┴──┴──┴──┴──┘ ─► Poll ─► Receive
//	   └── spare ◄── switch's store ◄── spare ◄───── the buffer, empty ────┘
//
// A frame is never copied: the buffer in which the sender wrote it goes into the receiver's queue, and afterwards joins
// the receiver's few spare ones, which serve what that port sends. Surplus goes back to a store that all ports share, so
// the memory of a switch follows the number of frames in flight and not the number of ports: a simulation may have
// thousands. Queues grow by doubling, and nothing is allocated once they have grown.
//
// A switch keeps every promise that a link can make: what is committed arrives once, in order and whole. The price is
// backpressure: Reserve says nil while the receiver's queue is full. Different goroutines may drive different ports. If
// one goroutine drives them all, everything happens in the order of its calls, and nothing else has a say.
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

// Config is what all ports of a switch have in common. The zero value is good.
type Config struct {
	MTU   int // largest frame, bytes; 0 = limits.MemFrame; at most limits.MaxFrame
	Queue int // frames that wait at a port before its senders must; 0 = limits.MemQueue
}

// Switch joins ports. Its methods may be called from any goroutine.
type Switch struct {
	mtu     int
	queue   int32
	keep    int                     // spare buffers that a port keeps for itself
	ports   atomic.Pointer[[]*Port] // by number; only ever appended to, under mu
	mu      sync.Mutex              // guards what is below, and appending to ports
	spare   [][]byte                // buffers of MTU bytes that no port has
	buffers int                     // how many buffers exist
}

// portNumber is the UDP-like port that every address of a switch has: one address, one NIC.
const portNumber = 1

// prefix is fd57::/16, the part of IPv6's private addresses that drivers make up theirs in ("W" is 57 hex).
var prefix = [2]byte{0xfd, 0x57}

// NewSwitch makes a switch without ports. It panics if cfg asks for what no switch has: that is a bug of the caller.
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

// Port adds a port and returns it. The first one's address is [fd57::1]:1, the next one's [fd57::2]:1, and so on:
// addresses are never used twice.
func (s *Switch) Port() *Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	ports := *s.ports.Load()
	p := &Port{sw: s, addr: Address(len(ports) + 1)}
	// An older header of the same array does not reach the new element, so readers need no lock.
	ports = append(ports, p)
	s.ports.Store(&ports)
	return p
}

// Address is the address of a switch's nth port, counted from 1.
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

// Addresses returns the addresses of the ports that are open, in the order in which they were added.
func (s *Switch) Addresses() (open []link.Addr) {
	for _, p := range *s.ports.Load() {
		if !p.shut.Load() {
			open = append(open, p.addr)
		}
	}
	return open
}

// lookup returns the port that lives at to, or nil.
func (s *Switch) lookup(to link.Addr) *Port {
	a := to.Addr().As16()
	n := binary.BigEndian.Uint64(a[8:])
	ports := *s.ports.Load()
	if n-1 >= uint64(len(ports)) || ports[n-1].addr != to {
		return nil
	}
	return ports[n-1]
}

// take moves n buffers of MTU bytes to the end of into, newly made ones if there are not enough.
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

// give takes buffers back.
func (s *Switch) give(buffers [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, buffers...)
}

// Buffers is how many buffers of MTU bytes the switch has made so far: the most frames that were ever in flight, and a
// few for each port that has been used.
func (s *Switch) Buffers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffers
}
