package xdp

import (
	"encoding/binary"
	"net/netip"

	"github.com/cilium/ebpf/asm"
)

// Offsets in the context of an XDP program, and what it answers.
const (
	ctxData    = 0
	ctxDataEnd = 4
	ctxQueue   = 16

	xdpPass = 2
)

// steer is the program that runs on every frame that the interface receives: UDP for our address and port, on our VLAN if we have one, goes to
// the socket of the queue that it came by, everything else on to the kernel, fragments too. Where a queue has no socket, the
// kernel gets our frames as well, and they come by the driver's ordinary socket.
//
// Where there is a chain, another program is given them first.
//
//	R6 context   R7 Ethernet, then IP − 14   R8 end   R2 scratch
func steer(sockets int, to netip.AddrPort, vlan uint16, chain *chain) asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, ctxData, asm.Word),
		asm.LoadMem(asm.R8, asm.R6, ctxDataEnd, asm.Word),
	}
	if vlan != 0 {
		ins = append(ins, reaches(ethernetLen+vlanLen)...)
		ins = append(ins,
			asm.LoadMem(asm.R2, asm.R7, 12, asm.Half),
			asm.JNE.Imm(asm.R2, half(typeVLAN), "pass"),
			asm.LoadMem(asm.R2, asm.R7, ethernetLen, asm.Half),
			asm.And.Imm(asm.R2, half(vlanNumber)),
			asm.JNE.Imm(asm.R2, half(vlan), "pass"),
			asm.Add.Imm(asm.R7, vlanLen),
		)
	}
	if to.Addr().Unmap().Is4() {
		ins = append(ins, steerIPv4(to)...)
	} else {
		ins = append(ins, steerIPv6(to)...)
	}
	if chain != nil {
		ins = append(ins, chain.jump()...)
	}
	return append(append(ins, hand(sockets)...),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"),
		asm.Return(),
	)
}

// hand gives the frame to the socket of its queue.
func hand(sockets int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R6, ctxQueue, asm.Word),
		asm.LoadMapPtr(asm.R1, sockets),
		asm.Mov.Imm(asm.R3, xdpPass), // what to do where the queue has no socket
		asm.FnRedirectMap.Call(),
		asm.Return(),
	}
}

// reaches passes frames that do not have n bytes from R7 on: the verifier wants to see it.
func reaches(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, n),
		asm.JGT.Reg(asm.R2, asm.R8, "pass"),
	}
}

func steerIPv4(to netip.AddrPort) asm.Instructions {
	a := to.Addr().Unmap().As4()
	ins := reaches(ethernetLen + ipv4Len + udpLen)
	return append(ins,
		asm.LoadMem(asm.R2, asm.R7, 12, asm.Half),
		asm.JNE.Imm(asm.R2, half(typeIPv4), "pass"),
		asm.LoadMem(asm.R2, asm.R7, ethernetLen, asm.Byte),
		asm.JNE.Imm(asm.R2, 0x45, "pass"), // options: the kernel understands them
		asm.LoadMem(asm.R2, asm.R7, ethernetLen+9, asm.Byte),
		asm.JNE.Imm(asm.R2, protoUDP, "pass"),
		asm.LoadMem(asm.R2, asm.R7, ethernetLen+6, asm.Half),
		asm.And.Imm(asm.R2, half(fragmented)),
		asm.JNE.Imm(asm.R2, 0, "pass"),
		asm.LoadMem(asm.R2, asm.R7, ethernetLen+16, asm.Word),
		asm.JNE.Imm32(asm.R2, int32(binary.NativeEndian.Uint32(a[:])), "pass"),
		asm.LoadMem(asm.R2, asm.R7, ethernetLen+ipv4Len+2, asm.Half),
		asm.JNE.Imm(asm.R2, half(to.Port()), "pass"),
	)
}

func steerIPv6(to netip.AddrPort) asm.Instructions {
	a := to.Addr().As16()
	ins := reaches(ethernetLen + ipv6Len + udpLen)
	ins = append(ins,
		asm.LoadMem(asm.R2, asm.R7, 12, asm.Half),
		asm.JNE.Imm(asm.R2, half(typeIPv6), "pass"),
		asm.LoadMem(asm.R2, asm.R7, ethernetLen+6, asm.Byte),
		asm.JNE.Imm(asm.R2, protoUDP, "pass"), // extension headers: the kernel understands them
	)
	for i := int16(0); i < 16; i += 4 {
		ins = append(ins,
			asm.LoadMem(asm.R2, asm.R7, ethernetLen+24+i, asm.Word),
			asm.JNE.Imm32(asm.R2, int32(binary.NativeEndian.Uint32(a[i:])), "pass"),
		)
	}
	return append(ins,
		asm.LoadMem(asm.R2, asm.R7, ethernetLen+ipv6Len+2, asm.Half),
		asm.JNE.Imm(asm.R2, half(to.Port()), "pass"),
	)
}

// half is a 16-bit word of the wire as the processor loads it.
func half(v uint16) int32 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return int32(binary.NativeEndian.Uint16(b[:]))
}
