// Package userfault pages the memory of another process. Missing pages come from a device, and
// pages that were not used recently go back to it, so that the amount of local memory stays
// within a limit.
//
//	program ── touches a missing page ──► kernel ── userfaultfd ──► Pager: internal/paging decides
//	        ◄── continues ── UFFDIO_COPY into shared memory ◄──────────┤◄── page ── Device
//	           a page of it is protected, copied and cut out ─────────►└── page ──► Device
//
// The memory is a memfd that both processes hold. The kernel lets one process put pages into the
// memory of another. It lets a process take pages out of the memory of another only if the memory
// is shared. The pager puts pages there write-protected, so it learns of the first write to each
// page.
//
// The pager and the program must be different processes. A goroutine that waits for a page cannot
// be stopped for a garbage collection, and a collection waits until all goroutines are stopped.
// So a Go program that brought its own pages would wait for itself.
//
// A program asks for its memory at a Unix socket that preserves packet boundaries
// (SOCK_SEQPACKET):
//
//	pager ──► program   {bytes, page uint64}, and the memfd
//	program ──► pager   {address uint64} of its shared map of all the memfd, and a new userfaultfd
//	pager ──► program   "ok", or an error text
//
// Numbers are in native byte order. The connection and the userfaultfd stay open as long as the
// memory is used. The memory ends with the connection. The pager registers the memory with the
// userfaultfd itself.
package userfault
