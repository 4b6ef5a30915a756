package vni

import "sync/atomic"

// Straight is the straight way into a NIC that lives in the process's own address space: a call in place of a command, and a
// word in the process's memory in place of a doorbell (USNIC-28, USNIC-38). It is for what most messages are: short ones
// to a process that is known, and receives. A call that is refused goes by the command queue, which takes everything. While
// a posted command is not yet read, the calls behind it are refused, so the order is that of the calls in any case.
//
//	process                         NIC
//	Post    ──────────────────────► the message leaves in one step, where the link is memory; false: Send
//	Meet    ──────────────────────► the message that comes now, out of the link into the caller's memory; false: Receive
//
//	Send    ──────────────────────► room in a segment, in the link's own frame, or in what the NIC keeps; nil: by the queue
//	copy the payload there
//	Sent    ──────────────────────► what is held leaves
//
//	Datagram ─────────────────────► into frames of the link
//
//	Receive ──────────────────────► match what has come, or post; false: by the queue
//	Done?   ◄────────────────────── Finish
//
// Any goroutine may call it. Nothing blocks longer than a poll of the NIC takes.
type Straight interface {
	// Post sends a message to the process with a name, if it is short and can leave at once in one step.
	Post(to *Name, tag uint64, payload []byte) bool
	// Meet receives a message that comes within a moment, if it is the next that a Receive would take, and is whole. It is never
	// posted. If there is none such, Met.From is nil.
	Meet(from *Name, tag uint64, anyTag bool, buf []byte) Met

	// Send returns room for the payload of a message, which is on its way when Sent has been called: at once, by the same
	// goroutine, which must not call anything else of the NIC in between. If the message is a call, the receive of its reply is posted behind it.
	Send(m StraightSend) []byte
	// Sent ends a Send.
	Sent()
	// Datagram sends a datagram, m.Len bytes in parts, to a process of another NIC. false: by the queue, which says why. The parts are the
	// caller's again.
	Datagram(m StraightSend, parts [][]byte) bool

	// Flush has leave what Hold has left to the next poll.
	Flush()

	// SendMany sends messages to one process, as Send and Sent do each, m.Len and m.Hold aside, and returns how many have gone. The
	// others go by the queue, or later.
	SendMany(m StraightSend, messages [][]byte) (sent int)

	// Receive posts a receive. Its Finish may come before it returns. The NIC writes into Buf until then.
	Receive(r *StraightReceive) bool
	// Cancel withdraws a receive. It is finished soon, by its message or by StatusCancelled.
	Cancel(r *StraightReceive)

	// Close refuses everything from now on and withdraws all receives.
	Close()
	// Idle reports, after Close, whether they all are finished.
	Idle() bool
}

// Met tells of a message that Meet has taken. It is three words, so that it comes back in registers: an answer waits for it.
type Met struct {
	From *Sender // nil: none
	Tag  uint64
	Len  int // bytes, all of the message
}

// Sender is the process that messages are from. It does not change.
type Sender struct {
	Name Name
	NIC  uint64
	Slot uint16
	Gen  uint32
}

// StraightSend is a message of a few frames at most.
type StraightSend struct {
	To     Name   // the process to send to, unless NIC says
	Gen    uint32 // of the receiver; 0 = whichever lives
	Token  uint32 // of a call: its name in the reply, whose tag it is
	NIC    uint64 // not 0: the receiver is Slot of this NIC
	Tag    uint64
	Len    int              // bytes
	Answer *StraightReceive // of a call: takes the reply
	Slot   uint16
	Hold   bool // it may wait for others, or for the next poll
	Reply  bool // it is the reply to a call
}

// StraightReceive is a receive, and what came of it.
type StraightReceive struct {
	From   Name // whose message, unless NIC says; AnyProcess takes all
	NIC    uint64
	Slot   uint16
	Gen    uint32
	Tag    uint64
	AnyTag bool
	Takes  Taken
	Buf    []byte

	Result Completion // once it is Done
	Entry  any        // the NIC's own

	done atomic.Bool
	Rest []byte // of a datagram: for what is behind Buf
}

// Taken is what a receive takes.
type Taken uint8

const (
	TakesMessage  Taken = iota
	TakesReply          // to the call whose token is Tag
	TakesDatagram       // of any sender
)

// Begin makes r one that is not done.
func (r *StraightReceive) Begin() {
	r.done.Store(false)
}

// Finish is the NIC's: Result is there.
func (r *StraightReceive) Finish() { r.done.Store(true) }

// Done reports whether Result is there.
func (r *StraightReceive) Done() bool { return r.done.Load() }
