#include "textflag.h"
#include "rest_amd64.h"

// 32 bytes at a time: AVX2. Four lanes are 128 bytes, and each has two parts.

// MOVE multiplies lane by the factors in Y8, and adds to it what follows: next, in memory or a register.
#define MOVE(lane, next) \
	VPCLMULQDQ $0x00, Y8, lane, Y9   \
	VPCLMULQDQ $0x11, Y8, lane, lane \
	VPXOR      next, Y9, Y9          \
	VPXOR      Y9, lane, lane

// HALVE moves the lower part of Y0 onto the higher, which is then in X1.
#define HALVE \
	VMOVDQU      32(DX), X8        \
	VEXTRACTI128 $1, Y0, X1        \
	VPCLMULQDQ   $0x00, X8, X0, X2 \
	VPCLMULQDQ   $0x11, X8, X0, X0 \
	VPXOR        X2, X1, X1        \
	VPXOR        X0, X1, X1

// func fold256(crc uint32, b []byte, distances *[6]uint64) uint32
//
// SI is what is left of b, CX its length, DX the factors, AX the remainder.
TEXT ·fold256(SB), NOSPLIT, $0-44
	MOVL crc+0(FP), AX
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX
	MOVQ distances+32(FP), DX

	VMOVD   AX, X4
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VPXOR   Y4, Y0, Y0  // the remainder so far is added to the first bytes
	ADDQ    $128, SI
	SUBQ    $128, CX

	VBROADCASTI128 (DX), Y8

four:
	CMPQ CX, $128
	JB   join
	MOVE(Y0, (SI))
	MOVE(Y1, 32(SI))
	MOVE(Y2, 64(SI))
	MOVE(Y3, 96(SI))
	ADDQ $128, SI
	SUBQ $128, CX
	JMP  four

join:
	VBROADCASTI128 16(DX), Y8
	MOVE(Y0, Y1)
	MOVE(Y0, Y2)
	MOVE(Y0, Y3)

one:
	CMPQ CX, $32
	JB   lane
	MOVE(Y0, (SI))
	ADDQ $32, SI
	SUBQ $32, CX
	JMP  one

lane:
	HALVE
	DIVIDE_LANE(X1)
	DIVIDE
	MOVL AX, ret+40(FP)
	RET

// func foldCopy256(crc uint32, to *byte, b []byte, distances *[6]uint64) uint32
//
// The same, with each stretch in registers on its way from SI to DI.
TEXT ·foldCopy256(SB), NOSPLIT, $0-52
	MOVL crc+0(FP), AX
	MOVQ to+8(FP), DI
	MOVQ b_base+16(FP), SI
	MOVQ b_len+24(FP), CX
	MOVQ distances+40(FP), DX

	VMOVD   AX, X4
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VPXOR   Y4, Y0, Y0
	ADDQ    $128, SI
	ADDQ    $128, DI
	SUBQ    $128, CX

	VBROADCASTI128 (DX), Y8

four:
	CMPQ CX, $128
	JB   join
	VMOVDQU (SI), Y4
	VMOVDQU 32(SI), Y5
	VMOVDQU 64(SI), Y6
	VMOVDQU 96(SI), Y7
	VMOVDQU Y4, (DI)
	VMOVDQU Y5, 32(DI)
	VMOVDQU Y6, 64(DI)
	VMOVDQU Y7, 96(DI)
	MOVE(Y0, Y4)
	MOVE(Y1, Y5)
	MOVE(Y2, Y6)
	MOVE(Y3, Y7)
	ADDQ $128, SI
	ADDQ $128, DI
	SUBQ $128, CX
	JMP  four

join:
	VBROADCASTI128 16(DX), Y8
	MOVE(Y0, Y1)
	MOVE(Y0, Y2)
	MOVE(Y0, Y3)

one:
	CMPQ CX, $32
	JB   lane
	VMOVDQU (SI), Y4
	VMOVDQU Y4, (DI)
	MOVE(Y0, Y4)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JMP  one

lane:
	HALVE
	DIVIDE_LANE(X1)
	DIVIDE_COPY
	MOVL AX, ret+48(FP)
	RET
