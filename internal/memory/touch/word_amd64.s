#include "textflag.h"

// func load(w *uint32)
TEXT ·load(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), AX
	MOVL (AX), CX
	RET

// func store(w *uint32)
TEXT ·store(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), AX
	XORL CX, CX
	LOCK
	XADDL CX, (AX)
	RET
