package proc

import (
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// everySecond is a straight way that accepts every second receive, and ends it at once.
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
	time.Sleep(time.Millisecond) // so that others run
	r.Finish()
	return true
}

// If contexts are lacking, a goroutine may find an ended Op that still has its context, and wait
// for its lock. The user of the Op may settle it first, and then begin it again by the straight
// way, which needs no lock. The race detector checks that the two do not conflict.
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
