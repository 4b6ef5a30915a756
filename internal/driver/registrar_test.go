package driver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// toyNIC answers driver commands from its own goroutine, some of them late.
type toyNIC struct {
	idle.Waiters
	n      *NIC
	late   func() bool // whether to answer a New_Process later
	kicked atomic.Bool
	stop   atomic.Bool
	ended  sync.WaitGroup
	err    error // of the goroutine; read it after the end

	procs   map[uint16]vni.Name
	waiting map[uint16]int // positions of unanswered New_Process commands, by slot
}

func (w *toyNIC) Kick() { w.kicked.Store(true) }
func (w *toyNIC) Wake() { w.WakeReady() }

func newToyNIC(q *Queue, late func() bool) *toyNIC {
	w := &toyNIC{n: q.NIC(), late: late, procs: map[uint16]vni.Name{}, waiting: map[uint16]int{}}
	w.ended.Go(func() {
		for !w.stop.Load() {
			if !w.kicked.Swap(false) {
				runtime.Gosched()
			}
			w.poll()
		}
	})
	return w
}

func (w *toyNIC) end() error {
	w.stop.Store(true)
	w.ended.Wait()
	return w.err
}

func (w *toyNIC) poll() {
	for slot, at := range w.waiting {
		if !w.late() {
			delete(w.waiting, slot)
			w.n.Ring(at, Result{Gen: uint32(slot)})
		}
	}
	for {
		c, at, ok := w.n.Next()
		if !ok {
			break
		}
		if err := w.execute(c, at); err != nil {
			w.err = errors.Join(w.err, err)
		}
	}
	w.WakeReady()
}

func (w *toyNIC) execute(c Command, at int) error {
	name, there := w.procs[c.Index]
	switch {
	case c.Code == NewProcess && !there:
		w.procs[c.Index] = c.Name
		w.waiting[c.Index] = at
		if seg := w.n.Entry(c.Index).VNI; seg == nil || seg.Geometry().Contexts != int(c.PID) {
			return fmt.Errorf("entry %d of process %d has VNI %v", c.Index, c.PID, seg)
		}
		return nil
	case c.Code == DeleteProcess && there:
		delete(w.procs, c.Index)
		if at, unanswered := w.waiting[c.Index]; unanswered {
			delete(w.waiting, c.Index)
			w.n.Ring(at, Result{Err: errors.New("withdrawn")})
		}
		w.n.Ring(at, Result{})
		return nil
	}
	w.n.Ring(at, Result{})
	return fmt.Errorf("%v of entry %d, where there is %v: %v", c.Code, c.Index, name, there)
}

