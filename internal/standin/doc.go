// Package standin replaces memory that is not available with zeros, at the very access that
// fails. The access is then repeated and succeeds, so no function is interrupted in the middle.
//
// A daemon accesses memory of its clients. Clients cannot shorten it. But a client may cut a hole
// into huge pages, and the system may have no huge page left when the daemon accesses the hole.
// The kernel then sends SIGBUS. Recovery as from a panic would abort all current work of the
// daemon, also for other clients: a segment would be half delivered, or a reserved frame half
// written.
//
//	access ──► fault ──► handler: in guarded memory? ── no ──► Go's own handler
//	  ▲                     │ yes: map private zeros over all of it, and mark it
//	  └─────────────────────┘
//
// The handler is in assembly, since no Go code may run there. It makes one system call. It exists
// only on Linux, for the processors on which Weft is tested. On other systems Guard does nothing.
package standin
