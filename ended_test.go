//go:build unix

package weft_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/program"
)

// evenThen lists the calls that do their work even if their context has ended: they return a
// result that is already available, or wait for nothing.
var evenThen = map[string]string{
	"Watcher.Next":        "returns a queued event",
	"Gate.Wait":           "returns if the gate is open",
	"Op.Wait":             "returns the result of an operation that is done",
	"Runtime.WithTimeout": "derives a context",
}

// Every method with a context checks the context first, and its error names the peer of the call.
func TestEveryCallLooksAtItsContextFirstAndNamesThePeer(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	w := newEndedWorld(t, ctx, a, b)
	over, cancel := context.WithCancel(ctx)
	cancel()
	before, looked := sends(a.NIC()), 0
	for _, v := range w.receivers {
		for i := range v.NumMethod() {
			m := v.Type().Method(i)
			name := reflect.Indirect(v).Type().Name() + "." + m.Name
			if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() || evenThen[name] != "" {
				continue
			}
			looked++
			w.mustRefuse(t, name, v, v.Method(i), over)
		}
	}
	for name, f := range w.functions {
		looked++
		w.mustRefuse(t, name, reflect.Value{}, reflect.ValueOf(f), over)
	}
	if looked < 60 {
		t.Errorf("looked at %d calls; the search must be broken", looked)
	}
	if n := sends(a.NIC()) - before; n != 0 {
		t.Errorf("%d operations left", n)
	}
	if w.region.Bytes()[0] != 0 {
		t.Error("one of them has written")
	}
	w.mustStillWork(t, ctx, a, b)
}

// endedWorld holds the receivers and arguments of such calls.
type endedWorld struct {
	region    *weft.Region
	group     *weft.Group
	receivers []reflect.Value
	functions map[string]any
	arguments map[reflect.Type]any
}

func newEndedWorld(t *testing.T, ctx context.Context, a, b *weft.Process) *endedWorld {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &endedWorld{}
	var err error
	w.region, err = b.Alloc(64)
	must(err)
	w.group, err = a.Join(ctx, "alone", 1)
	must(err)
	port, err := a.Port(7)
	must(err)
	in, err := a.Inbox(weft.AnyProcess, 9, 8)
	must(err)
	segment, err := a.SharedSegment(1, 64)
	must(err)
	watcher := a.Watch()
	t.Cleanup(func() { in.Close(); watcher.Close(); must(segment.Close()) })
	for _, x := range []any{a, port, a.Peer(b.Name()), port.PeerAt(b.Address()), a.Runtime(), w.group, in, new(weft.Op), program.On(a), segment, watcher, a.Runtime().NewGate(), a.NIC()} {
		w.receivers = append(w.receivers, reflect.ValueOf(x))
	}
	w.functions = map[string]any{"Open": weft.Open, "OpenNIC": weft.OpenNIC, "Attach": weft.Attach, "Reduce": weft.Reduce[int64], "AllReduce": weft.AllReduce[float64],
		"ReduceFunc": weft.ReduceFunc[int64], "AllReduceFunc": weft.AllReduceFunc[float64], "StartAllReduce": weft.StartAllReduce[float64]}
	w.arguments = map[reflect.Type]any{}
	for _, x := range []any{b.Name(), b.Address(), weft.Tag(1), w.region.Handle(), make([]byte, 8), [][]byte{make([]byte, 8), make([]byte, 8)}, []weft.Name{b.Name()},
		w.group, new(weft.GroupOp), []int64{1}, []float64{1}, func() bool { return true }, program.Address{ID: 1}, weft.Config{Name: weft.Name{App: "c"}, Link: weft.NewSwitch().Link()},
		weft.AttachConfig{Name: weft.Name{App: "x"}, Socket: filepath.Join(t.TempDir(), "none")}} {
		w.arguments[reflect.TypeOf(x)] = x
	}
	return w
}

