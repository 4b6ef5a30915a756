package xdp

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// The headers before a frame, in bytes:
//
//	 0  destination, source MAC  12
//	12  802.1Q tag                4   only on a VLAN
//	..  EtherType                 2
//	..  IPv4                     20   or IPv6  40
//	..  UDP                       8
const (
	ethernetLen = 14
	vlanLen     = 4
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8
	mostHeaders = ethernetLen + vlanLen + ipv6Len + udpLen

	typeIPv4   = 0x0800
	typeIPv6   = 0x86dd
	typeVLAN   = 0x8100
	vlanNumber = 0x0fff // of a tag; the other bits are priority
	protoUDP   = 17
	hopLimit   = 64
	dontBreak  = 0x4000 // IPv4: a router that cannot forward it whole must report that
	fragmented = 0x3fff // more fragments, or not the first one
)

type mac [6]byte

// path holds the inputs of a header.
type path struct {
	from, to netip.AddrPort
	source   mac
	next     mac    // link address of the receiver, or of the router before it
	vlan     uint16 // 0 means no tag
}

// header holds the headers of a path. They are made once; put fills in the fields that depend on
// the frame.
type header struct {
	bytes [mostHeaders]byte
	n     int
	l3    int // offset of the IP header
	// For IPv4, the sum of the header with length 0. For IPv6, the sum of the pseudo header
	// without length, and of the ports.
	sum uint32
	six bool
}

// makeHeader returns the headers of a path.
func makeHeader(p *path) (h header) {
	b := h.bytes[:]
	copy(b, p.next[:])
	copy(b[6:], p.source[:])
	h.l3 = ethernetLen
	if p.vlan != 0 {
		binary.BigEndian.PutUint16(b[12:], typeVLAN)
		binary.BigEndian.PutUint16(b[14:], p.vlan)
		h.l3 += vlanLen
	}
	h.six = !p.to.Addr().Unmap().Is4()
	ip := b[h.l3:]
	if h.six {
		binary.BigEndian.PutUint16(b[h.l3-2:], typeIPv6)
		h.makeIPv6(ip, p)
		h.n = h.l3 + ipv6Len + udpLen
	} else {
		binary.BigEndian.PutUint16(b[h.l3-2:], typeIPv4)
		h.makeIPv4(ip, p)
		h.n = h.l3 + ipv4Len + udpLen
	}
	udp := b[h.n-udpLen:]
	binary.BigEndian.PutUint16(udp, p.from.Port())
	binary.BigEndian.PutUint16(udp[2:], p.to.Port())
	if h.six {
		h.sum += uint32(p.from.Port()) + uint32(p.to.Port())
	}
	return h
}

func (h *header) makeIPv4(ip []byte, p *path) {
	from, to := p.from.Addr().Unmap().As4(), p.to.Addr().Unmap().As4()
	ip[0] = 0x45
	binary.BigEndian.PutUint16(ip[6:], dontBreak)
	ip[8], ip[9] = hopLimit, protoUDP
	copy(ip[12:], from[:])
	copy(ip[16:], to[:])
	h.sum = uint32(sum(0, ip[:ipv4Len]))
}

func (h *header) makeIPv6(ip []byte, p *path) {
	from, to := p.from.Addr().As16(), p.to.Addr().As16()
	ip[0] = 0x60
	ip[6], ip[7] = protoUDP, hopLimit
	copy(ip[8:], from[:])
	copy(ip[24:], to[:])
	h.sum = uint32(sum(0, ip[8:ipv6Len])) + protoUDP
}

// put writes the headers before a frame. b has room for the headers, followed by the frame.
func (h *header) put(b []byte) {
	copy(b, h.bytes[:h.n])
	frame := b[h.n:]
	length := uint16(udpLen + len(frame))
	udp := b[h.n-udpLen : h.n]
	binary.BigEndian.PutUint16(udp[4:], length)
	if !h.six {
		// UDP over IPv4 may omit the checksum: frames have a better one.
		total := uint16(ipv4Len) + length
		binary.BigEndian.PutUint16(b[h.l3+2:], total)
		binary.BigEndian.PutUint16(b[h.l3+10:], ^fold(uint64(h.sum)+uint64(total)))
		return
	}
	binary.BigEndian.PutUint16(b[h.l3+4:], length)
	// The length counts twice: in the pseudo header and in the header.
	c := ^fold(sum(uint64(h.sum)+2*uint64(length), frame))
	if c == 0 {
		c = 0xffff // 0 would mean no checksum
	}
	binary.BigEndian.PutUint16(udp[6:], c)
}

// sum adds the big-endian 16-bit words of b to s, for the checksum of RFC 1071. An odd last byte
// is the upper half of a word. Sums in ones' complement may use wider words and be folded later.
func sum(s uint64, b []byte) uint64 {
	var acc, carry uint64
	for len(b) >= 8 {
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(b), carry)
		b = b[8:]
	}
	acc, carry = bits.Add64(acc, 0, carry)
	acc += carry
	s += acc>>48 + acc>>32&0xffff + acc>>16&0xffff + acc&0xffff
	for len(b) >= 2 {
		s += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return s
}

func fold(s uint64) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// parse finds the UDP payload, which is the frame, and its sender in bytes from the wire. ok is
// false if they are not a whole UDP datagram. The steering program passes only such datagrams,
// but the memory that it saw was another's.
func parse(b []byte) (from netip.AddrPort, frame []byte, congested, ok bool) {
	if len(b) < ethernetLen {
		return from, nil, false, false
	}
	kind, at := binary.BigEndian.Uint16(b[12:]), ethernetLen
	if kind == typeVLAN {
		if at += vlanLen; len(b) < at {
			return from, nil, false, false
		}
		kind = binary.BigEndian.Uint16(b[at-2:])
	}
	ip := b[at:]
	switch {
	case kind == typeIPv4 && len(ip) >= ipv4Len+udpLen:
		total := int(binary.BigEndian.Uint16(ip[2:]))
		if ip[0] != 0x45 || ip[9] != protoUDP || binary.BigEndian.Uint16(ip[6:])&fragmented != 0 ||
			total > len(ip) || total < ipv4Len+udpLen {
			return from, nil, false, false
		}
		frame, ok = datagram(ip[ipv4Len:total])
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:])), binary.BigEndian.Uint16(ip[ipv4Len:])),
			frame, ip[1]&3 == 3, ok
	case kind == typeIPv6 && len(ip) >= ipv6Len+udpLen:
		total := ipv6Len + int(binary.BigEndian.Uint16(ip[4:]))
		if ip[0]>>4 != 6 || ip[6] != protoUDP || total > len(ip) || total < ipv6Len+udpLen {
			return from, nil, false, false
		}
		frame, ok = datagram(ip[ipv6Len:total])
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(ip[8:])), binary.BigEndian.Uint16(ip[ipv6Len:])),
			frame, ip[1]>>4&3 == 3, ok
	}
	return from, nil, false, false
}

// datagram returns the payload of a UDP datagram.
func datagram(udp []byte) (frame []byte, ok bool) {
	n := int(binary.BigEndian.Uint16(udp[4:]))
	if n < udpLen || n > len(udp) {
		return nil, false
	}
	return udp[udpLen:n:n], true
}
