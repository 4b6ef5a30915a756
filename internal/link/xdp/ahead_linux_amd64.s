#include "textflag.h"

// func fetchAhead(entry *desc, frame *byte)
TEXT ·fetchAhead(SB), NOSPLIT, $0-16
	MOVQ entry+0(FP), AX
	MOVQ frame+8(FP), BX
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	PREFETCHT0 64(BX)
	PREFETCHT0 128(BX)
	RET
