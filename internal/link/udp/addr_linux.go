//go:build linux && !portable

package udp

import (
	"math/bits"
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link"
)

// sockaddr is the kernel's form of an address of either family: IPv4's form shares the first
// bytes.
type sockaddr unix.RawSockaddrInet6

const nameLen = unix.SizeofSockaddrInet6

// set makes s the kernel's form of a for a socket of IPv6 (six) or IPv4, and returns its length.
// ok is false if such a socket cannot reach a.
func (s *sockaddr) set(a link.Addr, six bool, z *zones) (length uint32, ok bool) {
	ip := a.Addr()
	if six {
		s.Family = unix.AF_INET6
		s.Port = swap(a.Port())
		s.Flowinfo = 0
		s.Addr = ip.As16() // mapped, if it is IPv4
		s.Scope_id, ok = z.index(ip.Zone())
		return unix.SizeofSockaddrInet6, ok
	}
	if !ip.Is4() && !ip.Is4In6() {
		return 0, false
	}
	four := (*unix.RawSockaddrInet4)(unsafe.Pointer(s))
	four.Family = unix.AF_INET
	four.Port = swap(a.Port())
	four.Addr = ip.As4()
	four.Zero = [8]uint8{}
	return unix.SizeofSockaddrInet4, true
}

// addr returns the address in s.
func (s *sockaddr) addr(z *zones) link.Addr {
	if s.Family == unix.AF_INET {
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(s))
		return netip.AddrPortFrom(netip.AddrFrom4(four.Addr), swap(four.Port))
	}
	ip := netip.AddrFrom16(s.Addr).Unmap()
	if s.Scope_id != 0 && ip.Is6() {
		ip = ip.WithZone(z.name(s.Scope_id))
	}
	return netip.AddrPortFrom(ip, swap(s.Port))
}

// swap converts a port between the host's byte order and the network's.
func swap(port uint16) uint16 {
	if little {
		return bits.ReverseBytes16(port)
	}
	return port
}

var little = func() bool { one := uint16(1); return *(*byte)(unsafe.Pointer(&one)) == 1 }()

// zones remembers the names and numbers of the interfaces of link-local addresses, so that a
// frame costs no lookup. If an interface is recreated under an old name, a new driver is needed.
type zones struct {
	names   map[uint32]string
	indexes map[string]uint32
}

// remember notes a zone. If a zone is known by its interface's name and by its number, the form
// that came first stays; that is the form in our own address, if it has a zone. Frames are told
// apart by their senders, so the form of a sender's address must not change.
func (z *zones) remember(name string, index uint32) {
	if z.names == nil {
		z.names, z.indexes = make(map[uint32]string), make(map[string]uint32)
	}
	z.indexes[name] = index
	if _, known := z.names[index]; !known {
		z.names[index] = name
	}
}

// index returns the number of a zone; 0 for none. ok is false if there is no such interface.
func (z *zones) index(zone string) (n uint32, ok bool) {
	if zone == "" {
		return 0, true
	}
	if n, ok := z.indexes[zone]; ok {
		return n, true
	}
	if in, err := net.InterfaceByName(zone); err == nil {
		n = uint32(in.Index)
	} else if i, err := strconv.ParseUint(zone, 10, 32); err == nil {
		n = uint32(i)
	} else {
		return 0, false
	}
	z.remember(zone, n)
	return n, true
}

// name returns the name of the zone with number n.
func (z *zones) name(n uint32) string {
	if name, ok := z.names[n]; ok {
		return name
	}
	name := strconv.FormatUint(uint64(n), 10)
	if in, err := net.InterfaceByIndex(int(n)); err == nil {
		name = in.Name
	}
	z.remember(name, n)
	return name
}
