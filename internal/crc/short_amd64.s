#include "textflag.h"
#include "rest_amd64.h"

// func short(crc uint32, b []byte) uint32
//
// What is too short to be folded is divided eight bytes at a time.
TEXT ·short(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX

	DIVIDE
	MOVL AX, ret+32(FP)
	RET
