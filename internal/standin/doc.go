// Package standin puts zeros in the place of memory that cannot be had, at the very access that
// finds that out. The access is then done again, and succeeds: no function is left in the middle.
//
// A daemon works on memory of its clients. They cannot make it shorter, but huge pages, from which
// a client has cut a hole, may be used up when the daemon comes there, and then the kernel sends
// SIGBUS. To recover from that as from a panic would end all that the daemon was about to do, for
// other clients too: half a segment delivered, a frame that is reserved and half written.
//
//	access ──► fault ──► handler: in memory that is guarded? ── no ──► Go's own handler
//	  ▲                     │ yes: private zeros are mapped over all of it, and it is marked
//	  └─────────────────────┘
//
// The handler is in assembly, since no Go code may run there, and makes one system call. On Linux
// alone, with processors that Weft is tried on: elsewhere Guard does nothing.
package standin
