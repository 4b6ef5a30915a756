// Package weft is a reliable fabric between processes: messages, remote memory and requests, carried by a NIC in software.
//
//	process ──commands──► ┌─────┐                         ┌─────┐ ◄──commands── process
//	        ◄─doorbells── │ NIC │ ◄── frames (UDP, mem) ──► │ NIC │ ──doorbells─►
//	process ◄───────────► └─────┘                         └─────┘ ◄───────────► process
//
// A process takes a name, an application and an index such as "app/3", and talks to others by theirs. The NIC that
// serves it does the rest: it finds the name, cuts messages into frames, repairs loss, keeps order, matches what arrives
// with what was asked for, and never lets a sender swamp a receiver. A NIC runs inside the process ([Open]) or in a
// daemon of the host that many processes share ([Attach]); nothing else differs between the two.
//
// A library that uses a process which an application has made takes a [Port] of it: a space of tags of its own. It asks the process for the
// time and starts what it does beside its callers by it ([Process.Now], [Process.Sleep], [Process.WithTimeout], [Process.Go],
// [Process.WaitUntil]), so that it runs unchanged in package sim.
//
// # What a send promises
//
// A message is never delivered more than once. Send returns when its buffer may be used again, SendDelivered when the
// destination's NIC has accepted the message. One that failed was delivered once or not at all; one reported as
// delivered was delivered. Messages from one process to another arrive in the order in which they were sent, and without
// holes: within one session of their NICs, what is received is a prefix of what was sent, less the sends that failed. The end
// of a session is told by an [Event], which is there before anything of the next session.
//
// A call whose context has ended before it begins fails with the context's error and does nothing: nothing is sent, and nothing
// received. What hands out what is there already does so even then: [Process.NextEvent] and [Watcher.Next] an event, [Gate.Wait] that
// the gate is open, and [Op.Wait] how an operation has ended.
//
// Failures are sentinel errors wrapped with the operation and its peer: test for them with errors.Is.
package weft
