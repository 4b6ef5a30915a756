package vni

import (
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
)

// NIC is the NIC half. There is one per segment, used by one goroutine at a time. It bases its
// decisions only on its own state: the contents of rw may be anything.
type NIC struct {
	s         *Segment
	head      uint32    // NIC Command Queue Head (QNIX-37)
	sinceHead int       // commands read since the process was told of the head
	active    [2][]bool // by list: contexts that a command has named and that no Complete has ended
	published uint64    // events

	taken, consumed [2][]uint32 // by list: counts of descriptors, as told to the process
}

// NIC returns the NIC half of the segment.
func (s *Segment) NIC() *NIC {
	n := &NIC{s: s}
	for l := range n.active {
		n.active[l] = make([]bool, s.geo.Contexts)
		n.taken[l], n.consumed[l] = make([]uint32, s.geo.Contexts), make([]uint32, s.geo.Contexts)
	}
	return n
}

// Segment returns the segment of this half.
func (n *NIC) Segment() *Segment { return n.s }

// Next takes the command at the head of the queue, if there is one, and zeroes its entry. Every
// eight commands it tells the process the new head (QNIX-37, 38). Code and Context may hold
// anything: an unknown Code is an impossible state.
func (n *NIC) Next() (Command, bool) {
	e := &n.s.commands[n.head]
	word := atomic.LoadUint64(&e.word)
	if word == 0 {
		return Command{}, false
	}
	c := unpackCommand(word, atomic.LoadUint64(&e.rest))
	atomic.StoreUint64(&e.word, 0)
	n.head = step(n.head, n.s.geo.Commands)
	if n.sinceHead++; n.sinceHead == headBatch {
		n.sinceHead = 0
		atomic.StoreUint32(n.s.head, n.head)
	}
	return c, true
}

// Pending reports whether Next would find a command.
func (n *NIC) Pending() bool { return atomic.LoadUint64(&n.s.commands[n.head].word) != 0 }

// Listen says that from now on the NIC visits this queue without a kick.
func (n *NIC) Listen() { atomic.StoreUint32(n.s.listening, 1) }

// StopListening tries to stop visiting this queue until a kick. It returns false if a command has
// arrived meanwhile: the queue is then still visited. The package comment has the interleavings.
func (n *NIC) StopListening() bool {
	atomic.StoreUint32(n.s.listening, 0)
	if n.Pending() {
		n.Listen()
		return false
	}
	return true
}

// Sleeping reports whether a waiter in the process parks, or is about to. It must be called after
// Complete, Event and SetGone.
func (n *NIC) Sleeping() bool { return atomic.LoadUint32(n.s.sleeping) != 0 }

// WaitsAt returns the processor at which a waiter in the process waits awake, as the process says;
// -1 if there is none.
func (n *NIC) WaitsAt() int { return int(atomic.LoadUint32(n.s.waiting)) - 1 }

// Send loads send context i, which a command has named, into c and makes it active until its
// Complete. So it is called once for each command. It fails with ErrImpossible if there is no such
// context, its doorbell is not Used, or it is already active. It fails with ErrArgument if its
// fields are inconsistent; the context is still active, so that Complete can report that.
func (n *NIC) Send(i int, c *SendContext) error {
	if err := n.begin(sendList, i); err != nil {
		return err
	}
	n.s.sends[i].load(c)
	if err := c.validate(&n.s.geo, n.s.Direct()); err != nil {
		return fmt.Errorf("send context %d: %w", i, err)
	}
	return nil
}

// Receive loads receive context i, as Send loads a send context.
func (n *NIC) Receive(i int, c *ReceiveContext) error {
	if err := n.begin(receiveList, i); err != nil {
		return err
	}
	n.s.receives[i].load(c)
	if err := c.validate(&n.s.geo, n.s.Direct()); err != nil {
		return fmt.Errorf("receive context %d: %w", i, err)
	}
	return nil
}

func (n *NIC) begin(list, i int) error {
	if i < 0 || i >= n.s.geo.Contexts {
		return fmt.Errorf("%w: command for %s context %d of %d", ErrImpossible, listNames[list], i, n.s.geo.Contexts)
	}
	if n.active[list][i] {
		return fmt.Errorf("%w: second command for %s context %d", ErrImpossible, listNames[list], i)
	}
	if d := Doorbell(atomic.LoadUint32(&n.s.bells[list][i])); d != Used {
		return fmt.Errorf("%w: command for %s context %d, whose doorbell is %v", ErrImpossible, listNames[list], i, d)
	}
	n.active[list][i] = true
	return nil
}

var listNames = [2]string{"send", "receive"}

// Active reports whether context i has an operation in progress. i may have any value.
func (n *NIC) Active(receive bool, i int) bool {
	return i >= 0 && i < n.s.geo.Contexts && n.active[list(receive)][i]
}

// Inline returns the payload of a short message: the first length bytes of the region of send
// context i. It is shared memory: copy it once, and check the copy. Inline returns nil if length
// is more than limits.ShortMessage.
func (n *NIC) Inline(i, length int) []byte {
	if i < 0 || i >= n.s.geo.Contexts || length < 0 || length > limits.ShortMessage {
		return nil
	}
	return n.s.region(sendList, i)[:length:length]
}

