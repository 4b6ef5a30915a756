package vni

import "fmt"

// Code says what a command asks for. QNIX has nine (QNIX-8); Weft's own begin at 32. 0 is an empty queue entry.
type Code uint8

const (
	CodeSend           Code = 1 // send context; payload in its descriptors, pool pages or direct slices
	CodeSendShort      Code = 2 // send context; payload in its region (QNIX-18)
	CodeBroadcast      Code = 3
	CodeBroadcastShort Code = 4
	CodeMulticast      Code = 5
	CodeMulticastShort Code = 6
	CodeJoinGroup      Code = 7
	CodeReceive        Code = 8 // receive context
	CodeBarrier        Code = 9

	CodePut     Code = 32 // send context; Remote is written
	CodeGet     Code = 33 // send context; Remote is read into its descriptors, pool pages or direct slices
	CodeCancel  Code = 34 // withdraws the operation of a context: a send's if Size is CancelSend, a receive's if CancelReceive
	CodeResolve Code = 35 // send context; completes with the address of Receiver once a live process has that name
	CodeReduce  Code = 36 // send context; its memory has the process's vector, and in the end the result
	CodeLeave   Code = 37 // send context; the process leaves Group
	CodeRefill  Code = 38 // the operation of a context has new descriptors; Size says which list, as of a Cancel

	CodeReceiveRing Code = 39 // receive context; stays posted, and puts messages into the ring that is its memory
	CodeSendRun     Code = 40 // send context; its memory has the lengths of Size messages, 2 bytes each, and their bytes

	CodeSendDatagram    Code = 41 // send context; its memory leaves for one process at once, and may be lost
	CodeReceiveDatagram Code = 42 // receive context; takes the next datagram with its tag

	CodeProbe Code = 44 // receive context without memory; tells of a message that waits and leaves it there. Completion: Len is its length, Full is the sum of that and its ticket

	CodeProgram Code = 43 // send context; a message to trigger Tag of program Gen at NIC, or here if that is 0
)

// Group operations have a send context (QNIX-9, QNIX-10). Group is the number by which the NIC knows the membership; it is
// told by the completion of the join.
//
//	JoinGroup   Receiver is the group's key (GroupKey). Memory for RosterBytes a member, which the NIC fills in by rank.
//	            Group and Size say which of three joins it is:
//	              Group 0, Size n   a group of n, by a name that its members know
//	              Group g, Size 0   the group after g: its members are those of g that are left
//	              Group g, Size n   a part of g: n members of g. It fails with StatusGroupBroken, and the address of the
//	                                member of g that has gone, if one goes before the join completes
//	            Completion: Gen is the number, Tag is rank<<32 | size, NIC is the most bytes of one Reduce
//	Barrier     Size is the number of members
//	Broadcast   Tag is the rank of the root, from whose memory the bytes go into that of the others
//	Reduce      Tag is the rank of the root, or AllRanks, and operator<<32
//
// An operation that the end of a member has made fail ends with StatusGroupBroken and the rank of that member in Tag.

// Multicast has Size receivers, whose names are the first Size·ReceiverBytes bytes of the operation's memory; the message
// is what follows (QNIX-11; QNIX leaves open where the list is). It completes when each of them has been served; if one
// could not be, with the first such status, and that receiver's place in the list in Tag.

// ReceiverBytes is what a Multicast has for each receiver: its name and four bytes of zeros.
//
//	 0  application  24
//	24  index         4
//	28  zero          4
const ReceiverBytes = 32

// AllRanks, as the root of a Reduce, lets every member have the result.
const AllRanks = 1<<32 - 1

// RosterBytes is what JoinGroup writes for each member.
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
	CodeMulticast: "multicast", CodeMulticastShort: "multicast-short", CodeJoinGroup: "join-group", CodeReceive: "receive",
	CodeBarrier: "barrier", CodePut: "put", CodeGet: "get", CodeCancel: "cancel", CodeResolve: "resolve",
	CodeReduce: "reduce", CodeLeave: "leave", CodeRefill: "refill", CodeReceiveRing: "receive-ring", CodeSendRun: "send-run",
	CodeSendDatagram: "send-datagram", CodeReceiveDatagram: "receive-datagram",
	CodeProgram: "program", CodeProbe: "probe",
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
	Size    uint32 // how many processes are involved (QNIX-11); of a Cancel or Refill, which list Context indexes
}

// commandEntry is a Command in the queue. word is what makes it present; the rest is written before it, plainly.
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

// unpack makes a command of two words that may hold anything. A word with bits where none belong has no known code.
func unpackCommand(word, rest uint64) Command {
	c := Command{Code: Code(word), Context: uint16(word >> 16), Group: uint32(rest), Size: uint32(rest >> 32)}
	if word&^uint64(commandBits) != 0 {
		c.Code = 0
	}
	return c
}
