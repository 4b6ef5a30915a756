package ebpf

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"
)

// Path describes the headers before a datagram's payload on the NIC's link.
type Path struct {
	VLAN bool // an 802.1Q tag
	IPv6 bool // else IPv4
}

const (
	ethernetLen = 14
	vlanLen     = 4
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8

	protoUDP = 17
)

// ip returns the offset of the IP header, and headers that of the payload.
func (p Path) ip() int {
	if p.VLAN {
		return ethernetLen + vlanLen
	}
	return ethernetLen
}

func (p Path) ipLen() int {
	if p.IPv6 {
		return ipv6Len
	}
	return ipv4Len
}

func (p Path) headers() int { return p.ip() + p.ipLen() + udpLen }

// headers turns the frame's headers round, so that its sender becomes its receiver. R8 is the
// length of the payload.
func (g *generator) headers() {
	g.reach(g.o.Path.headers(), "lost")
	for i := range 3 {
		g.swap(2*i, 6+2*i, asm.Half)
	}
	udp := g.o.Path.ip() + g.o.Path.ipLen()
	g.swap(udp, udp+2, asm.Half)
	g.bigEndian(udp+4, udpLen)
	g.half(udp+6, 0)
	if g.o.Path.IPv6 {
		g.headerIPv6()
		g.checkUDP()
	} else { // no UDP checksum: the frame has a better one
		g.headerIPv4()
	}
}

func (g *generator) headerIPv4() {
	ip := g.o.Path.ip()
	g.swap(ip+12, ip+16, asm.Word)
	g.bigEndian(ip+2, ipv4Len+udpLen)
	g.emit(asm.StoreImm(asm.R5, int16(ip+1), 0, asm.Byte), asm.StoreImm(asm.R5, int16(ip+8), hopLimit, asm.Byte))
	g.half(ip+10, 0)
	g.emit(asm.Mov.Imm(asm.R1, 0))
	for i := 0; i < ipv4Len; i += 2 { // independent of the byte order
		g.emit(asm.LoadMem(asm.R2, asm.R5, int16(ip+i), asm.Half), asm.Add.Reg(asm.R1, asm.R2))
	}
	g.fold()
	g.emit(asm.StoreMem(asm.R5, int16(ip+10), asm.R1, asm.Half))
}

func (g *generator) headerIPv6() {
	ip := g.o.Path.ip()
	g.emit(asm.StoreImm(asm.R5, int16(ip), 6<<4, asm.Byte), asm.StoreImm(asm.R5, int16(ip+1), 0, asm.Byte))
	g.half(ip+2, 0) // no traffic class and no flow label
	g.bigEndian(ip+4, udpLen)
	g.emit(asm.StoreImm(asm.R5, int16(ip+7), hopLimit, asm.Byte))
	for i := range 4 {
		g.swap(ip+8+4*i, ip+24+4*i, asm.Word)
	}
}

// sumPiece is the number of bytes that one call of the kernel sums up.
const sumPiece = 512

// checkUDP writes the UDP checksum, which IPv6 demands. It covers both addresses and the UDP
// header, which follow each other in the frame, then the length and the protocol once more, and
// the payload, which is still in memory.
func (g *generator) checkUDP() {
	ip := g.o.Path.ip()
	g.bigEndian(ip+4, udpLen) // R1 has the length
	g.emit(
		asm.Add.Imm(asm.R1, int32(binary.NativeEndian.Uint16([]byte{0, protoUDP}))),
		asm.Mov.Reg(asm.R3, asm.R5), asm.Add.Imm(asm.R3, int32(ip+8)), asm.Mov.Imm(asm.R4, 2*16+udpLen),
		asm.Mov.Reg(asm.R5, asm.R1),
	)
	g.addUp()
	// The sum counts whole words, so zeros must follow.
	g.emit(asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Reg(asm.R1, asm.R8), asm.StoreImm(asm.R1, atReply, 0, asm.Word))
	summed := g.fresh()
	for done := int32(0); done < mostFrame; done += sumPiece {
		short := g.fresh()
		g.emit(asm.Mov.Reg(asm.R4, asm.R8), asm.Add.Imm(asm.R4, 3), asm.And.Imm(asm.R4, 2*mostFrame-4))
		if done > 0 {
			g.emit(asm.JLE.Imm(asm.R4, done, summed), asm.Sub.Imm(asm.R4, done))
		}
		g.emit(asm.JLE.Imm(asm.R4, sumPiece, short), asm.Mov.Imm(asm.R4, sumPiece))
		g.place(short)
		g.emit(
			asm.Mov.Reg(asm.R3, asm.R7), asm.Add.Imm(asm.R3, atReply+done),
			asm.LoadMem(asm.R5, asm.RFP, onStackCheck, asm.DWord),
		)
		g.addUp()
	}
	g.place(summed)
	some := g.fresh()
	g.emit(asm.LoadMem(asm.R1, asm.RFP, onStackCheck, asm.DWord))
	g.fold()
	// 0 would mean that there is no checksum.
	g.emit(asm.JNE.Imm(asm.R1, 0, some), asm.Mov.Imm(asm.R1, 0xffff))
	g.place(some)
	g.store(asm.RFP, onStackCheck, asm.R1)
	g.reach(g.o.Path.headers(), "lost")
	g.load(asm.R1, asm.RFP, onStackCheck)
	g.emit(asm.StoreMem(asm.R5, int16(ip+ipv6Len+6), asm.R1, asm.Half))
}

// addUp adds R4 bytes at R3 to the sum in R5, and stores the result on the stack.
func (g *generator) addUp() {
	g.emit(asm.Mov.Imm(asm.R1, 0), asm.Mov.Imm(asm.R2, 0), asm.FnCsumDiff.Call())
	g.store(asm.RFP, onStackCheck, asm.R0)
}

// fold folds the sum in R1 to the 16 bits of a checksum.
func (g *generator) fold() {
	for range 2 {
		g.emit(asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, 16),
			asm.And.Imm(asm.R1, 0xffff), asm.Add.Reg(asm.R1, asm.R2))
	}
	g.emit(asm.Xor.Imm(asm.R1, 0xffff))
}

const hopLimit = 64

// swap exchanges two places of the frame.
func (g *generator) swap(a, b int, size asm.Size) {
	g.emit(
		asm.LoadMem(asm.R1, asm.R5, int16(a), size), asm.LoadMem(asm.R2, asm.R5, int16(b), size),
		asm.StoreMem(asm.R5, int16(a), asm.R2, size), asm.StoreMem(asm.R5, int16(b), asm.R1, size),
	)
}

// bigEndian stores the payload's length plus more in two bytes.
func (g *generator) bigEndian(at, more int) {
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, int32(more)), asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.StoreMem(asm.R5, int16(at), asm.R1, asm.Half),
	)
}

// half stores two bytes.
func (g *generator) half(at int, v int64) { g.emit(asm.StoreImm(asm.R5, int16(at), v, asm.Half)) }