// Descriptors appends the first count descriptors of a context's region to into. The caller looks
// up their regions. It fails with ErrArgument if there are more than K, or if one is invalid or
// larger than any region.
func (n *NIC) Descriptors(receive bool, i, count int, into []Descriptor) ([]Descriptor, error) {
	if i < 0 || i >= n.s.geo.Contexts || count < 0 || count > n.s.geo.Descriptors {
		return into, fmt.Errorf("%w: %d descriptors of %s context %d", ErrArgument, count, listNames[list(receive)], i)
	}
	records := n.s.descriptors(list(receive), i)
	for k := range records[:count] {
		r := &records[k]
		word := atomic.LoadUint64(&r.regionFlag)
		d := Descriptor{
			Region: uint32(word), Flag: uint32(word >> 32), Offset: atomic.LoadUint64(&r.offset),
			Len: atomic.LoadUint64(&r.length),
		}
		if d.Flag != DescriptorValid || d.Offset > limits.MaxRegion || d.Len > limits.MaxRegion-d.Offset {
			return into, fmt.Errorf("%w: descriptor %d of %s context %d: flag %d, offset %d, length %d", ErrArgument, k,
				listNames[list(receive)], i, d.Flag, d.Offset, d.Len)
		}
		into = append(into, d)
	}
	return into, nil
}

// Descriptor loads descriptor k of a refilled operation, once. ok is false if the process has not
// filled it yet. The caller looks up its region. Descriptor fails with ErrArgument if the
// descriptor is empty or malformed.
func (n *NIC) Descriptor(receive bool, i int, k uint32) (d Descriptor, ok bool, err error) {
	records := n.s.descriptors(list(receive), i)
	r := &records[int(k%uint32(len(records)))]
	word := atomic.LoadUint64(&r.regionFlag)
	if word>>32 == 0 { // the process may be writing the rest at this moment
		return d, false, nil
	}
	d = Descriptor{Region: uint32(word), Flag: uint32(word >> 32), Offset: atomic.LoadUint64(&r.offset),
		Len: atomic.LoadUint64(&r.length)}
	switch {
	case d.Flag != DescriptorValid || d.Len == 0 || d.Offset > limits.MaxRegion || d.Len > limits.MaxRegion-d.Offset:
		return d, false, fmt.Errorf("%w: descriptor %d of %s context %d: flag %d, offset %d, length %d", ErrArgument, k,
			listNames[list(receive)], i, d.Flag, d.Offset, d.Len)
	}
	return d, true, nil
}

// Took tells the process that one more descriptor was taken. Look for the next one after the call,
// not before.
func (n *NIC) Took(receive bool, i int) {
	l := list(receive)
	n.taken[l][i]++
	atomic.StoreUint32(&n.s.done[l][i].taken, n.taken[l][i])
}

// Consume empties the record of descriptor k of an operation, and tells the process that the
// descriptor is consumed.
func (n *NIC) Consume(receive bool, i int, k uint32) {
	l := list(receive)
	records := n.s.descriptors(l, i)
	atomic.StoreUint64(&records[int(k%uint32(len(records)))].regionFlag, 0)
	n.consumed[l][i]++
	atomic.StoreUint32(&n.s.done[l][i].consumed, n.consumed[l][i])
}

// Direct returns the memory of an operation on a direct segment, or nil on other segments. The
// slice is valid until Complete.
func (n *NIC) Direct(receive bool, i int) [][]byte {
	if n.s.direct == nil || i < 0 || i >= n.s.geo.Contexts {
		return nil
	}
	return n.s.direct[list(receive)][i].parts
}

// Complete ends the operation of a context: it writes the completion, then turns the doorbell from
// Used to Done, or to Free if no notification was asked for (QNIX-32). notify is the NIC's own
// copy of WantNotify. It fails with ErrImpossible if the doorbell is not Used, and then does not
// change it.
func (n *NIC) Complete(receive bool, i int, c *Completion, notify bool) error {
	l := list(receive)
	if !n.Active(receive, i) {
		return fmt.Errorf("%w: completion of %s context %d, which has no operation", ErrImpossible, listNames[l], i)
	}
	n.active[l][i] = false
	bell := &n.s.bells[l][i]
	if d := Doorbell(atomic.LoadUint32(bell)); d != Used {
		return fmt.Errorf("%w: doorbell of %s context %d is %v at its completion", ErrImpossible, listNames[l], i, d)
	}
	if !notify {
		atomic.StoreUint32(bell, uint32(Free))
		return nil
	}
	r := &n.s.done[l][i]
	r.status, r.token, r.length, r.full, r.tag = uint32(c.Status), c.Token, c.Len, c.Full, c.Tag
	r.nic, r.slot, r.gen = c.NIC, uint32(c.Slot), c.Gen
	if receive {
		r.index, r.app = c.From.Index, c.From.words()
	}
	atomic.StoreUint32(bell, uint32(Done))
	return nil
}

// Event publishes an event. It overwrites the oldest one if the ring is full.
func (n *NIC) Event(e Event) {
	number := n.published + 1
	n.s.events[n.published%Events].store(number, &e)
	n.published = number
	atomic.StoreUint64(n.s.published, number)
}

// SetGone says that this segment is no longer served, and why. No doorbell rings afterwards.
func (n *NIC) SetGone(why Status) { atomic.StoreUint32(n.s.gone, uint32(why)) }

// SetIdentity writes the owner of the segment. It must be called before the process gets the
// segment.
func (n *NIC) SetIdentity(id Identity) {
	m := n.s.info
	m.nic, m.incarnation, m.slot, m.gen = id.NIC, id.Incarnation, uint32(id.Slot), id.Gen
	m.index, m.app = id.Name.Index, id.Name.words()
}

func (m *memoryInfo) identity() Identity {
	id := Identity{NIC: m.nic, Incarnation: m.incarnation, Slot: uint16(m.slot), Gen: m.gen, Name: Name{Index: m.index}}
	id.Name.setWords(m.app)
	return id
}
