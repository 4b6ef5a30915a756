package driver

import (
	"context"
	"testing"

	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/interleave"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Each test here runs a few steps of the driver and the NIC of a queue in every order.

func TestEveryScheduleOfTheDriverQueue(t *testing.T) {
	interleave.Explore(t, interleave.Options{Plain: true, Preemptions: 4, Least: 500}, func(r *interleave.Run) {
		q := NewQueue(2)
		d, n := q.Driver(), q.NIC()
		command := func(k int) Command {
			return Command{Code: NewProcess, Index: uint16(k), PID: uint32(10 + k), Name: vni.Name{Index: uint32(20 + k)}}
		}
		r.Go("driver", func() {
			var at [2]int
			for k := range at {
				var ok bool
				if at[k], ok = d.Post(command(k)); !ok {
					r.Failf("there is no room for command %d", k)
				}
			}
			for k := range at {
				interleave.Block(func() bool { return d.Doorbell(at[k]) == vni.Done })
				if res, ok := d.Answered(at[k]); !ok || res.Gen != uint32(30+k) {
					r.Failf("the answer to command %d is %+v, %v", k, res, ok)
				}
			}
		})
		r.Go("NIC", func() {
			for k := range 2 {
				interleave.Block(n.Pending)
				c, at, ok := n.Next()
				if !ok || c != command(k) {
					r.Failf("command %d came as %+v, %v", k, c, ok)
				}
				if b := d.Doorbell(at); b != vni.Used {
					r.Failf("the doorbell of command %d is %v", k, b)
				}
				n.Ring(at, Result{Gen: uint32(30 + k)})
			}
		})
	})
}

// scheduledNIC polls when it is kicked, and answers all commands. Then it wakes all waiters, as
// a daemon's loop does.
type scheduledNIC struct {
	idle.Waiters
	kicks, polls int
}

func (w *scheduledNIC) Kick() {
	interleave.Step()
	w.kicks++
}

func (w *scheduledNIC) Wake() { w.WakeReady() }

// kicked waits until the NIC must poll once more.
func (w *scheduledNIC) kicked() {
	interleave.Block(func() bool { return w.kicks > w.polls })
	w.polls = w.kicks
}

// full returns a queue without room. The NIC has read all of its commands and answered none.
func full(t *testing.T) (*Registrar, *NIC, *scheduledNIC) {
	q, w := NewQueue(4), &scheduledNIC{}
	d, n := q.Driver(), q.NIC()
	for range limits.DriverCommands {
		if _, ok := d.Post(Command{Code: DeleteProcess, Index: 2}); !ok {
			t.Fatal("the queue is full too early")
		}
		if _, _, ok := n.Next(); !ok {
			t.Fatal("a command is not there")
		}
	}
	if d.Room() {
		t.Fatal("there is room")
	}
	return NewRegistrar(d, w), n, w
}

func TestEveryScheduleOfAProcessThatIsRegistered(t *testing.T) {
	interleave.Explore(t, interleave.Options{Preemptions: 3, Least: 500}, func(r *interleave.Run) {
		q, w := NewQueue(4), &scheduledNIC{}
		d, n := q.Driver(), q.NIC()
		reg := NewRegistrar(d, w)
		r.Go("caller", func() {
			gen, err := reg.New(context.Background(), 1, 7, vni.Name{}, Entry{})
			if err == nil {
				err = reg.Delete(1)
			}
			if gen != 1 || err != nil {
				r.Failf("generation %d, %v", gen, err)
			}
		})
		r.Go("NIC", func() { serve(n, w, 2) })
	})
}

// serve answers commands until it has answered the number many. The generation in each answer is
// the number of the command, from 1 on.
func serve(n *NIC, w *scheduledNIC, many int) {
	for k := 0; k < many; {
		w.kicked()
		for {
			_, at, ok := n.Next()
			if !ok {
				break
			}
			k++
			n.Ring(at, Result{Gen: uint32(k)})
		}
		w.WakeReady()
	}
}

// The NIC answers the oldest command of a full queue. The command that waits for room must
// notice.
func TestEveryScheduleOfACommandThatWaitsForRoom(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		reg, n, w := full(t)
		r.Go("caller", func() {
			if gen, err := reg.New(context.Background(), 1, 7, vni.Name{}, Entry{}); gen != 1 || err != nil {
				r.Failf("generation %d, %v", gen, err)
			}
		})
		r.Go("one that waits already", func() {
			if res, err := reg.await(context.Background(), 0); res.Gen != 9 || err != nil {
				r.Failf("its answer is %+v, %v", res, err)
			}
		})
		r.Go("NIC", func() {
			n.Ring(0, Result{Gen: 9})
			w.WakeReady()
			serve(n, w, 1)
		})
	})
}
