// DIVIDE_LANE divides a lane of 16 bytes, which is all that is left of what has been folded, into AX.
#define DIVIDE_LANE(lane) \
	VMOVQ   lane, R8     \
	VPEXTRQ $1, lane, R9 \
	VZEROUPPER           \
	XORL    AX, AX       \
	CRC32Q  R8, AX       \
	CRC32Q  R9, AX

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

// DIVIDE_COPY does so, and copies it to DI.
#define DIVIDE_COPY \
words: \
	CMPQ   CX, $8 \
	JB     bytes \
	MOVQ   (SI), R8 \
	MOVQ   R8, (DI) \
	CRC32Q R8, AX \
	ADDQ   $8, SI \
	ADDQ   $8, DI \
	SUBQ   $8, CX \
	JMP    words \
bytes: \
	TESTQ  CX, CX \
	JZ     done \
	MOVB   (SI), R8 \
	MOVB   R8, (DI) \
	CRC32B R8, AX \
	INCQ   SI \
	INCQ   DI \
	DECQ   CX \
	JMP    bytes \
done:
