package capture

import (
	"net/netip"
)

// Each frame gets the IP and UDP headers that match its addresses. Both addresses have one
// version: IPv4 if one of them is IPv4 and the other one is IPv4 or names no host, otherwise
// IPv6.
const (
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
	protoUDP = 17
	hopLimit = 64
	dontCut  = 0x4000

	// longest is the number of bytes of a frame that fit an IP packet of either version, after
	// the headers.
	longest = 65535 - ipv6Len - udpLen
)

// longestPacket returns the length of the longest packet whose frame is cut to snap bytes. It is
// the snap length of the file, and readers refuse longer packets.
func longestPacket(snap int) int { return min(snap, longest) + ipv6Len + udpLen }

// headers returns the length of the headers before the frame.
func (f *frame) headers() int {
	if f.four() {
		return ipv4Len + udpLen
	}
	return ipv6Len + udpLen
}

func (f *frame) four() bool {
	a, b := f.from.Addr().Unmap(), f.to.Addr().Unmap()
	return a.Is4() && b.Is4() || a.Is4() && !says(b) || b.Is4() && !says(a)
}

// says reports whether an address names a host.
func says(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() }

// appendHeaders appends the headers of a frame. The checksums are right if kept is the whole
// frame. If the frame is cut, there is no UDP checksum.
func appendHeaders(b []byte, f *frame, kept []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, f.headers())...)
	ip, udp := b[at:len(b)-udpLen], b[len(b)-udpLen:]
	carried := udpLen + min(f.length, longest)
	var addresses []byte
	if f.four() {
		src, dst := as4(f.from.Addr()), as4(f.to.Addr())
		ip[0] = 0x45
		be.PutUint16(ip[2:], uint16(ipv4Len+carried))
		be.PutUint16(ip[6:], dontCut)
		ip[8], ip[9] = hopLimit, protoUDP
		copy(ip[12:], src[:])
		copy(ip[16:], dst[:])
		be.PutUint16(ip[10:], ^fold(sum(0, ip)))
		addresses = ip[12:]
	} else {
		src, dst := f.from.Addr().As16(), f.to.Addr().As16()
		ip[0] = 0x60
		be.PutUint16(ip[4:], uint16(carried))
		ip[6], ip[7] = protoUDP, hopLimit
		copy(ip[8:], src[:])
		copy(ip[24:], dst[:])
		addresses = ip[8:]
	}
	be.PutUint16(udp, f.from.Port())
	be.PutUint16(udp[2:], f.to.Port())
	be.PutUint16(udp[4:], uint16(carried))
	if udpLen+len(kept) == carried {
		be.PutUint16(udp[6:], udpSum(addresses, udp, kept))
	}
	return b
}

// udpSum returns the checksum of a UDP packet. The field must still be zero in its header.
func udpSum(addresses, udp, payload []byte) uint16 {
	c := ^fold(sum(sum(sum(0, addresses)+protoUDP+uint32(len(udp)+len(payload)), udp), payload))
	if c == 0 { // 0 would mean no checksum
		c = 0xffff
	}
	return c
}

func as4(a netip.Addr) (b [4]byte) {
	if a = a.Unmap(); a.Is4() {
		b = a.As4()
	}
	return b
}

// sum adds the 16-bit words of b to an Internet checksum (RFC 1071). b may have 64 KiB and more.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
		s = s&0xffff + s>>16
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}
