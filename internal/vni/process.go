package vni

import (
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
)

// Process is the process half. There is one per segment. It does no locking. The package comment
// lists the methods that may be called without the caller's lock.
type Process struct {
	s    *Segment
	tail uint32 // next entry to write; equals status.tail
	head uint32 // the NIC's head at the last read

	// The NIC was kicked for the command in entry kicked, which has not been written again since.
	kicking bool
	kicked  uint32

	first EventReader
}

// Process returns the process half of the segment.
func (s *Segment) Process() *Process {
	p := &Process{s: s}
	p.first.s = s
	p.first.next.Store(1)
	return p
}

// Room reports whether n commands can be posted now. One entry always stays empty, and the head is
// up to 7 entries late (QNIX-A4), so N−8 commands can certainly be pending.
func (p *Process) Room(n int) bool {
	if p.spare() < n {
		p.head = p.Head()
	}
	return p.spare() >= n
}

func (p *Process) spare() int {
	n := p.s.geo.Commands
	return (int(p.head) - int(p.tail) - 1 + n) % n
}

// Post puts a command at the tail of the queue (QNIX-29), or returns false if the queue is full.
// Everything that the command names must be filled in before. Call MustKick afterwards.
func (p *Process) Post(c Command) bool {
	if !p.Room(1) {
		return false
	}
	packed := c.pack()
	if p.kicked == p.tail {
		p.kicking = false
	}
	e := &p.s.commands[p.tail]
	e.rest = packed.rest
	atomic.StoreUint64(&e.word, packed.word)
	p.tail = step(p.tail, p.s.geo.Commands)
	p.s.status.tail = p.tail
	return true
}

// Tail returns the entry of the queue that the next Post fills. It must be called under the
// caller's lock.
func (p *Process) Tail() uint32 { return p.tail }

// Unread reports whether an entry of the queue holds c and the NIC has not taken it yet. If it has
// not, it sees everything that the process wrote before the call when it executes c. Unread must
// be called under the caller's lock.
func (p *Process) Unread(entry uint32, c Command) bool {
	e, packed := &p.s.commands[entry], c.pack()
	return atomic.LoadUint64(&e.word) == packed.word && e.rest == packed.rest
}

func step(i uint32, n int) uint32 {
	if i++; int(i) == n {
		return 0
	}
	return i
}

// TakeSend takes a free send context (QNIX-30): its doorbell becomes Used.
func (p *Process) TakeSend() (i int, ok bool) { return take(p.s.bells[sendList], &p.s.status.send) }

// TakeReceive takes a free receive context.
func (p *Process) TakeReceive() (i int, ok bool) {
	return take(p.s.bells[receiveList], &p.s.status.receive)
}

// take looks first at the context that field names: it was posted longest ago, so it is most
// likely free. If it is not, take looks at those after it, once around.
func take(bells []uint32, field *uint32) (i int, ok bool) {
	c := *field
	for range bells {
		after := step(c, len(bells))
		if Doorbell(atomic.LoadUint32(&bells[c])) == Free {
			atomic.StoreUint32(&bells[c], uint32(Used))
			*field = after
			return int(c), true
		}
		c = after
	}
	return 0, false
}

// AnyFree reports whether a context of a list is free. Like Doorbell it needs no lock, so a true
// result only means that it is worth trying to take one.
func (p *Process) AnyFree(receive bool) bool {
	for i := range p.s.geo.Contexts {
		if p.Doorbell(receive, i) == Free {
			return true
		}
	}
	return false
}

// Head returns how far the NIC has read the command queue, rounded down to eight commands. It
// needs no lock: a caller that found no room waits until Head differs from KnownHead.
func (p *Process) Head() uint32 { return atomic.LoadUint32(p.s.head) }

// KnownHead returns the head that Room last used. It must be called under the caller's lock.
func (p *Process) KnownHead() uint32 { return p.head }

// GiveBack frees a context that was taken and never posted: Used → Free. The NIC does not know of
// it.
func (p *Process) GiveBack(receive bool, i int) { p.Release(receive, i) }

// Release frees a context after its completion was read: Done → Free. The next TakeSend or
// TakeReceive may take it.
func (p *Process) Release(receive bool, i int) {
	if d := p.s.direct; d != nil {
		g := &d[list(receive)][i]
		clear(g.parts) // release the caller's memory
		g.parts = g.parts[:0]
	}
	atomic.StoreUint32(&p.s.bells[list(receive)][i], uint32(Free))
}

// SetSend fills in send context i.
func (p *Process) SetSend(i int, c *SendContext) {
	r := &p.s.sends[i]
	flags := c.Flags
	if c.NIC != 0 || c.Remote != (Remote{}) {
		flags |= secondLine
		r.nic, r.slot = c.NIC, uint32(c.Slot)
		r.remoteSlot, r.remoteNIC, r.remoteGen = uint32(c.Remote.Slot), c.Remote.NIC, c.Remote.Gen
		r.remoteRegion, r.remoteKey, r.remoteOffset = c.Remote.Region, c.Remote.Key, c.Remote.Offset
	}
	r.app, r.index, r.gen = c.Receiver.words(), c.Receiver.Index, c.Gen
	r.tag, r.length, r.flags, r.token = c.Tag, c.Len, flags, c.Token
	r.poolIndex, r.size = c.PoolIndex, c.Size
}

