#include "textflag.h"

// func features7() (ecx uint32)
TEXT ·features7(SB), NOSPLIT, $0-4
	MOVL $7, AX
	XORL CX, CX
	CPUID
	MOVL CX, ecx+0(FP)
	RET
