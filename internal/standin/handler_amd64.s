//go:build linux

#include "textflag.h"

// func handlerAddress() uintptr
TEXT ·handlerAddress(SB), NOSPLIT, $0-8
	LEAQ ·handler(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// handler has the kernel's calling convention: DI the signal, SI its siginfo, DX the context, on the stack the way back, by which the context
// has all registers again. What it hands on to Go's handler it leaves as it was.
TEXT ·handler(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVL 8(SI), CX  // si_code: not positive if a process has sent the signal
	CMPL CX, $0
	JLE  other
	MOVQ 16(SI), AX // si_addr
	MOVQ ·list(SB), R8

look:
	TESTQ R8, R8
	JZ    other
	CMPQ  AX, 0(R8) // start
	JCS   next
	CMPQ  AX, 8(R8) // end
	JCS   found

next:
	MOVQ 16(R8), R8
	JMP  look

found:
	MOVQ AX, R13
	MOVQ DI, R12
	MOVQ SI, R15
	MOVQ DX, BX
	MOVQ R8, BP

	// mmap(start, end-start, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED|MAP_NORESERVE, -1, 0)
	MOVQ 0(BP), DI
	MOVQ 8(BP), SI
	SUBQ DI, SI
	MOVL $3, DX
	MOVL $0x4032, R10
	MOVQ $-1, R8
	XORL R9, R9
	MOVL $9, AX
	SYSCALL
	CMPQ AX, $0xfffffffffffff001
	JCC  failed
	CMPQ 24(BP), $0
	JNE  counted
	MOVQ R13, 24(BP)

counted:
	LOCK
	INCL ·faults(SB)
	RET

failed:
	MOVQ R12, DI
	MOVQ R15, SI
	MOVQ BX, DX

other:
	MOVQ ·bus(SB), AX
	CMPL DI, $11
	JNE  pass
	MOVQ ·segv(SB), AX

pass:
	JMP AX
