// Package netmem keeps pages of a program in the idle memory of other hosts. A read takes one round
// trip of the network. A page may have copies on several servers, so it survives the loss of some.
//
// The entry points, by task:
//
//   - Lend memory: call [Serve] in each process that has memory to spare.
//   - Keep pages by number: call [NewClient], then [Client.WritePage] and [Client.ReadPage]. For
//     many pages at once, call [Client.WritePages] and [Client.ReadPages].
//   - Keep a volume, which is bytes at offsets as in a file: call [Open], then [Volume.WriteAt] and
//     [Volume.ReadAt].
//   - Use memory as a slice: start the program with "weft mem map" and call [Map] in it.
//   - Survive the loss of servers: set Copies or Coding in [ClientConfig].
//   - Add and remove servers: call [Client.AddServer] and [Client.RemoveServer].
//   - See what is there: call [Stat] for any server of the fabric, [Server.Stats] in the server's
//     process, and [Client.Stats] or [Volume.Stats] in the client's.
//
// A process has one server or one client, and a volume has a client of its own.
//
// # Reads and writes
//
// The client sends a page to each of its servers by a datagram and waits for all of them. It reads
// the page from one server. If that server is slow, it asks a second one:
//
//	WritePage ─► Client ══ page-out to each copy ══► Server: version? room? ─► memory ══ done ══►
//	ReadPage ──► Client ══ page-in ═══════════════► first copy ══ page ══► version? checksum?
//	                └── no answer within Hedge ══► second copy
//
// Datagrams may be lost, so the client numbers its requests and retransmits those without an
// answer. It bounds the requests in flight, so that all answers find a buffer. Each write gives the
// page a higher version. A server applies a duplicate write once, and a client rejects a page that
// is older than the last acknowledged write.
//
// # Failures
//
// An acknowledged page stays readable until it is discarded, if fewer servers than the page has
// copies are down at the same time. With [Code], a page survives the loss of Parity servers. If a
// server is silent for Dead, the client counts it as dead and writes new copies of its pages to
// other servers in the background. A server that restarts has lost its pages, and the client
// notices that by its new epoch.
//
// Pages live only as long as their client, because no other process knows which servers hold them.
// When the client ends, its servers drop its pages.
package netmem