// SetReceive fills in receive context i.
func (p *Process) SetReceive(i int, c *ReceiveContext) {
	r := &p.s.receives[i]
	flags := c.Flags
	if c.NIC != 0 || c.Most != 0 {
		flags |= secondLine
		r.nic, r.slot, r.most = c.NIC, uint32(c.Slot), c.Most
	}
	r.app, r.index, r.gen = c.Sender.words(), c.Sender.Index, c.Gen
	r.tag, r.length, r.flags = c.Tag, c.Len, flags
	r.poolIndex, r.size = c.PoolIndex, c.Size
}

// Inline returns the region of send context i as a programmed-I/O buffer (QNIX-18),
// limits.ShortMessage bytes long.
func (p *Process) Inline(i int) []byte { return p.s.region(sendList, i)[:limits.ShortMessage] }

// SetDescriptors fills the region of a context with at most K descriptors and marks them valid
// (QNIX-22).
func (p *Process) SetDescriptors(receive bool, i int, d []Descriptor) {
	records := p.s.descriptors(list(receive), i)[:len(d)]
	for k := range d {
		records[k] = descriptorRecord{
			regionFlag: uint64(d[k].Region) | DescriptorValid<<32, offset: d[k].Offset, length: d[k].Len,
		}
	}
}

// SetDescriptor fills record k mod K with descriptor k of a refilled operation (QNIX-22). The
// record must be empty: descriptor k−K is consumed, or ClearDescriptors was called before the
// operation was posted.
func (p *Process) SetDescriptor(receive bool, i int, k uint32, d Descriptor) {
	records := p.s.descriptors(list(receive), i)
	r := &records[int(k%uint32(len(records)))]
	r.offset, r.length = d.Offset, d.Len
	atomic.StoreUint64(&r.regionFlag, uint64(d.Region)|DescriptorValid<<32)
}

// ClearDescriptors empties all records of a context, which may hold data of an earlier operation
// or a short message. The caller must own the context, and it must not be posted.
func (p *Process) ClearDescriptors(receive bool, i int) {
	clear(p.s.descriptors(list(receive), i))
}

// Taken returns how many descriptors of a context the NIC has taken in refilled operations. The
// count wraps around. Like Doorbell it needs no lock.
func (p *Process) Taken(receive bool, i int) uint32 {
	return atomic.LoadUint32(&p.s.done[list(receive)][i].taken)
}

// Consumed returns how many of these descriptors are consumed, so that their records and their
// memory may be reused.
func (p *Process) Consumed(receive bool, i int) uint32 {
	return atomic.LoadUint32(&p.s.done[list(receive)][i].consumed)
}

// SetDirect sets the memory of a context's operation, which must not change until the doorbell
// rings. The slice parts itself is copied. The segment must have had EnableDirect.
func (p *Process) SetDirect(receive bool, i int, parts [][]byte) {
	g := &p.s.direct[list(receive)][i]
	g.parts = append(g.parts[:0], parts...)
}

// Doorbell returns the state of a context.
func (p *Process) Doorbell(receive bool, i int) Doorbell {
	return Doorbell(atomic.LoadUint32(&p.s.bells[list(receive)][i]))
}

// Completion returns the completion of a context's operation; the doorbell must be Done. Only a
// receive's completion has From.
func (p *Process) Completion(receive bool, i int) (c Completion) {
	p.ReadCompletion(receive, i, &c)
	return c
}

// ReadCompletion is Completion into c, which must be empty.
func (p *Process) ReadCompletion(receive bool, i int, c *Completion) {
	r := &p.s.done[list(receive)][i]
	c.Status, c.Len, c.Full, c.Tag, c.Token = Status(r.status), r.length, r.full, r.tag, r.token
	c.NIC, c.Slot, c.Gen = r.nic, uint16(r.slot), r.gen
	if receive {
		c.From.Index = r.index
		c.From.setWords(r.app)
	}
}

// Listening reports whether the NIC visits this queue without a kick.
func (p *Process) Listening() bool { return atomic.LoadUint32(p.s.listening) != 0 }

// MustKick reports whether the caller must kick the NIC for the last posted command. It need not
// if the NIC visits the queue without a kick, or has not taken the command of the last kick yet:
// the NIC then takes this command after that one (NETSTAR-22). MustKick must be called under the
// caller's lock.
func (p *Process) MustKick() bool {
	if p.Listening() || p.kicking && atomic.LoadUint64(&p.s.commands[p.kicked].word) != 0 {
		return false
	}
	n := uint32(p.s.geo.Commands)
	p.kicking, p.kicked = true, (p.tail+n-1)%n
	return true
}

// SetSleeping tells the NIC that a waiter here is about to park, or no longer does. After
// SetSleeping(true), check the awaited condition once more, and only then park.
func (p *Process) SetSleeping(sleeping bool) {
	var w uint32
	if sleeping {
		w = 1
	}
	atomic.StoreUint32(p.s.sleeping, w)
}

// SetWaitsAt tells the NIC at which processor a waiter here waits awake, with nothing to do before
// a doorbell rings. -1 means none, or unknown.
func (p *Process) SetWaitsAt(processor int) { atomic.StoreUint32(p.s.waiting, uint32(processor+1)) }

// Gone returns StatusOK while the NIC serves this segment. Otherwise it returns the reason, and no
// doorbell will ring again.
func (p *Process) Gone() Status { return Status(atomic.LoadUint32(p.s.gone)) }

// NextEvent calls Next of a reader of all events from the first on.
func (p *Process) NextEvent() (e Event, lost uint64, ok bool) { return p.first.Next() }

// EventPending reports whether NextEvent would find an event.
func (p *Process) EventPending() bool { return p.first.Pending() }

// Events returns the reader that NextEvent uses.
func (p *Process) Events() *EventReader { return &p.first }

// Identity returns the owner of this segment.
func (p *Process) Identity() Identity { return p.s.info.identity() }
