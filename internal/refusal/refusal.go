// Package refusal describes what the system has refused: the call, the limit, and the cure. It
// also checks before use whether memory is available, because a system that promises too much
// ends the program at a later access.
//
//	a call fails ──► Of: call, error, limit, cure
//	memory will be promised ──► Memory: address space, cgroups, host ──► Commit: take it now
package refusal

import (
	"fmt"
)

// Refusal is the error of a system call, with its reason as far as the system tells it.
type Refusal struct {
	Call  string // such as "memfd_create"
	Err   error  // error of the call
	Limit string // the limit with its value; empty: unknown
	Cure  string // what to do about it; empty: unknown
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

// MemoryError says that the memory for a promise is not available.
type MemoryError struct {
	WantBytes int64  // bytes of the promise
	LeftBytes int64  // bytes that are available
	Limit     string // the limit, such as "the cgroup limit 100 MiB (FILE)"
	Cure      string
}

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("%d bytes of memory; %s has %d available; %s", e.WantBytes, e.Limit, e.LeftBytes, e.Cure)
}
