package weft_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/weftnet/weft"
)

// Calls that ask the NIC nothing also fail on a closed process.
func TestCallsOfAClosedProcessThatAskTheNICNothingFail(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Port(7); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("taking a port: %v; expected %v", err, weft.ErrClosed)
	}
	if _, err := p.Peer(p.Name()).SendMany(t.Context(), 1, nil); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("sending no messages: %v; expected %v", err, weft.ErrClosed)
	}
}

// The call would have made a segment that no process could release.
func TestAClosedProcessGetsNoSegmentOfANICThatGoesOn(t *testing.T) {
	n, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	p, err := n.Attach(t.Context(), weft.Name{App: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.SharedSegment(2, 200); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a segment of a closed process: %v; expected %v", err, weft.ErrClosed)
	}
}

func TestAnOffsetFarBeyondARegionIsOutOfRange(t *testing.T) {
	ctx, p, q := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	r, err := q.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	for _, offset := range []int{65, 1 << 40, math.MaxInt - 8, math.MaxInt} {
		for _, by := range []*weft.Process{p, q} {
			if err := by.Get(ctx, r.Handle(), offset, b); !errors.Is(err, weft.ErrRange) {
				t.Errorf("a GET by %v at %d: %v; expected %v", by.Name(), offset, err, weft.ErrRange)
			}
			if err := by.Put(ctx, r.Handle(), offset, b); !errors.Is(err, weft.ErrRange) {
				t.Errorf("a PUT by %v at %d: %v; expected %v", by.Name(), offset, err, weft.ErrRange)
			}
		}
	}
}

// Slots are reused, and so are the numbers of regions. A region that outlives its process must
// take nothing from the next process at its slot.
func TestARegionOfAClosedProcessIsNotThatOfTheNextProcessAtItsSlot(t *testing.T) {
	n, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	attach := func(index uint32) (*weft.Process, *weft.Region, *weft.Share) {
		p, err := n.Attach(t.Context(), weft.Name{App: "a", Index: index})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Share(0, 8, weft.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		return p, r, s
	}
	first, old, part := attach(0)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, r, s := attach(1)
	for i := uint32(2); next.Address().Slot != first.Address().Slot; i++ {
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		next, r, s = attach(i)
	}
	if err := errors.Join(part.Close(), old.Close()); err != nil {
		t.Errorf("closing the region of the closed process: %v", err)
	}
	if err := errors.Join(next.Put(t.Context(), s.Handle(), 0, []byte("share")), next.Put(t.Context(), r.Handle(), 8, []byte("region"))); err != nil {
		t.Errorf("a PUT into a region of the next process: %v", err)
	}
}

// A Reply is also an operation of its port. The test covers every method, and so also a method
// that is added later.
func TestEveryOperationOfAClosedPortFails(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o, err := p.Port(7)
	if err != nil {
		t.Fatal(err)
	}
	go o.Peer(p.Name()).Call(t.Context(), 1, []byte("question"), nil)
	m, err := o.Recv(t.Context(), p.Name(), 1, make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	arguments := map[reflect.Type]any{}
	for _, x := range []any{p.Name(), p.Address(), weft.Tag(1), m, new(weft.Op), []weft.Name{p.Name()}, make([]byte, 8), [][]byte{make([]byte, 8)}} {
		arguments[reflect.TypeOf(x)] = x
	}
	arguments[reflect.TypeFor[context.Context]()] = t.Context()
	looked := 0
	for _, of := range []any{o, o.Peer(p.Name()), o.PeerAt(p.Address())} {
		for f := range reflect.TypeOf(of).NumMethod() {
			method := reflect.TypeOf(of).Method(f)
			if n := method.Type.NumOut(); n == 0 || method.Type.Out(n-1) != reflect.TypeFor[error]() || method.Name == "Close" {
				continue
			}
			in := []reflect.Value{reflect.ValueOf(of)}
			for i := 1; i < method.Type.NumIn(); i++ {
				if x, ok := arguments[method.Type.In(i)]; ok {
					in = append(in, reflect.ValueOf(x))
				} else {
					in = append(in, reflect.Zero(method.Type.In(i)))
				}
			}
			call := reflect.Value.Call
			if method.Type.IsVariadic() {
				call = reflect.Value.CallSlice
			}
			out := call(method.Func, in)
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, weft.ErrClosed) {
				t.Errorf("%T.%s on a closed port: %v; expected %v", of, method.Name, err, weft.ErrClosed)
			}
			looked++
		}
	}
	if looked < 35 {
		t.Errorf("looked at %d methods; the search must be broken", looked)
	}
}

// With a daemon, Close ends the operations that start forms have begun. A NIC in the program has
// receives that end only when their user asks for them.
func TestAReceiveThatCloseHasEndedIsNotSaidToBeCancelled(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	var o weft.Op
	if err := p.StartRecv(&o, weft.AnyProcess, 1, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	o.Cancel()
	if _, err := o.Wait(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a receive that was under way at Close: %v; expected %v", err, weft.ErrClosed)
	}
}
