#include "textflag.h"

// func load(w *uint32)
TEXT ·load(SB), NOSPLIT, $0-8
	MOVD w+0(FP), R0
	MOVWU (R0), R1
	RET

// func store(w *uint32)
TEXT ·store(SB), NOSPLIT, $0-8
	MOVD w+0(FP), R0
again:
	LDAXRW (R0), R1
	STLXRW R1, (R0), R2
	CBNZ R2, again
	RET
