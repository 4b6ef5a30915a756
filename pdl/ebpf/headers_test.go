package ebpf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/weftnet/weft/pdl/ebpf"
)

// ethernet adds headers before a UDP payload.
func ethernet(payload []byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}
	b = append(b, 0x45, 0, 0, 0, 0, 7, 0x40, 0, 9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	binary.BigEndian.PutUint16(b[16:], uint16(28+len(payload)))
	b = append(b, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0)
	binary.BigEndian.PutUint16(b[38:], uint16(8+len(payload)))
	return append(b, payload...)
}

// Headers of other paths: a tag with a priority and the VLAN number 5, and IPv6 addresses.
var (
	vlanTag = []byte{0x81, 0, 0x20, 5}
	one6    = []byte{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0, 1}
	two6    = []byte{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 2}
)

// wrapped adds the headers of the bench's path before a UDP payload.
func (b *bench) wrapped(payload []byte) []byte {
	f := ethernet(payload)
	if b.path.IPv6 {
		ip := append([]byte{0x6b, 0x11, 0x22, 0x33, 0, 0, 17, 9}, one6...)
		ip = append(append(ip, two6...), f[34:]...)
		binary.BigEndian.PutUint16(ip[4:], uint16(8+len(payload)))
		f = append(append(f[:12:12], 0x86, 0xdd), ip...)
	}
	if b.path.VLAN {
		f = append(append(f[:12:12], vlanTag...), f[12:]...)
	}
	return f
}

// unwrapped returns the UDP payload of a reply, or what is wrong with its headers.
func (b *bench) unwrapped(f []byte) (payload []byte, wrong string) {
	if !bytes.Equal(f[:12], []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}) {
		return nil, fmt.Sprintf("to the wrong station: %x", f[:12])
	}
	ip := f[14:]
	if b.path.VLAN {
		if !bytes.Equal(f[12:16], vlanTag) {
			return nil, fmt.Sprintf("with another tag: %x", f[12:16])
		}
		ip = f[18:]
	}
	if b.path.IPv6 {
		return unwrapped6(ip)
	}
	total := int(binary.BigEndian.Uint16(ip[2:]))
	switch ports := []byte{0x56, 0x78, 0x12, 0x34}; {
	case !bytes.Equal(ip[12:24], append([]byte{10, 0, 0, 2, 10, 0, 0, 1}, ports...)):
		return nil, fmt.Sprintf("to the wrong address: %x", ip[:28])
	case onesSum(0, ip[:20]) != 0xffff || int(binary.BigEndian.Uint16(ip[24:])) != total-20 || ip[8] != 64:
		return nil, fmt.Sprintf("with wrong headers: %x", ip[:28])
	}
	return ip[28:total], ""
}

func unwrapped6(ip []byte) (payload []byte, wrong string) {
	n := int(binary.BigEndian.Uint16(ip[4:]))
	udp := ip[40:][:n]
	switch {
	case !bytes.Equal(ip[:4], []byte{0x60, 0, 0, 0}) || ip[6] != 17 || ip[7] != 64 || int(binary.BigEndian.Uint16(udp[4:])) != n:
		return nil, fmt.Sprintf("with wrong headers: %x", ip[:48])
	case !bytes.Equal(ip[8:24], two6) || !bytes.Equal(ip[24:40], one6) || !bytes.Equal(udp[:4], []byte{0x56, 0x78, 0x12, 0x34}):
		return nil, fmt.Sprintf("to the wrong address: %x", ip[:48])
	case binary.BigEndian.Uint16(udp[6:]) == 0:
		return nil, "without a checksum of UDP"
	}
	if sum := onesSum(onesSum(uint32(n)+17, ip[8:40]), udp); sum != 0xffff {
		return nil, fmt.Sprintf("with a wrong checksum of UDP, of %d bytes: %#x", n, sum)
	}
	return udp[8:], ""
}

// onesSum adds the 16-bit words of b in ones' complement. It fills the last word up with a zero.
func onesSum(sum uint32, b []byte) uint32 {
	for i, v := range b {
		sum += uint32(v) << (8 * (1 - i%2))
		sum = sum>>16 + sum&0xffff
	}
	return sum
}

// Messages of every length are answered on each kind of path, with the right headers and the
// checksum that the path demands.
func TestRepliesOnEveryPath(t *testing.T) {
	for _, path := range []ebpf.Path{{}, {VLAN: true}, {IPv6: true}, {VLAN: true, IPv6: true}} {
		t.Run(fmt.Sprintf("%+v", path), func(t *testing.T) {
			k := newBenchOn(t, path).load(compiled(t, counter))
			t.Cleanup(k.close)
			if err := k.Start(nil); err != nil {
				t.Fatal(err)
			}
			payload := make([]byte, limitOfTestRun-20)
			for i := range payload {
				payload[i] = byte(i*7 + i>>8)
			}
			for n := range payload {
				// The sum is computed in pieces of 512 bytes.
				if n > 20 && n%61 != 0 && n%512 > 3 && n%512 < 430 && n < len(payload)-4 {
					continue
				}
				got := k.send(4000000000, payload[:n])
				want := "send " + hex(payload[:n]) + " as 1 to 5"
				if got.verdict != xdpTx || k.opened(got.frame) != want {
					t.Fatalf("%d bytes: verdict %d, %s", n, got.verdict, k.opened(got.frame))
				}
			}
		})
	}
}
