package proc

import "sync/atomic"

// copied counts the bytes of messages that a process copies itself, between the memory of the program and that which it shares with its NIC.
type copied struct{ out, in atomic.Uint64 }

// Copied returns how many bytes the process has copied so, of what it has sent and of what it has received.
func (p *Process) Copied() (out, in uint64) { return p.copied.out.Load(), p.copied.in.Load() }
