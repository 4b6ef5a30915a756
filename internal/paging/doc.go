// Package paging decides which pages of a region of memory are local, and what becomes of the others: the policy of a pager, without
// the kernel and without the place where pages go. It is a value: faults and answers go in, actions come out.
//
//	           Fault                    oldest                  oldest
//	absent ──────────► mapped: clean, dirty ──────► buffered: kept, leaving ──────► absent
//	   ▲     Load, Fill           ▲                    │   Store, if dirty
//	   │                          └── Fault: Fill ─────┘   (no page-in: a second chance)
//	   └── lost (Poison) where a page cannot be had
//
// A userfaultfd tells when a page is missing and when a protected page is written, but not which pages are read. So pages leave the
// region in the order in which they came, and stay in buffers for a while, where a fault on them costs little: a first-in first-out
// list with a second one behind it approaches the order of last use. A page that came from the device is mapped protected, so that one
// that is never written goes without a store.
//
// The pages of the region and the buffers together never exceed the limit. Whatever needs room takes all of it at once, or waits in
// line; stores that end make room, so that no two wait for each other.
package paging
