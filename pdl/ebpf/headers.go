package ebpf

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"
)

// Path is what stands before a datagram's payload on the NIC's link.
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

// ip is where the IP header begins, headers where the payload does.
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

// headers turns those of the frame: the sender is the receiver. R8 is how long the payload is.
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
	} else { // no checksum of UDP: the frame has a better one
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
	for i := 0; i < ipv4Len; i += 2 { // the same in either order of bytes
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

// sumPiece is how many bytes the kernel sums up at once.
const sumPiece = 512

// checkUDP writes the checksum of UDP, which IPv6 demands: of both addresses and of UDP's header, which follow one another in the frame, of the
// length and the protocol once more, and of the payload, which is still in memory.
func (g *generator) checkUDP() {
	ip := g.o.Path.ip()
	g.bigEndian(ip+4, udpLen) // R1 has the length
	g.emit(
		asm.Add.Imm(asm.R1, int32(binary.NativeEndian.Uint16([]byte{0, protoUDP}))),
		asm.Mov.Reg(asm.R3, asm.R5), asm.Add.Imm(asm.R3, int32(ip+8)), asm.Mov.Imm(asm.R4, 2*16+udpLen),
		asm.Mov.Reg(asm.R5, asm.R1),
	)
	g.addUp()
	g.emit(asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Reg(asm.R1, asm.R8), asm.StoreImm(asm.R1, atReply, 0, asm.Word)) // words are summed up
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
	g.emit(asm.JNE.Imm(asm.R1, 0, some), asm.Mov.Imm(asm.R1, 0xffff)) // 0 would say that there is none
	g.place(some)
	g.store(asm.RFP, onStackCheck, asm.R1)
	g.reach(g.o.Path.headers(), "lost")
	g.load(asm.R1, asm.RFP, onStackCheck)
	g.emit(asm.StoreMem(asm.R5, int16(ip+ipv6Len+6), asm.R1, asm.Half))
}

// addUp adds the words of R4 bytes at R3 to the sum in R5, and keeps that on the stack.
func (g *generator) addUp() {
	g.emit(asm.Mov.Imm(asm.R1, 0), asm.Mov.Imm(asm.R2, 0), asm.FnCsumDiff.Call())
	g.store(asm.RFP, onStackCheck, asm.R0)
}

// fold makes the 16 bits of a checksum of the sum in R1.
func (g *generator) fold() {
	for range 2 {
		g.emit(asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, 16), asm.And.Imm(asm.R1, 0xffff), asm.Add.Reg(asm.R1, asm.R2))
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

// bigEndian writes the payload's length and so much more, in two bytes.
func (g *generator) bigEndian(at, more int) {
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, int32(more)), asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.StoreMem(asm.R5, int16(at), asm.R1, asm.Half),
	)
}

// half writes two bytes.
func (g *generator) half(at int, v int64) { g.emit(asm.StoreImm(asm.R5, int16(at), v, asm.Half)) }
