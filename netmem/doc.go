// Package netmem stores pages of a program in the idle memory of other hosts. A read takes one
// network round trip. If the client keeps copies of a page on several servers, the page survives
// the loss of some of these servers.
//
// The entry points, by task:
//
//   - Lend memory: call [Serve] in each process that has memory to spare.
//   - Store pages by number: call [NewClient], then [Client.WritePage] and [Client.ReadPage]. To
//     write or read many pages in one call, use [Client.WritePages] and [Client.ReadPages].
//   - Use a volume, which holds bytes at offsets like a file: call [Open], then [Volume.WriteAt]
//     and [Volume.ReadAt].
//   - Use network memory as a byte slice: start the program with "weft mem map" and call [Map] in
//     the program.
//   - Survive the loss of servers: set Copies or Coding in [ClientConfig].
//   - Add and remove servers: call [Client.AddServer] and [Client.RemoveServer].
//   - Read statistics: call [Stat] in any process for any server of the fabric, [Server.Stats] in
//     the process of the server, and [Client.Stats] or [Volume.Stats] in the process of the client.
//
// A process can have one server or one client. A volume starts its own client, so it counts as the
// client of its process.
//
// # Reads and writes
//
// To write a page, the client sends the page in datagrams to all servers that will hold it, and
// waits until all of them have answered. To read the page, the client asks one of these servers. If
// that server is slow, the client asks a second server:
//
//	WritePage ─► Client ══ page-out to each copy ══► Server: version? room? ─► memory ══ done ══►
//	ReadPage ──► Client ══ page-in ═══════════════► first copy ══ page ══► version? checksum?
//	                └── no answer within Hedge ══► second copy
//
// The network may lose datagrams, so the client numbers its requests and retransmits a request that
// has no answer. The client bounds the number of requests in flight, so that there is a free buffer
// for each answer. Each write gives the page a higher version. If a server receives a write twice,
// it applies the write once. The client rejects a page that is older than the last acknowledged
// write of the page.
//
// # Failures
//
// A write is acknowledged when the call that writes the page returns nil. An acknowledged page
// stays readable until it is discarded, if the number of servers that are down at the same time is
// lower than the number of copies. If the client cuts pages into shards (see [Code]), a page
// survives the loss of Parity servers.
//
// If a server is silent for the time that Dead in [ClientConfig] gives, the client counts the
// server as dead. The client then writes new copies of the pages of this server to other servers,
// in the background. A server that restarts has lost its pages. Each start of a server has a new
// epoch, so the client notices the loss.
//
// Pages live only as long as their client, because no other process knows which servers hold the
// pages. When the client ends, the servers drop its pages.
package netmem
