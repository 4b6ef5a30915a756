package vni

import "fmt"

// Code is the operation of a command. QNIX has nine (QNIX-8); Weft's own begin at 32. 0 marks an
// empty queue entry.
type Code uint8

const (
	// Send context; payload in its descriptors, pool pages or direct slices.
	CodeSend           Code = 1
	CodeSendShort      Code = 2 // send context; payload in its region (QNIX-18)
	CodeBroadcast      Code = 3
	CodeBroadcastShort Code = 4
	CodeMulticast      Code = 5
	CodeMulticastShort Code = 6
	CodeJoinGroup      Code = 7
	CodeReceive        Code = 8 // receive context
	CodeBarrier        Code = 9

	CodePut Code = 32 // send context; Remote is written
	// Send context; Remote is read into its descriptors, pool pages or direct slices.
	CodeGet Code = 33
	// Withdraws the operation of a context: a send if Size is CancelSend, a receive if
	// CancelReceive.
	CodeCancel Code = 34
	// Send context; completes with the address of Receiver once a live process has that name.
	CodeResolve Code = 35
	// Send context; its memory holds the process's vector, and in the end the result.
	CodeReduce Code = 36
	CodeLeave  Code = 37 // send context; the process leaves Group
	// The operation of a context has new descriptors; Size names the list, as in a Cancel.
	CodeRefill Code = 38

	// Receive context; stays posted, and puts messages into the ring in its memory.
	CodeReceiveRing Code = 39
	// Send context; its memory holds the lengths of Size messages, 2 bytes each, and their bytes.
	CodeSendRun Code = 40

	// Send context; its memory leaves for one process at once, and may be lost.
	CodeSendDatagram    Code = 41
	CodeReceiveDatagram Code = 42 // receive context; takes the next datagram with its tag

	// CodeProbe uses a receive context without memory. It reports a waiting message and leaves it
	// there. In the completion, Len is the message's length, and Full is the sum of that and the
	// ticket.
	CodeProbe Code = 44

	// Send context; a message to trigger Tag of program Gen at NIC, or here if that is 0.
	CodeProgram Code = 43
)

// Group operations have a send context (QNIX-9, QNIX-10). Group is the number by which the NIC
// knows the membership; the completion of the join returns it.
//
//	JoinGroup   Receiver is the group's key (GroupKey). The memory has RosterBytes for each
//	            member, which the NIC fills in by rank. Group and Size select one of three joins:
//	              Group 0, Size n   a group of n, by a name that its members know
//	              Group g, Size 0   the group after g: its members are the remaining ones of g
//	              Group g, Size n   a part of g: n members of g. If a member of g goes before the
//	                                join completes, the join fails with StatusGroupBroken and
//	                                its address
//	            Completion: Gen is the number, Tag is rank<<32 | size, NIC is the most bytes of
//	            one Reduce
//	Barrier     Size is the number of members
//	Broadcast   Tag is the rank of the root, whose bytes are copied to the others
//	Reduce      Tag is the rank of the root, or AllRanks, and operator<<32
//
// If the end of a member makes an operation fail, it ends with StatusGroupBroken and the rank of
// that member in Tag.

// Multicast has Size receivers, whose names are the first Size·ReceiverBytes bytes of the
// operation's memory; the message follows them (QNIX-11; QNIX leaves open where the list is). It
// completes when each receiver has been served. If one could not be served, it completes with the
// first such status, and that receiver's place in the list in Tag.

// ReceiverBytes is the size of a Multicast's entry for one receiver: its name and four zero bytes.
//
//	 0  application  24
//	24  index         4
//	28  zero          4
const ReceiverBytes = 32

// AllRanks, as the root of a Reduce, gives every member the result.
const AllRanks = 1<<32 - 1

// RosterBytes is the size of the entry that JoinGroup writes for each member.
//
//	 0  application  24
//	24  index         4
//	28  generation    4
//	32  NIC           8
//	40  slot          2
//	42  zero          6
const RosterBytes = 48

// Size of a CodeCancel or CodeRefill.
const (
	CancelSend    uint32 = 0
	CancelReceive uint32 = 1
)

var codeNames = map[Code]string{
	CodeSend: "send", CodeSendShort: "send-short", CodeBroadcast: "broadcast", CodeBroadcastShort: "broadcast-short",
	CodeMulticast: "multicast", CodeMulticastShort: "multicast-short", CodeJoinGroup: "join-group",
	CodeReceive: "receive", CodeBarrier: "barrier", CodePut: "put", CodeGet: "get", CodeCancel: "cancel",
	CodeResolve: "resolve", CodeReduce: "reduce", CodeLeave: "leave", CodeRefill: "refill",
	CodeReceiveRing: "receive-ring", CodeSendRun: "send-run", CodeSendDatagram: "send-datagram",
	CodeReceiveDatagram: "receive-datagram", CodeProgram: "program", CodeProbe: "probe",
}

func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return fmt.Sprintf("command-%d", uint8(c))
}

// Command is an entry of the command queue (QNIX-7).
type Command struct {
	Code    Code
	Context uint16 // index of a send or receive context (QNIX-9)
	Group   uint32 // for group operations (QNIX-10)
	// Number of processes involved (QNIX-11); of a Cancel or Refill, the list that Context
	// indexes.
	Size uint32
}

// commandEntry is a Command in the queue. word makes the entry present; the rest is written before
// it, by plain stores.
//
//	0  word   8   code in bits 0–7, context in bits 16–31, others zero; 0 = empty
//	8  group  4
//	12 size   4
type commandEntry struct {
	word uint64
	rest uint64 // group | size<<32
}

const commandBytes = 16

const commandBits = 0xffff00ff // the bits of word that may be set

func (c Command) pack() commandEntry {
	return commandEntry{word: uint64(c.Code) | uint64(c.Context)<<16, rest: uint64(c.Group) | uint64(c.Size)<<32}
}

// unpackCommand makes a command of two words with any content. If the word has bits outside of its
// fields, the command has no known code.
func unpackCommand(word, rest uint64) Command {
	c := Command{Code: Code(word), Context: uint16(word >> 16), Group: uint32(rest), Size: uint32(rest >> 32)}
	if word&^uint64(commandBits) != 0 {
		c.Code = 0
	}
	return c
}
