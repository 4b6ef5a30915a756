// Package shm carries frames between NICs of one host: the embedded NICs of one job's
// processes, which share memory.
//
//	sender                                                   receiver
//	  │  connect ──────────────── unix socket ─────────────► accept   (look)
//	  │  memory file of a ring ── descriptor ──────────────► map it
//	  ▼                                                         ▼
//	Reserve, Commit ──► ring: batch, published by Flush ──► Poll ─► Receive
//	       │                                                    │
//	       └── one byte through the socket, if it sleeps ─────► Sleep
//
// Each direction has its own ring. Its sender makes it for the first frame to an address. The
// receiver need not have accepted the connection: when it maps the ring, it finds the frames
// that were written before. A frame is written once, in the ring, and read there. While both
// ends live, nothing is lost, damaged or overtaken. When one dies, the kernel closes its socket.
// The other end notices that at its next look, and still reads the frames that were sent.
//
// An address is 64 bits, random or computed from a name, and it determines the socket's name.
// The socket is in the abstract namespace of unix sockets, so nothing is left behind in a file
// system, and it is visible only in the same network namespace. Both ends must run as the same
// user, root included: they read each other's memory in place, and a user's processes can do
// anything to each other anyway. Above the link, a handshake proves their ids: the user alone
// gives no authority.
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

// Config holds the parameters of a driver. The zero value is valid.
type Config struct {
	Name string // others reach the driver by Address(Name); "" means a random address
	MTU  int    // largest frame, in bytes; 0 means limits.ShmFrame
}

// ErrAddress means that a string is not the name of a driver.
var ErrAddress = errors.New(`not an address of shared memory; expected "shm:" and a name, or 16 hexadecimal digits`)

// ErrAddressInUse means that another NIC uses the name.
var ErrAddressInUse = errors.New("the address is in use")

// Prefix is the beginning of a written address.
const Prefix = "shm:"

// portNumber is the port in all addresses. It distinguishes them from those of other drivers in
// fd57::/16.
const portNumber = 2

// Parse parses "shm:NAME" or "shm:0123456789abcdef". The error wraps ErrAddress.
func Parse(s string) (link.Addr, error) {
	name, ok := strings.CutPrefix(s, Prefix)
	if !ok || name == "" || len(name) > 64 {
		return link.Addr{}, fmt.Errorf("%q: %w", s, ErrAddress)
	}
	return Address(name), nil
}

// IsName reports whether s means shared memory, even if it is malformed.
func IsName(s string) bool { return strings.HasPrefix(s, Prefix) }

// String returns the written form of an address, also of one that was made from a name.
func String(a link.Addr) string { return fmt.Sprintf("%s%016x", Prefix, number(a)) }

// Is reports whether a is an address of this package.
func Is(a link.Addr) bool { return a.Port() == portNumber && a == address(number(a)) }

// Address returns the address of the driver with a name. Sixteen hexadecimal digits are the
// address itself.
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

// check fills in the defaults and checks the MTU.
func (c *Config) check() error {
	if c.MTU == 0 {
		c.MTU = limits.ShmFrame
	}
	if c.MTU < limits.LeastFrame || c.MTU > limits.MaxFrame {
		return fmt.Errorf("shm: MTU of %d bytes: not in %d…%d", c.MTU, limits.LeastFrame, limits.MaxFrame)
	}
	return nil
}
