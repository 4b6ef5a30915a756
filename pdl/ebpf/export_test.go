package ebpf

import (
	"github.com/cilium/ebpf"

	"github.com/weftnet/weft/pdl/prog"
)

// Program is the program in the kernel, for tests that run it there.
func (r *Resident) Program() *ebpf.Program { return r.program }

// Module is what the program was compiled from.
func (r *Resident) Module() *prog.Module { return r.m }

// Dispatch is the program that each frame comes to first.
func (h *Host) Dispatch() *ebpf.Program { return h.dispatch }
