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
//   - Store objects that outlive the process that wrote them, such as checkpoints: call
//     [OpenShelf].
//   - Survive the loss of servers: set Copies or Coding in [ClientConfig].
//   - Add and remove servers: call [Client.AddServer] and [Client.RemoveServer].
//   - Read statistics: call [Stat] in any process for any server of the fabric, [Server.Stats] in
//     the process of the server, and [Client.Stats] or [Volume.Stats] in the process of the client.
//
// A process can have one server or one client. A volume and a shelf start their own client, so each
// counts as the client of its process.
//
// # Reads and writes
//
// To write a page, the client sends the page in datagrams to all servers that will hold the page,
// and waits until all these servers have answered. To read a page, the client asks one server that
// holds the page. If this server is slow, the client asks a second server:
//
//	WritePage ─► Client ══ page-out to each copy ══► Server: version? room? ─► memory ══ done ══►
//	ReadPage ──► Client ══ page-in ═══════════════► first copy ══ page ══► version? checksum?
//	                └── no answer within Hedge ══► second copy
//
// The network may lose datagrams, so the client numbers its requests and retransmits a request that
// has no answer. The client bounds the number of requests in flight, so that there is a free buffer
// for each answer. Each write gives the page a higher version. If a server receives a write twice,
// it applies the write once. The client rejects an answer whose version is lower than the version
// of the last acknowledged write.
//
// # Failures
//
// A write is acknowledged when the call that writes the page returns nil. If fewer servers are down
// at the same time than the page has copies, an acknowledged page stays readable until it is
// discarded. If the client cuts pages into shards (see [Code]), a page survives the loss of Parity
// servers.
//
// If a server is silent for the time ClientConfig.Dead, the client counts the server as dead. In
// the background, the client then writes new copies of the dead server's pages to other servers. A
// server that restarts has lost its pages. A server has a new epoch after each start, so the client
// notices the loss.
//
// Pages live only as long as their client, because no other process knows which servers hold the
// pages. When the client ends, the servers drop the client's pages. The objects of a [Shelf] stay:
// its readers ask all servers.
package netmem
