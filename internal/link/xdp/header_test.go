package xdp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

var paths = []path{
	{from: netip.MustParseAddrPort("10.1.2.3:7700"), to: netip.MustParseAddrPort("10.1.2.4:9"), source: mac{2, 1}, next: mac{2, 2}},
	{from: netip.MustParseAddrPort("10.1.2.3:7700"), to: netip.MustParseAddrPort("10.1.2.4:9"), source: mac{2, 1}, next: mac{2, 2}, vlan: 7},
	{from: netip.MustParseAddrPort("[fd00::1]:7700"), to: netip.MustParseAddrPort("[fd00::2]:65535"), source: mac{2, 1}, next: mac{2, 2}},
	{from: netip.MustParseAddrPort("[fd00::1]:1"), to: netip.MustParseAddrPort("[fe80::2]:7"), source: mac{2, 1}, next: mac{2, 2}, vlan: 4094},
}

// packet returns a frame with its headers.
func packet(p *path, frame []byte) []byte {
	h := makeHeader(p)
	b := make([]byte, h.n+len(frame))
	copy(b[h.n:], frame)
	h.put(b)
	return b
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + n)
	}
	return b
}

func TestAFrameComesOutOfItsHeadersAsItWentIn(t *testing.T) {
	for _, p := range paths {
		for _, n := range []int{0, 1, 2, 7, 8, 9, 64, 1400, 1401, 1472} {
			b := packet(&p, pattern(n))
			// Short packets are padded on the wire.
			from, frame, congested, ok := parse(append(b, 0, 0, 0, 0))
			if !ok || congested || from != p.from || !bytes.Equal(frame, pattern(n)) {
				t.Errorf("%v to %v: a frame of %d bytes comes out as %d from %v, %v", p.from, p.to, n, len(frame), from, ok)
			}
		}
	}
}

// slowSum computes the checksum of RFC 1071 in the RFC's own way.
func slowSum(parts ...[]byte) uint16 {
	var s uint32
	for _, b := range parts {
		for i := 0; i < len(b); i += 2 {
			w := uint32(b[i]) << 8
			if i+1 < len(b) {
				w |= uint32(b[i+1])
			}
			s += w
		}
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

func TestChecksumsAreRight(t *testing.T) {
	for _, p := range paths {
		for n := range 300 {
			b := packet(&p, pattern(n))
			at := ethernetLen
			if p.vlan != 0 {
				at += vlanLen
			}
			ip := b[at:]
			if p.to.Addr().Is4() {
				if slowSum(ip[:ipv4Len]) != 0xffff {
					t.Fatalf("IPv4, %d bytes: the header's checksum is wrong", n)
				}
				continue
			}
			var length [4]byte
			binary.BigEndian.PutUint32(length[:], uint32(udpLen+n))
			if slowSum(ip[8:40], length[:], []byte{0, 0, 0, protoUDP}, ip[40:]) != 0xffff {
				t.Fatalf("IPv6, %d bytes: the UDP checksum is wrong", n)
			}
		}
	}
}

func TestCongestionMarksAreSeen(t *testing.T) {
	for _, p := range []path{paths[0], paths[2]} {
		b := packet(&p, pattern(10))
		if p.to.Addr().Is4() {
			b[ethernetLen+1] |= 3
		} else {
			b[ethernetLen+1] |= 3 << 4
		}
		if _, _, congested, ok := parse(b); !ok || !congested {
			t.Errorf("%v: congestion is marked, and parse says %v, %v", p.to, congested, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range paths {
		b := packet(&p, pattern(20))
		for n := range b {
			f.Add(b[:n])
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, frame, _, ok := parse(b)
		if !ok && frame != nil {
			t.Error("a frame out of what is none")
		}
		if ok && len(frame)+ethernetLen+ipv4Len+udpLen > len(b) {
			t.Errorf("a frame of %d bytes out of %d", len(frame), len(b))
		}
	})
}