// segments returns VNIs that differ in their number of contexts.
func segments(t *testing.T, n int) []*vni.Segment {
	t.Helper()
	var all []*vni.Segment
	for i := range n {
		g := vni.Geometry{Commands: (2*i + 16) / 8 * 8, Contexts: i + 1, Descriptors: 1}
		rw, ro := g.Sizes()
		s, err := vni.NewSegment(vni.AlignedBytes(rw), vni.AlignedBytes(ro), g)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// Goroutines come and go at full speed. Some leave before they are registered, and there are
// more of them than slots.
func TestProcessesComeAndGoAtFullSpeed(t *testing.T) {
	const slots, goroutines = 5, 8
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	q := NewQueue(slots)
	rng := rand.New(rand.NewPCG(1, 2)) // used only by the toy
	w := newToyNIC(q, func() bool { return rng.IntN(4) > 0 })
	r := NewRegistrar(q.Driver(), w)
	var all sync.WaitGroup
	var taken, full, withdrawn atomic.Int64
	for g, seg := range segments(t, goroutines) {
		all.Go(func() {
			for i := range rounds {
				slot, err := r.Take(g + 1)
				for ; err != nil; slot, err = r.Take(g + 1) {
					full.Add(1)
					runtime.Gosched()
				}
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					cancel()
				}
				gen, err := r.New(ctx, slot, g+1, vni.Name{Index: uint32(g)}, Entry{VNI: seg})
				cancel()
				switch {
				case err == nil && gen == uint32(slot):
					taken.Add(1)
					if err := r.Delete(slot); err != nil {
						t.Errorf("Delete: %v", err)
					}
				case errors.Is(err, context.Canceled) && i%5 == 0:
					withdrawn.Add(1)
				default:
					t.Errorf("New at slot %d: generation %d, %v", slot, gen, err)
				}
				r.GiveBack(slot)
			}
		})
	}
	all.Wait()
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if n, _ := r.Pending(); n != 0 || len(w.procs) != 0 || len(w.waiting) != 0 {
		t.Errorf("%d commands are pending, %d processes there, %d waiting", n, len(w.procs), len(w.waiting))
	}
	if used, of := r.Taken(); used != 0 || of != slots {
		t.Errorf("%d of %d slots are taken", used, of)
	}
	for at := range limits.DriverCommands {
		if b := r.d.Doorbell(at); b != vni.Free {
			t.Errorf("doorbell %d is %v", at, b)
		}
	}
	t.Logf("%d taken in, %d withdrawn, %d found no slot", taken.Load(), withdrawn.Load(), full.Load())
	if taken.Load() == 0 || withdrawn.Load() == 0 || full.Load() == 0 {
		t.Error("one of the three has never happened")
	}
}

// The tail reaches the answer of a New_Process whose caller has given up and is about to post
// Delete_Process.
func TestAWithdrawalFindsRoomThoughItsOwnAnswerIsAtTheTail(t *testing.T) {
	q := NewQueue(3)
	w := newToyNIC(q, func() bool { return false })
	r := NewRegistrar(q.Driver(), w)
	segs := segments(t, 3)
	r.d.Tie(1, Entry{VNI: segs[0]})
	at, err := r.post(t.Context(), Command{Code: NewProcess, Index: 1, PID: 1}, new(unclaimed))
	if err != nil {
		t.Fatal(err)
	}
	serve := func(slot uint16) {
		if _, err := r.New(t.Context(), slot, int(slot), vni.Name{}, Entry{VNI: segs[slot-1]}); err != nil {
			t.Fatal(err)
		}
	}
	serve(3)
	for range (limits.DriverCommands - 2) / 2 {
		serve(2)
		if err := r.Delete(2); err != nil {
			t.Fatal(err)
		}
	}
	if tail := int(r.d.tail.Load()); tail != at || r.d.Doorbell(at) != vni.Done {
		t.Fatalf("the tail is at %d, and doorbell %d is %v; expected the tail there, and an answer", tail, at, r.d.Doorbell(at))
	}
	if err := r.withdraw(1, at); err != nil {
		t.Error(err)
	}
	if err := r.Delete(3); err != nil {
		t.Error(err)
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if n, _ := r.Pending(); n != 0 || len(w.procs) != 0 {
		t.Errorf("%d commands are pending, and %d processes there", n, len(w.procs))
	}
}

func TestWhoFindsNoRoomWaitsForIt(t *testing.T) {
	q := NewQueue(limits.MaxProcesses)
	var open atomic.Bool
	w := newToyNIC(q, func() bool { return !open.Load() })
	r := NewRegistrar(q.Driver(), w)
	seg := segments(t, 1)[0]
	var all sync.WaitGroup
	for range 2 * limits.DriverCommands {
		all.Go(func() {
			slot, err := r.Take(1)
			if err == nil {
				_, err = r.New(t.Context(), slot, 1, vni.Name{}, Entry{VNI: seg})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	// With one less, the next command might be the one below.
	for n := 0; n < limits.DriverCommands; n, _ = r.Pending() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.New(ctx, 0, 1, vni.Name{}, Entry{VNI: seg}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller whose context ends before there is room gets %v", err)
	}
	open.Store(true)
	all.Wait()
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// As at the end of a daemon, more processes leave at once than the queue has entries.
func TestAllLeaveAtOnce(t *testing.T) {
	const many = 3 * limits.DriverCommands
	q := NewQueue(many)
	w := newToyNIC(q, func() bool { return false })
	r := NewRegistrar(q.Driver(), w)
	seg := segments(t, 1)[0]
	for range 20 {
		for _, f := range []func(slot uint16) error{
			func(slot uint16) error {
				_, err := r.New(t.Context(), slot, 1, vni.Name{}, Entry{VNI: seg})
				return err
			}, r.Delete,
		} {
			var all sync.WaitGroup
			for slot := range uint16(many) {
				all.Go(func() {
					if err := f(slot + 1); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
}
