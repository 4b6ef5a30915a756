// Package stream carries byte streams between processes of the fabric. A [Conn] is a [net.Conn] and
// a [Listener] is a [net.Listener], so code that was written for TCP runs on them unchanged.
//
// A stream connects two processes and carries bytes in both directions. The server listens to a
// service of its process. The client dials the process and the service:
//
//	l, err := stream.Listen(p, "http")              // p is the process app/0
//	err = http.Serve(l, handler)
//
//	c, err := stream.Dial(ctx, q, "app/0:http")     // q is another process
//
// Package net/http works on streams without an adapter. The host of a URL tells [Transport] which
// service to dial:
//
//	client := &http.Client{Transport: stream.Transport(q)}
//	response, err := client.Get("http://http.0.app.weft/")
//
// # Order and loss
//
// The bytes of a stream arrive once and in order. If the stream can no longer deliver its bytes in
// this way, the calls at both ends fail with ECONNRESET. A lost frame does not make the calls fail,
// because the NICs retransmit the frame. The stream fails only if the two NICs cannot reach each
// other for longer than Config.UnreachableAfter while bytes are in flight.
//
// As with TCP, Write returns when the stream has copied or sent the bytes. The peer may not have
// the bytes yet. If the stream later cannot send the bytes, the stream fails, and the next call
// returns the error.
//
// CloseWrite tells the peer that no more bytes follow. If the peer calls Close only after its Read
// has returned io.EOF, then io.EOF from Read at this end proves that the peer has all bytes.
//
// # Failures
//
// Every error except [io.EOF] is a [*net.OpError], and wraps the error that TCP would return.
// [errors.Is] distinguishes these errors:
//
//	nothing listens to the service, or its backlog is full  Dial: ECONNREFUSED
//	no NIC knows the name of the process                    Dial: ECONNREFUSED
//	the NIC of the process does not answer                  Dial: EHOSTUNREACH
//	the peer called Close or CloseWrite                     Read: the remaining bytes, then io.EOF
//	the peer called Close                                   Write: EPIPE
//	the peer called Abort, or Close with bytes unread       ECONNRESET
//	the peer's process, its NIC or its daemon ended         ECONNRESET, within three seconds
//	the peer's host is silent                               ETIMEDOUT, after twice KeepAlive
//	the peer's process is stopped, but lives                ETIMEDOUT, after Patience
//	this end's process, NIC or daemon ended                 net.ErrClosed
//	a deadline passed                                       os.ErrDeadlineExceeded
//
// A process that a signal, a debugger or a container runtime has stopped sends nothing, but its NIC
// says that it lives. The stream then waits, as TCP does: no byte is lost if the process continues
// within Patience. This holds only if the process uses a NIC daemon, since a NIC inside the process
// stops with it.
//
// If the peer fails, Read first returns the bytes that arrived before the failure. A stream remains
// usable after a deadline. If Write fails at its deadline, it returns a number n, and the stream
// sends exactly the first n bytes of the slice.
//
// # Limits
//
//	                                        default     set by
//	streams that wait for Accept            4096        ListenConfig.Backlog
//	received bytes that wait for Read       1 MiB       Conn.SetReadBuffer, 4 KiB to 16 MiB
//	sent bytes that are in flight           1 MiB       Conn.SetWriteBuffer, 4 KiB to 1 MiB
//	written bytes that wait for the peer    64 KiB
//	silence until the stream asks the peer  15 s        Dialer.KeepAlive, ListenConfig.KeepAlive
//	silence of a peer whose NIC vouches     24 h        Dialer.Patience, ListenConfig.Patience
//	time to send bytes after Close          1 min
//	name of a service                       255 bytes
//
// An open stream with nothing to read costs less than 4 KiB of memory at each end. All streams of a
// process use port 0xff01 of the process. A process with streams can also use its other ports, and
// can send and receive messages without a port.
package stream
