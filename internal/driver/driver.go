package driver

import (
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Driver is the driver half of a queue (QNIX-59, NIC Status). A queue has one. Its user holds a
// lock, or is alone; only Doorbell, Room and Pending need no lock.
type Driver struct {
	q *Queue
	// Driver Command Queue Tail: the next entry to be written. It changes under the user's lock.
	tail atomic.Uint32
	// Process Table Entry: the entry used longest ago, which is the most likely to be free.
	mark int
	// Process Flag Array: by index, the PID of the process there, 0 = free. Entry 0 is never
	// taken.
	flags []uint32
	used  int // number of flags that are not 0
}

// unknownPID is the flag of a process whose PID is unknown, such as one of another PID
// namespace.
const unknownPID = 1<<32 - 1

// Driver returns the driver half of the queue.
func (q *Queue) Driver() *Driver { return &Driver{q: q, mark: 1, flags: make([]uint32, len(q.table))} }

// Take finds a free entry of the process table for a process (QNIX-60): the one at the mark, or
// the first free one after it. The process keeps it until GiveBack. A pid of 0 means an unknown
// PID. ok is false if no entry is free.
func (d *Driver) Take(pid uint32) (index uint16, ok bool) {
	if pid == 0 {
		pid = unknownPID
	}
	for range len(d.flags) - 1 {
		i := d.mark
		if d.mark++; d.mark == len(d.flags) {
			d.mark = 1
		}
		if d.flags[i] == 0 {
			d.flags[i] = pid
			d.used++
			return uint16(i), true
		}
	}
	return 0, false
}

// GiveBack frees an entry. The NIC must never have heard of its process, or must have answered
// its Delete_Process. It panics if the entry is free.
func (d *Driver) GiveBack(index uint16) {
	if d.flags[index] == 0 {
		panic(fmt.Sprintf("driver: process table entry %d is given back twice", index))
	}
	d.flags[index] = 0
	d.used--
	d.q.table[index] = Entry{}
}

// Taken returns the number of entries with a process, and the number of all that can have one.
func (d *Driver) Taken() (used, of int) { return d.used, len(d.flags) - 1 }

// Tie ties a VNI to the table entry of a process, before its New_Process.
func (d *Driver) Tie(index uint16, e Entry) { d.q.table[index] = e }

// Post puts a command at the tail of the queue. It returns the position of its doorbell, which
// is now Used. ok is false if there is no room: the queue is full, or the previous command in
// this entry is not answered yet.
func (d *Driver) Post(c Command) (at int, ok bool) {
	if !d.Room() {
		return 0, false
	}
	tail := d.tail.Load()
	at = int(tail)
	d.q.bells[at].Store(uint32(vni.Used))
	e := &d.q.entries[at]
	e.name = c.Name
	e.word.Store(uint64(c.Code) | uint64(c.Index)<<16 | uint64(c.PID)<<32)
	d.tail.Store(step(tail))
	return at, true
}

// Room reports whether a command can be posted. One entry always stays empty, so that head and
// tail distinguish a full queue from an empty one. The previous command at the tail must be
// answered, and its answer taken. Without the lock, true only means that posting is worth a try.
func (d *Driver) Room() bool {
	tail := d.tail.Load()
	return step(tail) != d.q.head.Load() && d.Doorbell(int(tail)) == vni.Free
}

// Pending returns the number of commands that are posted and not answered, and the capacity of
// the queue.
func (d *Driver) Pending() (n, of int) {
	for i := range d.q.bells {
		if d.Doorbell(i) == vni.Used {
			n++
		}
	}
	return n, limits.DriverCommands
}

// Doorbell returns the state of a position.
func (d *Driver) Doorbell(at int) vni.Doorbell { return vni.Doorbell(d.q.bells[at].Load()) }

// Answered takes the result of the command at a position and frees the position. ok is false if
// its doorbell is not Done.
func (d *Driver) Answered(at int) (r Result, ok bool) {
	if d.Doorbell(at) != vni.Done {
		return Result{}, false
	}
	r, d.q.results[at] = d.q.results[at], Result{}
	d.q.bells[at].Store(uint32(vni.Free))
	return r, true
}
