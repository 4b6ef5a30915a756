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
)

// Size of a CodeCancel.
const (
	CancelSend    uint32 = 0
	CancelReceive uint32 = 1
)

var codeNames = map[Code]string{
	CodeSend: "send", CodeSendShort: "send-short", CodeBroadcast: "broadcast", CodeBroadcastShort: "broadcast-short",
	CodeMulticast: "multicast", CodeMulticastShort: "multicast-short", CodeJoinGroup: "join-group", CodeReceive: "receive",
	CodeBarrier: "barrier", CodePut: "put", CodeGet: "get", CodeCancel: "cancel", CodeResolve: "resolve",
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
	Size    uint32 // how many processes are involved (QNIX-11); of a Cancel, which list Context indexes
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
