package driver

import "github.com/weftnet/weft/internal/vni"

// NIC is the NIC half of a queue (QNIX-51, Driver Info). A queue has one. Only one goroutine at
// a time may use it.
type NIC struct {
	q         *Queue
	head      uint32 // NIC Driver Command Queue Head
	sinceHead int    // commands read since the head was last stored for the driver
}

// NIC returns the NIC half of the queue.
func (q *Queue) NIC() *NIC { return &NIC{q: q} }

// Pending reports whether Next would find a command.
func (n *NIC) Pending() bool { return n.q.entries[n.head].word.Load() != 0 }

// Next takes the command at the head and the position by which to answer it. It zeroes the
// entry, and stores the new head for the driver once every eight commands. ok is false if there
// is no command.
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

// Entry returns what the driver has tied to an entry of the process table.
func (n *NIC) Entry(index uint16) Entry { return n.q.table[index] }

// Ring answers the command at a position. Each command is answered exactly once, immediately or
// in a later poll (QNIX-58). A second answer panics.
func (n *NIC) Ring(at int, r Result) {
	bell := &n.q.bells[at]
	if d := vni.Doorbell(bell.Load()); d != vni.Used {
		panic("driver: a command is answered a second time: its doorbell is " + d.String())
	}
	n.q.results[at] = r
	bell.Store(uint32(vni.Done))
}
