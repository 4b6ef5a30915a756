// Package weft sends messages between processes on the hosts of a LAN, through a NIC in software.
//
//   - send: [Process.Send], [Peer.SendDelivered], [Peer.SendMany], [Process.Multicast]
//   - receive: [Process.Recv], [Process.Inbox], [Process.RecvAlloc], [Process.Probe]
//   - ask and answer: [Peer.Call], [Process.Reply]
//   - keep several operations in flight: [Peer.StartSend], [Process.StartRecv], [Op]
//   - share memory: [Process.Alloc], [Region.Handle], [Process.Put], [Process.Get]
//   - work as a group: [Process.Join], [Group.Barrier], [Group.Broadcast], [AllReduce]
//   - react to failures: [Process.Watch], [OpError]
//   - begin: [Open] with a NIC of its own, [Attach] to a NIC daemon
//   - write a library: [Process.Port], [Process.Runtime]
//   - test in a simulation: package sim
//   - carry byte streams and net/http: package stream
//   - run code in the NIC: package program
//   - use memory of other hosts: package netmem
//
// A process has a name: an application and an index, such as "app/3". It sends to other processes by
// their names. The NIC finds the name, splits messages into frames, retransmits lost frames, keeps
// order, matches each message with a receive, and limits senders to the receiver's pace. A NIC runs
// inside the process ([Open]), or in a daemon that all processes of the host share ([Attach]). Both
// have the same calls.
//
//	process ──commands──► ┌─────┐                           ┌─────┐ ◄──commands── process
//	        ◄─doorbells── │ NIC │ ◄── frames (UDP, mem) ──► │ NIC │ ──doorbells─►
//	process ◄───────────► └─────┘                           └─────┘ ◄───────────► process
//
// # Promises
//
// No message is delivered twice. [Process.Send] returns when the buffer may be used again, and
// [Peer.SendDelivered] when the destination's NIC has accepted the message. A message whose send
// failed was delivered once or not at all. A message that was reported as delivered was delivered.
//
// Messages from one process to another arrive in the order in which they were sent. Two NICs exchange
// them in a session. Within one session a receiver gets a prefix of the messages whose sends
// succeeded, without holes. The end of a session is an [Event], which comes before any message of the
// next session.
//
// # Contexts and errors
//
// A call whose context is done before the call begins fails with the context's error and does
// nothing. Four calls return a result that is already there even then: [Watcher.Next], [Gate.Wait],
// [Op.Wait] and [Op.Test].
//
// The wait for a dead peer ends with an error: [ErrProcessGone] if the process has ended,
// [ErrUnreachable] if its NIC is silent for Config.UnreachableAfter, 2 s by default. Receives from any
// process, [Process.WaitName] and [Process.Join] wait for processes that may never come, so only their
// context ends them.
//
// Errors wrap a sentinel such as ErrUnreachable in an [OpError] or a [GroupError]. Test for the
// sentinel with errors.Is.
package weft
