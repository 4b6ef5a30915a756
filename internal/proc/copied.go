package proc

import "sync/atomic"

// copied counts the bytes of messages that a process copies itself, between the memory of the
// program and the memory that it shares with its NIC.
type copied struct{ out, in atomic.Uint64 }

// Copied returns how many bytes of sent and of received messages the process has copied itself.
func (p *Process) Copied() (out, in uint64) { return p.copied.out.Load(), p.copied.in.Load() }
