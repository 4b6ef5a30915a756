// Package weft sends messages between processes on the hosts of a LAN, through a software NIC.
//
//   - send: [Process.Send], [Peer.SendDelivered], [Peer.SendMany], [Process.Multicast]
//   - receive: [Process.Recv], [Process.Inbox], [Process.RecvAlloc], [Process.Probe]
//   - ask and answer: [Peer.Call], [Process.Reply]
//   - keep several operations in flight: [Peer.StartSend], [Process.StartRecv], [Op]
//   - share memory: [Process.Alloc], [Region.Handle], [Process.Put], [Process.Get]
//   - work as a group: [Process.Join], [Group.Barrier], [Group.Broadcast], [AllReduce]
//   - react to failures: [Process.Watch], [OpError]
//   - start: [Open] makes a process with its own NIC, [Attach] uses a NIC daemon
//   - write a library: [Process.Port], [Process.Runtime]
//   - test in a simulation: package sim
//   - carry byte streams and net/http: package stream
//   - run code in the NIC: package program
//   - use memory of other hosts: package netmem
//
// A process has a name: an application and an index, such as "app/3". A process sends to other
// processes by name. The NIC resolves the name, splits messages into frames, retransmits lost
// frames, keeps messages in order, and matches each message with a receive. It also slows a sender
// down to the pace of the receiver. A NIC runs inside the process ([Open]), or in a daemon that all
// processes of the host share ([Attach]). A program makes the same calls with either NIC.
//
//	process ──commands──► ┌─────┐                           ┌─────┐ ◄──commands── process
//	        ◄─doorbells── │ NIC │ ◄── frames (UDP, mem) ──► │ NIC │ ──doorbells─►
//	process ◄───────────► └─────┘                           └─────┘ ◄───────────► process
//
// Two processes of one program, on a [Switch]:
//
//	sw := weft.NewSwitch()
//	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "server"}, Link: sw.Link()})
//	client, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "client"}, Link: sw.Link()})
//	err = client.Send(ctx, server.Name(), 7, []byte("hello"))
//	m, err := server.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
//
// On any other link, a NIC finds the other NICs if Config.Nodes names one of these NICs.
//
// # Promises
//
// No message is delivered twice. [Process.Send] returns when the caller may use the buffer again.
// [Peer.SendDelivered] returns when the receiver's NIC has accepted the message. If a send fails,
// the message was delivered once or not at all. If SendDelivered succeeds, the message was
// delivered.
//
// Messages from one process to another arrive in the order in which they were sent. Two NICs
// exchange messages in a session. If some messages of a session are lost although their sends
// succeeded, the lost messages are the last messages of the session: no message before them is
// lost. A [Watcher] reports the end of a session as an [Event]. The event is available before any
// message of the next session.
//
// # Contexts and errors
//
// If a call gets a context that is already done, the call does nothing and fails with the context's
// error. There are three exceptions: [Watcher.Next], [Gate.Wait] and [Op.Wait] return a result that
// is already available.
//
// If a call waits for a dead peer, the call fails. The error is [ErrProcessGone] if the peer has
// ended. It is [ErrUnreachable] if the peer's NIC has been silent for [Config.UnreachableAfter],
// which is 2 s by default. If no live NIC knows the name of the peer, every call that sends fails
// with [ErrNameUnknown]. The following calls wait instead, until a process has the name or the
// context of the call ends: a receive, [Peer.Put], [Peer.Get], [Process.WaitName] and
// [Process.Join].
//
// An operation wraps its error, such as [ErrUnreachable], in an [OpError] or a [GroupError]. Test
// for the error with errors.Is.
package weft
