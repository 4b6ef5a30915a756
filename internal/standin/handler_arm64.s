//go:build linux

#include "textflag.h"

// func handlerAddress() uintptr
TEXT ·handlerAddress(SB), NOSPLIT, $0-8
	MOVD $·handler(SB), R0
	MOVD R0, ret+0(FP)
	RET

// handler has the kernel's calling convention: R0 the signal, R1 its siginfo, R2 the context, R30 the way back, by which the context has all
// registers again. What it hands on to Go's handler it leaves as it was.
TEXT ·handler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVW 8(R1), R3   // si_code: not positive if a process has sent the signal
	CMPW $0, R3
	BLE  other
	MOVD 16(R1), R3  // si_addr
	MOVD $·list(SB), R9
	MOVD (R9), R9

look:
	CBZ  R9, other
	MOVD 0(R9), R10  // start
	MOVD 8(R9), R11  // end
	CMP  R10, R3
	BLO  next
	CMP  R11, R3
	BLO  found

next:
	MOVD 16(R9), R9
	JMP  look

found:
	MOVD R0, R12
	MOVD R1, R13
	MOVD R2, R14
	MOVD R3, R15

	// mmap(start, end-start, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED|MAP_NORESERVE, -1, 0)
	MOVD R10, R0
	SUB  R10, R11, R1
	MOVD $3, R2
	MOVD $0x4032, R3
	MOVD $-1, R4
	MOVD $0, R5
	MOVD $222, R8
	SVC
	CMN  $4095, R0
	BCS  failed
	MOVD 24(R9), R3
	CBNZ R3, counted
	MOVD R15, 24(R9)

counted:
	MOVD $·faults(SB), R9
	MOVWU (R9), R3
	ADDW $1, R3
	MOVW R3, (R9)    // two at the same time may count as one: that it changes is enough
	RET

failed:
	MOVD R12, R0
	MOVD R13, R1
	MOVD R14, R2

other:
	MOVD $·bus(SB), R9
	MOVD (R9), R9
	CMPW $11, R0
	BNE  pass
	MOVD $·segv(SB), R9
	MOVD (R9), R9

pass:
	JMP (R9)
