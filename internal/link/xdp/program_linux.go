package xdp

import (
	"encoding/binary"
	"net/netip"

	"github.com/cilium/ebpf/asm"
)

// Offsets in the context of an XDP program, and its return code.
const (
	ctxData    = 0
	ctxDataEnd = 4
	ctxQueue   = 16

	xdpPass = 2
)

// steer returns the program that runs on every received frame of the interface. It passes UDP
// for our address and port, and on our VLAN if we have one, to the socket of the frame's queue.
// Everything else goes on to the kernel, also fragments. If a queue has no socket, the kernel
// gets our frames, too, and they arrive at the driver's ordinary socket.
//
// If there is a chain, its first program gets our frames first.
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

// hand passes the frame to the socket of its queue.
func hand(sockets int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R6, ctxQueue, asm.Word),
		asm.LoadMapPtr(asm.R1, sockets),
		asm.Mov.Imm(asm.R3, xdpPass), // result if the queue has no socket
		asm.FnRedirectMap.Call(),
		asm.Return(),
	}
}

// reaches passes frames to the kernel that have less than n bytes from R7 on. The verifier
// demands this check.
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
		asm.JNE.Imm(asm.R2, 0x45, "pass"), // with options: the kernel understands them
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
		asm.JNE.Imm(asm.R2, protoUDP, "pass"), // the kernel understands extension headers
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

// half returns a 16-bit word of the wire as the processor loads it.
func half(v uint16) int32 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return int32(binary.NativeEndian.Uint16(b[:]))
}
