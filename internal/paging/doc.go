// Package paging decides which pages of a region of memory are local, and where the other pages
// go. It is the policy of a pager, without the kernel and without the device that stores pages.
// The table is a value: faults and answers go in, and actions come out.
//
//	           Fault                    oldest                  oldest
//	absent ──────────► mapped: clean, dirty ──────► buffered: kept, leaving ──────► absent
//	   ▲     Load, Fill           ▲                    │   Store, if dirty
//	   │                          └── Fault: Fill ─────┘   (no page-in: a second chance)
//	   └── lost (Poison) if the page cannot be had
//
// A userfaultfd reports missing pages and writes to protected pages, but not reads. So pages
// leave the region in the order in which they arrived. They then stay in buffers for a while,
// where a fault on them costs little. A first-in first-out list with a second list behind it
// approximates the order of last use. A page that came from the device is mapped protected, so a
// page that is never written needs no store.
//
// The pages of the region and the buffers together never exceed the limit. A fault takes all the
// room that it needs at once, or waits in line. Stores that end make room, so no two faults wait
// for each other.
package paging
