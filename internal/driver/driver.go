package driver

import (
	"fmt"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Driver is the driver half (QNIX-59, NIC Status). There is one for a queue. Its user locks, or is alone; only Doorbell, Room
// and Pending need no lock.
type Driver struct {
	q     *Queue
	tail  atomic.Uint32 // Driver Command Queue Tail: the next entry to be written. Changed under the user's lock
	mark  int           // Process Table Entry: the one used longest ago, and so the most probably free
	flags []uint32      // Process Flag Array: by index, the PID of the process there, 0 = free; entry 0 is never taken
	used  int           // flags that are not 0
}

// unknownPID is the flag of a process whose PID cannot be told, such as one of another PID namespace.
const unknownPID = 1<<32 - 1

// Driver returns the driver half of the queue.
func (q *Queue) Driver() *Driver { return &Driver{q: q, mark: 1, flags: make([]uint32, len(q.table))} }

// Take finds a free entry of the process table for a process, as QNIX-60 says: the one at the mark, or else the first free
// one behind it. It is the process's until GiveBack. A PID of 0 is one that is not known.
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

// GiveBack makes an entry free. The NIC has never heard of its process, or has answered its Delete_Process.
func (d *Driver) GiveBack(index uint16) {
	if d.flags[index] == 0 {
		panic(fmt.Sprintf("driver: process table entry %d is given back twice", index))
	}
	d.flags[index] = 0
	d.used--
	d.q.table[index] = Entry{}
}

// Taken is how many entries have a process, of how many.
func (d *Driver) Taken() (used, of int) { return d.used, len(d.flags) - 1 }

// Tie puts a VNI into the table entry of a process, before its New_Process.
func (d *Driver) Tie(index uint16, e Entry) { d.q.table[index] = e }

// Post puts a command at the tail of the queue, and returns the position of its doorbell, which is Used from now on. It
// reports false if there is no room: the queue is full, or the command that was in the entry is not answered yet.
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

// Room reports whether a command can be posted. One entry always stays empty, so that head and tail tell a full queue from an
// empty one, and the last command at the tail has been answered and looked at. Without the lock it only says that posting is
// worth a try.
func (d *Driver) Room() bool {
	tail := d.tail.Load()
	return step(tail) != d.q.head.Load() && d.Doorbell(int(tail)) == vni.Free
}

// Pending is how many commands have been posted and are not answered, of how many.
func (d *Driver) Pending() (n, of int) {
	for i := range d.q.bells {
		if d.Doorbell(i) == vni.Used {
			n++
		}
	}
	return n, limits.DriverCommands
}

// Doorbell reads the state of a position.
func (d *Driver) Doorbell(at int) vni.Doorbell { return vni.Doorbell(d.q.bells[at].Load()) }

// Answered takes the result of the command at a position if its doorbell is Done, and makes the position free.
func (d *Driver) Answered(at int) (r Result, ok bool) {
	if d.Doorbell(at) != vni.Done {
		return Result{}, false
	}
	r, d.q.results[at] = d.q.results[at], Result{}
	d.q.bells[at].Store(uint32(vni.Free))
	return r, true
}
