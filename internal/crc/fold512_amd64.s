#include "textflag.h"
#include "rest_amd64.h"

// 64 bytes at a time: AVX-512.

// MOVE multiplies lane by the factors in Z8, and adds to it what follows: next, in memory or a register.
#define MOVE(lane, next) \
	VPCLMULQDQ $0x00, Z8, lane, Z9   \
	VPCLMULQDQ $0x11, Z8, lane, lane \
	VPTERNLOGQ $0x96, next, Z9, lane

// func fold512(crc uint32, b []byte, distances *[12]uint64) uint32
//
// SI is what is left of b, CX its length, DX the factors, AX the remainder.
TEXT ·fold512(SB), NOSPLIT, $0-44
	MOVL crc+0(FP), AX
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), CX
	MOVQ distances+32(FP), DX

	VMOVD     AX, X4
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VPXORQ    Z4, Z0, Z0     // the remainder so far is added to the first bytes
	ADDQ      $256, SI
	SUBQ      $256, CX

	VBROADCASTI32X4 (DX), Z8

four:
	CMPQ CX, $256
	JB   join
	MOVE(Z0, (SI))
	MOVE(Z1, 64(SI))
	MOVE(Z2, 128(SI))
	MOVE(Z3, 192(SI))
	ADDQ $256, SI
	SUBQ $256, CX
	JMP  four

join:
	VBROADCASTI32X4 16(DX), Z8
	MOVE(Z0, Z1)
	MOVE(Z0, Z2)
	MOVE(Z0, Z3)

one:
	CMPQ CX, $64
	JB   lane
	MOVE(Z0, (SI))
	ADDQ $64, SI
	SUBQ $64, CX
	JMP  one

lane:
	// Parts 0, 1 and 2 move onto part 3, whose factors are 0, so that it does not go with them.
	VMOVDQU64      32(DX), Z8
	VEXTRACTI32X4  $3, Z0, X3
	VPCLMULQDQ     $0x00, Z8, Z0, Z1
	VPCLMULQDQ     $0x11, Z8, Z0, Z2
	VPXORQ         Z2, Z1, Z1
	VEXTRACTI64X4  $1, Z1, Y2
	VPXORQ         Z2, Z1, Z1
	VEXTRACTI32X4  $1, Z1, X2
	VPTERNLOGQ     $0x96, Z2, Z1, Z3

	DIVIDE_LANE(X3)
	DIVIDE
	MOVL AX, ret+40(FP)
	RET

// func foldCopy512(crc uint32, to *byte, b []byte, distances *[12]uint64) uint32
//
// The same, with each stretch in registers on its way from SI to DI.
TEXT ·foldCopy512(SB), NOSPLIT, $0-52
	MOVL crc+0(FP), AX
	MOVQ to+8(FP), DI
	MOVQ b_base+16(FP), SI
	MOVQ b_len+24(FP), CX
	MOVQ distances+40(FP), DX

	VMOVD     AX, X4
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, 64(DI)
	VMOVDQU64 Z2, 128(DI)
	VMOVDQU64 Z3, 192(DI)
	VPXORQ    Z4, Z0, Z0
	ADDQ      $256, SI
	ADDQ      $256, DI
	SUBQ      $256, CX

	VBROADCASTI32X4 (DX), Z8

four:
	CMPQ CX, $256
	JB   join
	VMOVDQU64 (SI), Z4
	VMOVDQU64 64(SI), Z5
	VMOVDQU64 128(SI), Z6
	VMOVDQU64 192(SI), Z7
	VMOVDQU64 Z4, (DI)
	VMOVDQU64 Z5, 64(DI)
	VMOVDQU64 Z6, 128(DI)
	VMOVDQU64 Z7, 192(DI)
	MOVE(Z0, Z4)
	MOVE(Z1, Z5)
	MOVE(Z2, Z6)
	MOVE(Z3, Z7)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	JMP  four

join:
	VBROADCASTI32X4 16(DX), Z8
	MOVE(Z0, Z1)
	MOVE(Z0, Z2)
	MOVE(Z0, Z3)

one:
	CMPQ CX, $64
	JB   lane
	VMOVDQU64 (SI), Z4
	VMOVDQU64 Z4, (DI)
	MOVE(Z0, Z4)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JMP  one

lane:
	VMOVDQU64      32(DX), Z8
	VEXTRACTI32X4  $3, Z0, X3
	VPCLMULQDQ     $0x00, Z8, Z0, Z1
	VPCLMULQDQ     $0x11, Z8, Z0, Z2
	VPXORQ         Z2, Z1, Z1
	VEXTRACTI64X4  $1, Z1, Y2
	VPXORQ         Z2, Z1, Z1
	VEXTRACTI32X4  $1, Z1, X2
	VPTERNLOGQ     $0x96, Z2, Z1, Z3

	DIVIDE_LANE(X3)
	DIVIDE_COPY
	MOVL AX, ret+48(FP)
	RET
