package vni

// Flags of a context. The receive of a reply is posted before its call, so a reply that finds none is late: it is
// refused, never staged.
const (
	WantNotify uint32 = 1 << 0 // ring Done, not Free, when it completes (QNIX-16)
	WantAccept uint32 = 1 << 1 // a send completes only when the destination NIC has accepted the message (decision 6)
	IsReply    uint32 = 1 << 2 // a reply, or a receive that only a reply matches: the tag is the token of the call
	IsCall     uint32 = 1 << 3 // the sender awaits a reply
	AnyTag     uint32 = 1 << 4 // a receive takes every tag (QNIX-20)
	Refilled   uint32 = 1 << 5 // the descriptors are the first of a ring; more follow by Refill

	sendFlags    = WantNotify | WantAccept | IsReply | IsCall | Refilled
	receiveFlags = WantNotify | IsReply | AnyTag | Refilled

	// secondLine is set by SetSend and SetReceive when the context's second cache line holds something. Most messages
	// go by name and need only the first, and the NIC then does not fetch the other.
	secondLine uint32 = 1 << 31
)

// NoPool is the PoolIndex of a context whose memory is not in the pool (QNIX-17, "null").
const NoPool int32 = -1

// SendContext is what the NIC must know of a send, PUT, GET or Resolve (QNIX-13).
type SendContext struct {
	Receiver Name   // the process to send to, unless NIC says
	Gen      uint32 // of the receiver; 0 = whichever lives. Any other must be the present one
	NIC      uint64 // not 0: the receiver is Slot of this NIC, not a name
	Slot     uint16

	Tag   uint64
	Flags uint32
	Token uint32 // the process's own name for the operation; travels with the message

	PoolIndex int32  // first page, or NoPool
	Size      uint32 // pages from PoolIndex, or descriptors in the region; 1 for a short message (QNIX-18)
	Len       uint64 // bytes of the message

	Remote Remote // of PUT and GET
}

// Remote is the far memory of a PUT or GET.
type Remote struct {
	NIC    uint64
	Slot   uint16
	Gen    uint32
	Region uint32
	Key    uint64
	Offset uint64
}

// ReceiveContext is what the NIC must know of a receive (QNIX-19).
type ReceiveContext struct {
	Sender Name   // whose message, unless NIC says; AnyProcess takes all
	NIC    uint64 // not 0: exactly the process Slot, Gen of this NIC
	Slot   uint16
	Gen    uint32

	Tag   uint64
	Flags uint32

	PoolIndex int32
	Size      uint32
	Len       uint64 // bytes of the buffer
	Most      uint64 // of a ring: bytes of a message that it keeps. Of a Receive: the ticket of the one message that it takes, or 0. Of a Probe: not 0 = it does not wait
}

// Descriptor names a piece of memory (QNIX-22). A region's pages are contiguous here, so a piece may be of any length.
//
// An operation that is Refilled has more of them than a context region holds, which is then a ring: descriptor k is in
// record k mod K. The NIC takes them in order, each once, and empties the record of one that is consumed: all its bytes
// are acknowledged, or have come, and so have those of all before it. The process fills it anew.
//
//	process                                              NIC
//	SetDescriptor: the record, then its flag  ─────────► Descriptor: takes it, Took counts it
//	Taken? if all before it were, post a Refill           …
//	Consumed? the record may be filled again   ◄──────── Consume: empties the record and counts it
//
// Taken spares a Refill if the NIC has yet to take what was described before. It is the third place that follows Dekker's pattern: the
// process writes the flag and reads the count of the taken; the NIC writes that count and looks at the next flag again. Both may
// see the other's write: then the Refill finds its descriptor taken.
//
// Unread spares one if the last has not been read, by the same pattern: the process writes the flag and reads the entry of the queue; the
// NIC empties the entry and looks at the flag. So of the Refills of one operation at most one is unread.
//
// The counts go on from operation to operation: a process remembers what they were when it took the context.
type Descriptor struct {
	Region uint32 // of the process; PoolRegion is the buffer pool
	Flag   uint32 // DescriptorValid, or the entry is not filled
	Offset uint64 // in the region
	Len    uint64
}

// PoolRegion is the region that every process has: its buffer pool.
const PoolRegion = 0

// DescriptorValid is the Flag of a filled descriptor; that of an empty one is 0.
const DescriptorValid = 1

// sendRecord is a SendContext in shared memory: what sends by name need is in the first line.
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

// receiveRecord is a ReceiveContext in shared memory, with the fields of sendRecord at the same places.
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
	partial  uint32 // of a ring: messages of the record at consumed that were read
	consumed uint64 // of a ring, by the process
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
