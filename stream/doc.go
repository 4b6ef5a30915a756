// Package stream carries byte streams over the fabric: what was written for [net.Conn] and [net.Listener] runs on it unchanged.
//
//	l, err := stream.Listen(p, "http")              // on a process app/0
//	err = http.Serve(l, handler)
//
//	c, err := stream.Dial(ctx, q, "app/0:http")     // on another
//
// A stream joins two processes. Its bytes arrive once and in order, or the stream fails at both ends. Messages carry it, on a port of the
// process that all its streams share (port 0xff01), so an application may receive what it likes beside them. A message has a kind and the
// number that its receiver has given to the stream in its tag:
//
//	tag   47          40 39       32 31                              0
//	      │     0       │   kind    │   the receiver's number          │
//
//	open     number u32, offset u64, service   I want a stream with the service, and take what is before that offset; the receiver has no number yet
//	accept   number u32, offset u64            you have it, and I take what is before that offset
//	refuse   number u32, code u8               you have not
//	data     number u32, offset u64, bytes     the bytes from that offset on
//	window   state                             I take more
//	fin      number u32, offset u64            that was all; I go on reading
//	close    number u32, offset u64            that was all, and I read no more
//	reset    number u32                        the stream has failed
//	ping     state                             are you there?
//	pong     state                             I am
//
//	state    number u32, take u64, sent u64, end u8    I take what is before the offset take, and have sent what is before the offset sent;
//	                                                   end: 0 there may be more, 1 that was all, 2 that was all, and I read no more
//
// The number is the one that the sender has given to the stream; a process begins with a random one. An answer to an open counts if it is of the process that was dialled. Integers are little-endian. A process sends no more than its peer has window for, so the one reader of all messages of a process never has
// to wait for a stream whose own reader is slow:
//
//	Write ──► buffer ──► window? ──► NIC ······ Inbox ──► stream's buffer ──► Read ──► window
//	                        ▲                     one reader for all                      │
//	                        └─────────────────────────────────────────────────────────────┘
//
// Messages of one process to another arrive in order within a session of their NICs. When a session ends some may be lost; offsets show it, and a
// stream with a gap fails. Of what is not bytes nothing is lost for good: each state has all of it. A stream whose peer has told none for a while,
// though bytes may come, asks for one; it fails if nothing comes then.
package stream
