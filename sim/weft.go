package sim

import (
	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/proc"
)

// Weft is the process as an application has it. Code that is written against *weft.Process runs on it as it is.
func (p *Process) Weft() *weft.Process { return proc.Public(p.Process).(*weft.Process) }
