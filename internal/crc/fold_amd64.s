#include "textflag.h"

// MOVE multiplies lane by the factors in Z8, and adds to it what follows: next, in memory or a register.
#define MOVE(lane, next) \
	VPCLMULQDQ $0x00, Z8, lane, Z9   \
	VPCLMULQDQ $0x11, Z8, lane, lane \
	VPTERNLOGQ $0x96, next, Z9, lane

// DIVIDE divides what is left, CX bytes at SI, into AX: eight at a time, then one.
#define DIVIDE \
words: \
	CMPQ   CX, $8 \
	JB     bytes \
	CRC32Q (SI), AX \
	ADDQ   $8, SI \
	SUBQ   $8, CX \
	JMP    words \
bytes: \
	TESTQ  CX, CX \
	JZ     done \
	CRC32B (SI), AX \
	INCQ   SI \
	DECQ   CX \
	JMP    bytes \
done:

// func fold(crc uint32, b []byte, distances *[12]uint64) uint32
//
// SI is what is left of b, CX its length, DX the factors, AX the remainder.
TEXT ·fold(SB), NOSPLIT, $0-44
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

	// 16 bytes are left of all so far; the instruction divides them, then the rest.
	VMOVQ   X3, R8
	VPEXTRQ $1, X3, R9
	VZEROUPPER
	XORL    AX, AX
	CRC32Q  R8, AX
	CRC32Q  R9, AX

	DIVIDE
	MOVL AX, ret+40(FP)
	RET

// func foldCopy(crc uint32, to *byte, b []byte, distances *[12]uint64) uint32
//
// The same, with each stretch in registers on its way from SI to DI.
TEXT ·foldCopy(SB), NOSPLIT, $0-52
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

	VMOVQ   X3, R8
	VPEXTRQ $1, X3, R9
	VZEROUPPER
	XORL    AX, AX
	CRC32Q  R8, AX
	CRC32Q  R9, AX

words:
	CMPQ   CX, $8
	JB     bytes
	MOVQ   (SI), R8
	MOVQ   R8, (DI)
	CRC32Q R8, AX
	ADDQ   $8, SI
	ADDQ   $8, DI
	SUBQ   $8, CX
	JMP    words

bytes:
	TESTQ  CX, CX
	JZ     done
	MOVB   (SI), R8
	MOVB   R8, (DI)
	CRC32B R8, AX
	INCQ   SI
	INCQ   DI
	DECQ   CX
	JMP    bytes

done:
	MOVL AX, ret+48(FP)
	RET

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
