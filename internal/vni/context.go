package vni

// Flags of a context. The receive of a reply is posted before its call. So a reply that finds no
// receive is late: it is refused, never staged.
const (
	WantNotify uint32 = 1 << 0 // ring Done, not Free, when the operation completes (QNIX-16)
	// A send completes only when the destination NIC has accepted the message (decision 6).
	WantAccept uint32 = 1 << 1
	// A reply, or a receive that matches only a reply; the tag is the token of the call.
	IsReply  uint32 = 1 << 2
	IsCall   uint32 = 1 << 3 // the sender awaits a reply
	AnyTag   uint32 = 1 << 4 // a receive takes every tag (QNIX-20)
	Refilled uint32 = 1 << 5 // the descriptors are the first of a ring; more follow by Refill

	sendFlags    = WantNotify | WantAccept | IsReply | IsCall | Refilled
	receiveFlags = WantNotify | IsReply | AnyTag | Refilled

	// secondLine is set by SetSend and SetReceive when the context's second cache line is used.
	// Most messages are sent by name and need only the first, and the NIC then does not fetch the
	// second.
	secondLine uint32 = 1 << 31
)

// NoPool is the PoolIndex of a context whose memory is not in the pool (QNIX-17, "null").
const NoPool int32 = -1

// SendContext holds the NIC's data of a send, PUT, GET or Resolve (QNIX-13).
type SendContext struct {
	Receiver Name   // the receiver, unless NIC is not 0
	Gen      uint32 // of the receiver; 0: any live generation, else it must be the present one
	NIC      uint64 // not 0: the receiver is Slot of this NIC, not a name
	Slot     uint16

	Tag   uint64
	Flags uint32
	Token uint32 // the process's own number for the operation; travels with the message

	PoolIndex int32 // first page, or NoPool
	// Pages from PoolIndex, or descriptors in the region; 1 for a short message (QNIX-18).
	Size uint32
	Len  uint64 // bytes of the message

	Remote Remote // of a PUT or GET
}

// Remote is the remote memory of a PUT or GET.
type Remote struct {
	NIC    uint64
	Slot   uint16
	Gen    uint32
	Region uint32
	Key    uint64
	Offset uint64
}

// ReceiveContext holds the NIC's data of a receive (QNIX-19).
type ReceiveContext struct {
	Sender Name   // the sender, unless NIC is not 0; AnyProcess takes all senders
	NIC    uint64 // not 0: exactly the process Slot, Gen of this NIC
	Slot   uint16
	Gen    uint32

	Tag   uint64
	Flags uint32

	PoolIndex int32
	Size      uint32
	Len       uint64 // bytes of the buffer
	// Most depends on the command. For a ring, it is the most bytes of a message that the ring
	// keeps. For a Receive, it is the ticket of the one message to take, or 0. For a Probe, not 0
	// means that it does not wait.
	Most uint64
}

// Descriptor names a piece of memory (QNIX-22). A region's pages are contiguous here, so a piece
// may have any length.
//
// A refilled operation has more descriptors than a context region holds. The region is then a
// ring: descriptor k is in record k mod K. The NIC takes the descriptors in order, each once. It
// empties the record of a consumed descriptor: all its bytes, and those of all descriptors before
// it, are acknowledged or have arrived. The process then fills the record again.
//
//	process                                              NIC
//	SetDescriptor: the record, then its flag  ─────────► Descriptor: takes it, Took counts it
//	Taken? if all before it were, post a Refill           …
//	Consumed? the record may be filled again   ◄──────── Consume: empties the record and counts it
//
// Taken saves a Refill if the NIC has not taken the earlier descriptors yet. It is the third place
// that follows Dekker's pattern: the process writes the flag and reads the count of taken
// descriptors; the NIC writes that count and reads the next flag again. Both may see the other's
// write. The Refill then finds its descriptor already taken.
//
// Unread saves a Refill if the last one has not been read, by the same pattern: the process writes
// the flag and reads the queue entry; the NIC empties the entry and reads the flag. So at most one
// Refill of an operation is unread.
//
// The counts continue from operation to operation: a process remembers their values from when it
// took the context.
type Descriptor struct {
	Region uint32 // of the process; PoolRegion is the buffer pool
	Flag   uint32 // DescriptorValid, or 0 if the entry is not filled
	Offset uint64 // in the region
	Len    uint64
}

// PoolRegion is the region that every process has: its buffer pool.
const PoolRegion = 0

// DescriptorValid is the Flag of a filled descriptor. An empty one has 0.
const DescriptorValid = 1

// sendRecord is a SendContext in shared memory. The fields that a send by name needs are in the
// first line.
type sendRecord struct {
	app       appWords
	index     uint32
	gen       uint32
	tag       uint64
	length    uint64
	flags     uint32
	token     uint32
	poolIndex int32
	size      uint32

	nic          uint64
	slot         uint32
	remoteSlot   uint32
	remoteNIC    uint64
	remoteGen    uint32
	remoteRegion uint32
	remoteKey    uint64
	remoteOffset uint64
	_            [2]uint64
}

// receiveRecord is a ReceiveContext in shared memory, with the fields that it shares with
// sendRecord at the same places.
type receiveRecord struct {
	app       appWords
	index     uint32
	gen       uint32
	tag       uint64
	length    uint64
	flags     uint32
	_         uint32
	poolIndex int32
	size      uint32

	nic      uint64
	slot     uint32
	partial  uint32 // of a ring: read messages of the record at consumed
	consumed uint64 // of a ring: written by the process
	most     uint64
	_        [4]uint64
}

const contextBytes = 2 * lineBytes

// descriptorRecord is a Descriptor in shared memory.
type descriptorRecord struct {
	regionFlag uint64 // region | flag<<32
	offset     uint64
	length     uint64
	_          uint64
}

const descriptorBytes = 32
