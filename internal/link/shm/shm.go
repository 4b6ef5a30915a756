// Package shm carries frames between NICs of one host: embedded processes of one job, which share memory.
//
//	sender                                                   receiver
//	  │  connect ──────────────── unix socket ─────────────► accept   (look)
//	  │  memory file of a ring ── descriptor ──────────────► map it
//	  ▼                                                         ▼
//	Reserve, Commit ──► ring: batch, published by Flush ──► Poll ─► Receive
//	       │                                                    │
//	       └── one byte through the socket, if it sleeps ─────► Sleep
//
// Each direction has a ring of its own, made by its sender when it first has a frame for that address. The receiver need not
// have accepted anything: what was written before is found when the ring is mapped. A frame is written once, in the
// ring, and read there. Nothing is lost, damaged or overtaken while both ends live; when one dies, the kernel closes its socket, and
// the other notices at its next look, after it has read what was sent.
//
// An address is 64 bits, random or made from a name, and the socket's name follows from it: in the
// abstract namespace of unix sockets, so that nothing is left behind in a file system, and only in
// the same network namespace. Both ends must run as the same user, root too: they read one
// another's memory in place, and a user's processes can do anything to one another in any case.
// Above the link a handshake proves their ids: the user alone gives no authority.
package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Config is how a driver is made. The zero value is good.
type Config struct {
	Name string // others reach the driver by Address(Name); "" takes a random address
	MTU  int    // largest frame, bytes; 0 = limits.ShmFrame
}

// ErrAddress is what a string is that names no driver.
var ErrAddress = errors.New(`not an address of shared memory; expected "shm:" and a name, or 16 hexadecimal digits`)

// ErrAddressInUse says that another NIC has the name.
var ErrAddressInUse = errors.New("the address is in use")

// Prefix is what the written form of addresses begins with.
const Prefix = "shm:"

// portNumber is the same in all addresses; it tells them from those of other drivers in fd57::/16.
const portNumber = 2

// Parse reads "shm:NAME" or "shm:0123456789abcdef".
func Parse(s string) (link.Addr, error) {
	name, ok := strings.CutPrefix(s, Prefix)
	if !ok || name == "" || len(name) > 64 {
		return link.Addr{}, fmt.Errorf("%q: %w", s, ErrAddress)
	}
	return Address(name), nil
}

// IsName reports whether s means shared memory, well-formed or not.
func IsName(s string) bool { return strings.HasPrefix(s, Prefix) }

// String is the written form of an address, whatever it was made from.
func String(a link.Addr) string { return fmt.Sprintf("%s%016x", Prefix, number(a)) }

// Is reports whether a is an address of this package.
func Is(a link.Addr) bool { return a.Port() == portNumber && a == address(number(a)) }

// Address is where the driver of that name lives. Sixteen hexadecimal digits stand for themselves.
func Address(name string) link.Addr {
	if n, err := strconv.ParseUint(name, 16, 64); err == nil && len(name) == 16 {
		return address(n)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return address(h.Sum64())
}

func address(n uint64) link.Addr {
	a := [16]byte{0: 0xfd, 1: 0x57, 7: portNumber}
	binary.BigEndian.PutUint64(a[8:], n)
	return netip.AddrPortFrom(netip.AddrFrom16(a), portNumber)
}

func number(a link.Addr) uint64 {
	b := a.Addr().As16()
	return binary.BigEndian.Uint64(b[8:])
}

// check completes a configuration.
func (c *Config) check() error {
	if c.MTU == 0 {
		c.MTU = limits.ShmFrame
	}
	if c.MTU < limits.LeastFrame || c.MTU > limits.MaxFrame {
		return fmt.Errorf("shm: MTU of %d bytes: not in %d…%d", c.MTU, limits.LeastFrame, limits.MaxFrame)
	}
	return nil
}
