package vni

import "sync/atomic"

// Straight is the straight way into a NIC in the process's own address space: a call in place of a
// command, and a word in the process's memory in place of a doorbell (USNIC-28, USNIC-38). It
// serves the most common operations: receives, and short messages to a known process. A refused
// operation is posted to the command queue, which takes everything. While a posted command is
// unread, later calls are refused, so the order is always that of the calls.
//
//	process                         NIC
//	Post    ──────────────────────► it leaves in one step, if the link is memory; false: Send
//	Meet    ──────────────────────► the message arriving now, from link to caller; nil: Receive
//
//	Send    ──────────────────────► room in a segment, in the link's own frame, or in a kept copy;
//	copy the payload there          nil: by the queue
//	Sent    ──────────────────────► held messages leave
//
//	Datagram ─────────────────────► into frames of the link
//
//	Receive ──────────────────────► match a waiting message, or post; false: by the queue
//	Done?   ◄────────────────────── Finish
//
// Any goroutine may call it. No call blocks longer than a poll of the NIC takes.
type Straight interface {
	// Post sends a message to the process with a name, if it is short and can leave at once in one
	// step. It returns false if it did not.
	Post(to *Name, tag uint64, payload []byte) bool
	// Meet receives a message that arrives within a moment, if it is the next that a Receive would
	// take, and is whole. It posts nothing. If there is no such message, Met.From is nil.
	Meet(from *Name, tag uint64, anyTag bool, buf []byte) Met

	// Send returns room for the payload of a message. The same goroutine must write it and call
	// Sent at once, without another call to the NIC in between; Sent sends the message. If the
	// message is a call, the receive of its reply is posted after it.
	Send(m StraightSend) []byte
	// Sent ends a Send.
	Sent()
	// Datagram sends a datagram, m.Len bytes in parts, to a process of another NIC. It returns
	// false if the datagram must go by the queue, which reports the reason. The caller may reuse
	// the parts after the call.
	Datagram(m StraightSend, parts [][]byte) bool

	// Flush sends the messages that Hold has left to the next poll.
	Flush()

	// SendMany sends messages to one process, each as Send and Sent do, without use of m.Len and
	// m.Hold. It returns how many have left. The others go by the queue, or later.
	SendMany(m StraightSend, messages [][]byte) (sent int)

	// Receive posts a receive. Finish may be called before it returns. The NIC writes into Buf
	// until then.
	Receive(r *StraightReceive) bool
	// Cancel withdraws a receive. The receive is finished soon, by its message or by
	// StatusCancelled.
	Cancel(r *StraightReceive)

	// Close makes all later calls fail, and withdraws all receives.
	Close()
	// Idle reports, after Close, whether all receives are finished.
	Idle() bool
}

// Met describes a message that Meet has taken. It is three words, so that it is returned in
// registers: an answer waits for it.
type Met struct {
	From *Sender // nil: no message
	Tag  uint64
	Len  int // bytes of the whole message
}

// Sender is the sender of messages. It does not change.
type Sender struct {
	Name Name
	NIC  uint64
	Slot uint16
	Gen  uint32
}

// StraightSend is a message of at most a few frames.
type StraightSend struct {
	To     Name   // the receiver, unless NIC is not 0
	Gen    uint32 // of the receiver; 0: any live generation
	Token  uint32 // of a call: the tag of its reply
	NIC    uint64 // not 0: the receiver is Slot of this NIC
	Tag    uint64
	Len    int              // bytes
	Answer *StraightReceive // of a call: takes the reply
	Slot   uint16
	Hold   bool // it may wait for others, or for the next poll
	Reply  bool // it is the reply to a call
}

// StraightReceive is a receive, and its result.
type StraightReceive struct {
	From   Name // the sender, unless NIC is not 0; AnyProcess takes all senders
	NIC    uint64
	Slot   uint16
	Gen    uint32
	Tag    uint64
	AnyTag bool
	Takes  Taken
	Buf    []byte

	Result Completion // valid once it is Done
	Entry  any        // used by the NIC

	done atomic.Bool
	Rest []byte // of a datagram: memory for the bytes that do not fit Buf
}

// Taken is what a receive takes: messages, replies or datagrams.
type Taken uint8

const (
	TakesMessage  Taken = iota
	TakesReply          // to the call whose token is Tag
	TakesDatagram       // of any sender
)

// Begin marks r as not done.
func (r *StraightReceive) Begin() {
	r.done.Store(false)
}

// Finish is called by the NIC: Result is valid.
func (r *StraightReceive) Finish() { r.done.Store(true) }

// Done reports whether Result is valid.
func (r *StraightReceive) Done() bool { return r.done.Load() }
