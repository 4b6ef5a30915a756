package vni

import (
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft/internal/nicid"
)

// Kinds of events.
const (
	// NIC is silent; at most Count completed sends to it were not delivered.
	EventUnreachable uint32 = 1
	// NIC came back as another incarnation; Count as in EventUnreachable.
	EventRestarted   uint32 = 2
	EventProcessGone uint32 = 3 // the process NIC, Slot, Gen (Name, if known) has ended
	// The home of this process's Name gave it to the process NIC, Slot, Gen.
	EventNameLost uint32 = 4
	EventClosed   uint32 = 5 // NIC has said goodbye; Count as in EventUnreachable
)

// Event is news for a process that belongs to none of its operations.
type Event struct {
	Kind  uint32
	NIC   uint64
	Slot  uint16
	Gen   uint32
	Name  Name
	Count uint64
}

func (e Event) String() string {
	switch e.Kind {
	case EventUnreachable:
		return fmt.Sprintf("NIC %v unreachable, %d sends in doubt", nicid.ID(e.NIC), e.Count)
	case EventRestarted:
		return fmt.Sprintf("NIC %v restarted, %d sends in doubt", nicid.ID(e.NIC), e.Count)
	case EventClosed:
		return fmt.Sprintf("NIC %v closed, %d sends in doubt", nicid.ID(e.NIC), e.Count)
	case EventProcessGone:
		if e.Name.IsZero() {
			return fmt.Sprintf("process gone (NIC %v, slot %d)", nicid.ID(e.NIC), e.Slot)
		}
		return fmt.Sprintf("process %v gone (NIC %v, slot %d)", e.Name, nicid.ID(e.NIC), e.Slot)
	case EventNameLost:
		return fmt.Sprintf("name %v lost to NIC %v, slot %d", e.Name, nicid.ID(e.NIC), e.Slot)
	}
	return fmt.Sprintf("event %d", e.Kind)
}

// Events is the number of events that the ring keeps. The NIC overwrites the oldest. It neither
// waits for the process nor reads any word of it: a process that falls behind learns how many
// events it lost.
const Events = 64

// eventRecord is an Event in ro. number is the event's number, counted from 1, and 0 while the
// record is being written. A reader that finds the same number before and after has read a whole
// event.
type eventRecord struct {
	number uint64
	count  uint64
	nic    uint64
	kind   uint32
	slot   uint32
	gen    uint32
	index  uint32
	app    appWords
}

const eventBytes = lineBytes

func (r *eventRecord) store(number uint64, e *Event) {
	atomic.StoreUint64(&r.number, 0)
	atomic.StoreUint64(&r.count, e.Count)
	atomic.StoreUint64(&r.nic, e.NIC)
	atomic.StoreUint32(&r.kind, e.Kind)
	atomic.StoreUint32(&r.slot, uint32(e.Slot))
	atomic.StoreUint32(&r.gen, e.Gen)
	atomic.StoreUint32(&r.index, e.Name.Index)
	for i, w := range e.Name.words() {
		atomic.StoreUint64(&r.app[i], w)
	}
	atomic.StoreUint64(&r.number, number)
}

// load reads event number. It returns false if the record holds another event or is being
// overwritten.
func (r *eventRecord) load(number uint64) (e Event, ok bool) {
	if atomic.LoadUint64(&r.number) != number {
		return e, false
	}
	e.Count = atomic.LoadUint64(&r.count)
	e.NIC = atomic.LoadUint64(&r.nic)
	e.Kind = atomic.LoadUint32(&r.kind)
	e.Slot = uint16(atomic.LoadUint32(&r.slot))
	e.Gen = atomic.LoadUint32(&r.gen)
	e.Name.Index = atomic.LoadUint32(&r.index)
	var w appWords
	for i := range w {
		w[i] = atomic.LoadUint64(&r.app[i])
	}
	e.Name.setWords(w)
	return e, atomic.LoadUint64(&r.number) == number
}
