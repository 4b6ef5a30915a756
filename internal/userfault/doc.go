// Package userfault pages the memory of another process: what is missing there comes from a device, and what was not used lately goes
// back, so that no more than a limit is local.
//
//	program ── touches a missing page ──► kernel ── userfaultfd ──► Pager ── internal/paging decides
//	        ◄── goes on ── UFFDIO_COPY into shared memory ◄────────────┤◄── page ── Device
//	           a page of it is protected, copied and cut out ─────────►└── page ──► Device
//
// The memory is a memfd that both map, or hold: the kernel lets one process put pages into the memory of another, but take them out
// only of shared memory. Pages are put there write-protected, so that the pager hears of the first write to each.
//
// The pager must be another process than the program. A goroutine that waits for a page cannot be stopped for a collection, and one that
// collects waits until all are stopped: a Go program that brought its own pages would wait for itself.
//
// A program asks for its memory at a unix socket that keeps packets apart (SOCK_SEQPACKET):
//
//	pager ──► program   {bytes, page uint64}, and the memfd
//	program ──► pager   {address uint64} of its shared mapping of all the memfd, and a userfaultfd as it was created
//	pager ──► program   "ok", or what is wrong
//
// Numbers are in the order of the machine. The connection and the userfaultfd stay open as long as the memory is used: the end of the
// connection is the end of the memory. The pager registers the memory with the userfaultfd itself.
package userfault
