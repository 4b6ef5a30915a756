package ebpf

import "github.com/cilium/ebpf/asm"

// Path is what stands before a datagram's payload on the NIC's link.
type Path struct {
	VLAN bool // an 802.1Q tag
}

const (
	ethernetLen = 14
	vlanLen     = 4
	ipv4Len     = 20
	udpLen      = 8
)

// ip is where the IP header begins, headers where the payload does.
func (p Path) ip() int {
	if p.VLAN {
		return ethernetLen + vlanLen
	}
	return ethernetLen
}

func (p Path) headers() int { return p.ip() + ipv4Len + udpLen }

// headers turns those of the frame: the sender is the receiver. R8 is how long the payload is.
func (g *generator) headers() {
	ip := g.o.Path.ip()
	udp := ip + ipv4Len
	g.reach(g.o.Path.headers(), "lost")
	for i := range 3 {
		g.swap(2*i, 6+2*i, asm.Half)
	}
	g.swap(ip+12, ip+16, asm.Word)
	g.swap(udp, udp+2, asm.Half)
	g.bigEndian(udp+4, udpLen)
	g.half(udp+6, 0) // no checksum: the frame has a better one
	g.bigEndian(ip+2, ipv4Len+udpLen)
	g.emit(asm.StoreImm(asm.R5, int16(ip+1), 0, asm.Byte), asm.StoreImm(asm.R5, int16(ip+8), hopLimit, asm.Byte))
	g.half(ip+10, 0)
	g.emit(asm.Mov.Imm(asm.R1, 0))
	for i := 0; i < ipv4Len; i += 2 { // the same in either order of bytes
		g.emit(asm.LoadMem(asm.R2, asm.R5, int16(ip+i), asm.Half), asm.Add.Reg(asm.R1, asm.R2))
	}
	for range 2 {
		g.emit(asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, 16), asm.And.Imm(asm.R1, 0xffff), asm.Add.Reg(asm.R1, asm.R2))
	}
	g.emit(asm.Xor.Imm(asm.R1, 0xffff), asm.StoreMem(asm.R5, int16(ip+10), asm.R1, asm.Half))
}

const hopLimit = 64

// swap exchanges two places of the frame.
func (g *generator) swap(a, b int, size asm.Size) {
	g.emit(
		asm.LoadMem(asm.R1, asm.R5, int16(a), size), asm.LoadMem(asm.R2, asm.R5, int16(b), size),
		asm.StoreMem(asm.R5, int16(a), asm.R2, size), asm.StoreMem(asm.R5, int16(b), asm.R1, size),
	)
}

// bigEndian writes the payload's length and so much more, in two bytes.
func (g *generator) bigEndian(at, more int) {
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, int32(more)), asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.StoreMem(asm.R5, int16(at), asm.R1, asm.Half),
	)
}

// half writes two bytes.
func (g *generator) half(at int, v int64) { g.emit(asm.StoreImm(asm.R5, int16(at), v, asm.Half)) }
