// Package netmem is network memory: idle memory of the fabric's hosts as a replicated tier below local memory.
//
// A [Server] lends its memory. A [Client] keeps pages on several servers, each page on as many as it wants copies, and reads them back
// from whichever answers:
//
//	program ── WritePage ─► Client ══ page-out, one unicast a copy ══► Server: version? room? ─► cache ══ acknowledged ══►
//	        ── ReadPage ──► Client ══ page-in ══► the first copy ══ page ══► version? checksum? ─► program
//	                              └── no answer within the hedge ══► the second copy
//
// Pages travel as datagrams of the fabric, by the page driver in internal/hsn: they are received where they stay. Datagrams get lost,
// so a client numbers its requests and repeats those that are not answered. It has no more requests with its servers at a time than there are
// buffers for the answers. A page has a version, which grows with each write: a
// page-out that comes twice is the same page-out, and a page-in that has an older version than was acknowledged is no answer.
//
// What was acknowledged is readable until it is discarded, as long as fewer servers than a page has copies are down at a time. A server
// that is silent is taken for dead: its pages get new copies elsewhere in the background. One that comes back with another epoch has
// lost what it had.
//
// A client's pages live as long as the client: which servers have them is known to it alone. When it has ended they go.
package netmem
