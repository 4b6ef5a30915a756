package ebpf

import (
	"github.com/cilium/ebpf"

	"github.com/weftnet/weft/pdl/prog"
)

// Program returns the program in the kernel, for tests that run it there.
func (r *Resident) Program() *ebpf.Program { return r.program }

// Module returns the module from which the program was compiled.
func (r *Resident) Module() *prog.Module { return r.m }

// Dispatch returns the program that is the first to see each frame.
func (h *Host) Dispatch() *ebpf.Program { return h.dispatch }