// mustRefuse calls a function, and expects it to return the context's error.
func (w *endedWorld) mustRefuse(t *testing.T, name string, recv, f reflect.Value, over context.Context) {
	t.Helper()
	in := []reflect.Value{reflect.ValueOf(over)}
	n := f.Type().NumIn()
	if f.Type().IsVariadic() {
		n--
	}
	for i := 1; i < n; i++ {
		of := f.Type().In(i)
		if x, ok := w.arguments[of]; ok {
			in = append(in, reflect.ValueOf(x))
		} else {
			in = append(in, reflect.Zero(of))
		}
	}
	out := f.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	if all := out[0]; all.Kind() == reflect.Func { // an iterator that ends with the error
		for _, e := range all.Seq2() {
			err, _ = e.Interface().(error)
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s with a context that has ended: %v; expected %v", name, err, context.Canceled)
	}
	if peer := w.peerOf(recv, in[1:]); peer != "" && err != nil && !strings.Contains(err.Error(), peer) {
		t.Errorf("%s with a context that has ended: %q does not name %s", name, err, peer)
	}
	if err != nil && strings.Contains(err.Error(), "ctl:") {
		t.Errorf("%s has asked for a daemon: %v", name, err)
	}
}

// peerOf returns the text with which the error of a call names the only peer of the call, or "".
func (w *endedWorld) peerOf(receiver reflect.Value, in []reflect.Value) string {
	name := w.arguments[reflect.TypeFor[weft.Name]()].(weft.Name)
	nic := w.arguments[reflect.TypeFor[weft.Address]()].(weft.Address).NIC.String()
	if receiver.IsValid() {
		if _, ok := receiver.Interface().(*weft.NIC); ok {
			return "" // the name is the name of a new process
		}
		if r, ok := receiver.Interface().(weft.Peer); ok {
			return map[bool]string{true: name.String(), false: nic}[r.Name() == name]
		}
	}
	for _, v := range in {
		switch v.Interface().(type) {
		case weft.Name:
			return name.String()
		case weft.Handle, weft.Address:
			return nic
		}
	}
	return ""
}

// mustStillWork uses the objects that the calls must not have affected.
func (w *endedWorld) mustStillWork(t *testing.T, ctx context.Context, a, b *weft.Process) {
	t.Helper()
	if err := w.group.Barrier(ctx); err != nil {
		t.Errorf("the group: %v", err)
	}
	if err := a.Peer(b.Name()).SendDelivered(ctx, 2, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if m, err := b.Recv(ctx, weft.AnyProcess, weft.AnyTag, make([]byte, 8)); err != nil || m.Tag != 2 {
		t.Errorf("what came first has tag %d, %v; expected 2", m.Tag, err)
	}
}

func TestTheErrorOfAContextThatEndsWithinACallNamesThePeer(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	in, err := a.Inbox(b.Name(), 9, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	silent := weft.Name{App: "silent", Index: 7}
	for what, call := range map[string]struct {
		peer weft.Name
		do   func(context.Context) error
	}{
		"Recv":            {b.Name(), func(c context.Context) error { _, err := a.Recv(c, b.Name(), 3, nil); return err }},
		"RecvAlloc":       {b.Name(), func(c context.Context) error { _, err := a.RecvAlloc(c, b.Name(), 3, 8); return err }},
		"Probe":           {b.Name(), func(c context.Context) error { _, err := a.Probe(c, b.Name(), 3); return err }},
		"Call":            {b.Name(), func(c context.Context) error { _, err := a.Peer(b.Name()).Call(c, 3, nil, nil); return err }},
		"WaitName":        {silent, func(c context.Context) error { _, err := a.WaitName(c, silent); return err }},
		"Inbox.Next":      {b.Name(), func(c context.Context) error { _, err := in.Next(c); return err }},
		"Inbox.Next done": {b.Name(), func(c context.Context) error { <-c.Done(); _, err := in.Next(c); return err }},
	} {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		err := call.do(short)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), call.peer.String()) {
			t.Errorf("%s of %v ends with %v; expected %v with the name", what, call.peer, err, context.DeadlineExceeded)
		}
	}
}
