package driver

import "github.com/weftnet/weft/internal/vni"

// NIC is the NIC half (QNIX-51, Driver Info). There is one for a queue, used by one goroutine at a time.
type NIC struct {
	q         *Queue
	head      uint32 // NIC Driver Command Queue Head
	sinceHead int    // commands read since the driver was told of the head
}

// NIC returns the NIC half of the queue.
func (q *Queue) NIC() *NIC { return &NIC{q: q} }

// Pending reports whether Next would find a command.
func (n *NIC) Pending() bool { return n.q.entries[n.head].word.Load() != 0 }

// Next takes the command at the head, if there is one, and the position by which to ring for it: zeroes its entry, and
// every eight tells the driver of the new head.
func (n *NIC) Next() (c Command, at int, ok bool) {
	e := &n.q.entries[n.head]
	word := e.word.Load()
	if word == 0 {
		return Command{}, 0, false
	}
	c = Command{Code: Code(word), Index: uint16(word >> 16), PID: uint32(word >> 32), Name: e.name}
	e.word.Store(0)
	at = int(n.head)
	n.head = step(n.head)
	if n.sinceHead++; n.sinceHead == HeadBatch {
		n.sinceHead = 0
		n.q.head.Store(n.head)
	}
	return c, at, true
}

// Entry is what the driver has tied to an entry of the process table.
func (n *NIC) Entry(index uint16) Entry { return n.q.table[index] }

// Ring answers the command that was read at a position, once: at once, or in a later poll (QNIX-58).
func (n *NIC) Ring(at int, r Result) {
	bell := &n.q.bells[at]
	if d := vni.Doorbell(bell.Load()); d != vni.Used {
		panic("driver: a command is answered a second time: its doorbell is " + d.String())
	}
	n.q.results[at] = r
	bell.Store(uint32(vni.Done))
}
