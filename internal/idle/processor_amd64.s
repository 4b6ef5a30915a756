//go:build linux

#include "textflag.h"

// Linux keeps the number of each processor in the limit of a segment of its own: the number in twelve bits, and above them that of the
// node.
#define PROCESSOR 0x7b

// func segmentLimit() uint32
TEXT ·segmentLimit(SB), NOSPLIT, $0-4
	MOVL $PROCESSOR, AX
	MOVL $0xffffffff, CX
	BYTE $0x0F; BYTE $0x03; BYTE $0xC8 // LSL AX, CX, which leaves CX as it is if there is no such segment
	MOVL CX, ret+0(FP)
	RET
