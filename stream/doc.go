// Package stream carries byte streams between processes of the fabric. Its types are a [net.Conn]
// and a [net.Listener], so code that was written for TCP runs on them unchanged.
//
// A stream connects two processes and carries bytes in both directions. A server listens to a
// service of its process. A client dials the process and the service:
//
//	l, err := stream.Listen(p, "http")              // p is the process app/0
//	err = http.Serve(l, handler)
//
//	c, err := stream.Dial(ctx, q, "app/0:http")     // q is another process
//
// Package net/http needs no adapter. [Transport] finds a service by the host of a URL:
//
//	client := &http.Client{Transport: stream.Transport(q)}
//	response, err := client.Get("http://http.0.app.weft/")
//
// # Order and loss
//
// The bytes of a stream arrive once and in order. If that becomes impossible, both ends fail with
// ECONNRESET. The NICs retransmit lost frames, so this happens only if the NICs lose each other for
// longer than Config.UnreachableAfter while bytes are in flight.
//
// A Write returns when its bytes are copied, as with TCP: the peer may not have them yet. If they
// cannot be sent, the stream fails, and the next call reports it. CloseWrite tells the peer that no
// bytes follow. If the peer reads to the end before it closes, a later Read that returns [io.EOF]
// proves that the peer has everything.
//
// # Failures
//
// Errors other than [io.EOF] are a [*net.OpError] and wrap the same errors as those of TCP.
// [errors.Is] tells them apart:
//
//	nothing listens to the service, or its backlog is full    Dial: ECONNREFUSED
//	no NIC knows the name of the process                      Dial: ECONNREFUSED
//	the NIC of the process does not answer                    Dial: EHOSTUNREACH
//	the peer called Close or CloseWrite                       Read: its bytes, then io.EOF
//	the peer called Close                                     Write: EPIPE
//	the peer called Abort, or Close with bytes unread         ECONNRESET
//	the peer's process, its NIC or its daemon ended           ECONNRESET, within three seconds
//	the peer's host is silent                                 ETIMEDOUT, after twice KeepAlive
//	the own process, its NIC or its daemon ended              net.ErrClosed
//	a deadline passed                                         os.ErrDeadlineExceeded
//
// Bytes that arrived before a failure of the peer are read first. A stream remains usable after a
// deadline: Write reports how many bytes it took, and sends exactly those.
//
// # Limits
//
//	                                        default     set by
//	streams that wait for Accept            4096        ListenConfig.Backlog
//	received bytes that wait for Read       1 MiB       Conn.SetReadBuffer, 4 KiB to 16 MiB
//	sent bytes that are in flight           1 MiB       Conn.SetWriteBuffer, 4 KiB to 1 MiB
//	written bytes that wait for the peer    64 KiB
//	silence before a question to the peer   15 s        Dialer.KeepAlive, ListenConfig.KeepAlive
//	life of unsent bytes after Close        1 min
//	name of a service                       255 bytes
//
// An open stream with nothing to read costs less than 4 KiB of memory at each end. All streams of a
// process use its port 0xff01. The process can use its other ports, and send and receive messages
// without a port, at the same time.
package stream
