// Package refusal says in words what the system has refused: the call, the limit that holds, and
// what cures it. It also checks before use whether memory can be had, because a system that
// promises too much ends the program at a later access.
//
//	a call fails ──► Of: call, error, limit, cure
//	memory is to be promised ──► Memory: the address space, the cgroups, the host ──► Commit: take it now
package refusal

import (
	"fmt"
)

// Refusal is an error of a system call, with its reason as far as the system tells it.
type Refusal struct {
	Call  string // such as "memfd_create"
	Err   error  // of the call
	Limit string // that holds, with its value; empty: none is known
	Cure  string // what to do about it; empty: nothing is known
}

// Error implements error.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("%s: %v", r.Call, r.Err)
	if r.Limit != "" {
		text += ": " + r.Limit
	}
	if r.Cure != "" {
		text += "; " + r.Cure
	}
	return text
}

// Unwrap returns the error of the call.
func (r *Refusal) Unwrap() error { return r.Err }

// MemoryError says that memory would be promised that is not there.
type MemoryError struct {
	WantBytes int64  // that were to be promised
	LeftBytes int64  // that there are
	Limit     string // that leaves so few, such as "the cgroup limit 100 MiB (FILE)"
	Cure      string
}

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%d bytes of memory; %s has %d available; %s", e.WantBytes, e.Limit, e.LeftBytes, e.Cure)
}
