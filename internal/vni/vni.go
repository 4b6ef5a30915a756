// Package vni implements the memory that a process shares with its NIC: the virtual network
// interface of QNIX, in two areas. Both halves work on plain bytes, which the caller provides
// (heap, memfd).
//
//	rw: both write                                  ro: only the NIC writes; mapped read-only
//	┌──────────────────────────┐ colour             ┌──────────────────────────┐ 0
//	│ command queue       N×16 │                    │ memory info, identity    │
//	├──────────────────────────┤                    ├──────────────────────────┤ 1024 + colour
//	│ send contexts      M×128 │                    │ command queue head       │
//	├──────────────────────────┤                    │ listening, gone          │
//	│ receive contexts   M×128 │                    │ events published         │
//	├──────────────────────────┤                    ├──────────────────────────┤
//	│ context regions     2M×R │ R ≥ 768, K×32      │ event ring         64×64 │
//	├──────────────────────────┤ page               ├──────────────────────────┤
//	│ buffer pool       Q×4096 │                    │ completions, send  M×128 │
//	├──────────────────────────┤ page + colour      ├──────────────────────────┤
//	│ status, sleeping, waiting│                    │ completions, rcv.  M×128 │
//	├──────────────────────────┤                    └──────────────────────────┘
//	│ doorbells, send      M×4 │   The order is that of QNIX-5 and QNIX-26…31. What QNIX keeps
//	│ doorbells, receive   M×4 │   in the page of host memory and only the NIC writes (head,
//	└──────────────────────────┘   memory info) is in ro instead.
//
// One operation takes these steps:
//
//	process                                          NIC
//	TakeSend: doorbell Free ─► Used (QNIX-30)
//	SetSend, Inline …: the context, by plain writes
//	Post: command word 0 ─► code, atomically  ─────► Next: reads it, zeroes it (QNIX-37)
//	Listening? if not, kick                          Send: loads the context once, checks its copy
//	                                                  …
//	Doorbell? Done: Completion  ◄──────────────────── Complete: completion, doorbell Used ─► Done
//	Release: Done ─► Free                            Sleeping? if so, wake
//
// # Two words must not miss each other
//
// Two places follow Dekker's pattern: each side writes one word, then reads the other's.
// sync/atomic is sequentially consistent, so at least one of the two reads sees the other side's
// write. Therefore neither side sleeps while there is work.
//
// A queue that the NIC no longer visits (decision 11):
//
//	process (Post, Listening)                       NIC (StopListening)
//	p1  command word := code                        n1  listening := 0
//	p2  read listening                              n2  read the command word at the head
//
//	p1 before n2 in the one order of all atomics    n2 sees the command; listening := 1, active
//	n2 before p1: then n1 n2 p1 p2                  p2 reads 0, the process kicks, the NIC listens
//	p1 before n2 and n1 before p2                   both: a harmless extra kick, one system call
//
// n2 reads only the entry at the head. That is enough: entries are posted in order and read in
// order, so if the head's entry is empty at n2, every later post comes after n2. And between n2's
// listening := 1 and the next visit, the queue is active in any case.
//
// A process that parks:
//
//	process (SetSleeping, Doorbell)                 NIC (Complete, Sleeping)
//	p1  sleeping := 1                               n1  doorbell := Done (or an event, or gone)
//	p2  read the doorbell (events, gone)            n2  read sleeping
//
//	p1 before n2                                    the NIC wakes the process
//	n2 before p1: then n1 n2 p1 p2                  p2 sees Done, and the process does not park
//
// The waiting word is only a hint: the NIC need not yield to a process that waits awake and has
// been told nothing.
//
// The wake itself is a byte in a socket or a semaphore: a wake before the process parks is not
// lost.
//
// # Trust
//
// The NIC trusts nothing in rw. It loads each word once, atomically, into its own memory, and
// validates that copy. There are two kinds of errors: ErrArgument fails one operation.
// ErrImpossible is a state that no correct process reaches, and the NIC then detaches the process.
// The process trusts ro, which it cannot write.
//
// The process half does no locking: its user must hold one lock while posting. Doorbell,
// Completion, Release, Listening, Gone, SetSleeping, SetWaitsAt, EventPending, AnyFree and Head
// need no lock, but the caller of Release must own the context.
package vni

import "errors"

// ErrArgument marks an error in one operation, which fails with StatusBadArgument.
var ErrArgument = errors.New("invalid argument")

// ErrImpossible marks a state that no correct process can reach. The process is detached (decision
// 10).
var ErrImpossible = errors.New("impossible state")

const lineBytes = 64 // of a cache line
