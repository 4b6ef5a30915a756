package ebpf

import "github.com/cilium/ebpf"

// Program is the program in the kernel, for tests that run it there.
func (r *Resident) Program() *ebpf.Program { return r.program }
