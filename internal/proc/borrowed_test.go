package proc

import (
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// everySecond is a straight way that takes every second receive, which has ended then.
type everySecond struct {
	vni.Straight
	n int
}

func (w *everySecond) Send(vni.StraightSend) []byte { return nil }

func (w *everySecond) Receive(r *vni.StraightReceive) bool {
	if w.n++; w.n%2 == 1 {
		return false
	}
	r.Begin()
	time.Sleep(time.Millisecond) // others run
	r.Finish()
	return true
}

// Where a context is lacking, a goroutine may have found an Op that has one and has ended, and wait
// for its lock. Its user settles it first, and begins it again by the straight way, for which it
// needs no lock: the race detector looks whether the two meet.
func TestAnOpIsBegunAgainBesideOneThatWouldHaveItsContext(t *testing.T) {
	n := &toy{}
	p, _ := n.join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return &polling{n: n} }, Options{Straight: &everySecond{}})
	var o Op
	for range 100 {
		if err := p.StartRecvInto(&o, Dest{}, AnyTag, nil); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(bg, app(t, "app/0"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(bg); err != nil {
			t.Fatal(err)
		}
		var other sync.WaitGroup
		o.mu.Lock()
		other.Go(func() {
			if o.reclaim(receiveList, o.ctx) {
				t.Error("an operation is settled that has no context")
			}
		})
		time.Sleep(time.Millisecond)
		o.mu.Unlock()
		if err := p.StartRecvInto(&o, Dest{}, AnyTag, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(bg); err != nil {
			t.Fatal(err)
		}
		other.Wait()
	}
}
