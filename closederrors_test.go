//go:build unix

package weft_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/program"
)

// plainErrors lists the methods whose error belongs to no operation.
var plainErrors = map[string]string{
	"Runtime.Sleep": "returns ctx's error",
	"Gate.Wait":     "returns ctx's error",
	"NIC.AddNode":   "is no operation of a process", "NIC.RemoveNode": "is no operation of a process",
	"NIC.Nodes": "is no operation of a process", "NIC.Attach": "makes a process",
}

// stillWorks lists the methods that succeed on a closed process.
var stillWorks = map[string]string{
	"Process.Close": "does nothing again", "NIC.Close": "does nothing again", "Port.Close": "releases a number",
	"Region.Close": "releases the memory", "Share.Close": "does nothing again", "Group.Close": "does nothing again",
	"SharedSegment.Close": "releases the memory", "Runtime.Sleep": "needs no NIC", "Gate.Wait": "needs no NIC",
}

// closedWorld holds a closed process and all objects that it made.
type closedWorld struct {
	receivers []any
	functions map[string]any
	arguments map[reflect.Type]any
}

func newClosedWorld(t *testing.T, ctx context.Context, p, q *weft.Process) *closedWorld {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	region, err := p.Alloc(64)
	must(err)
	share, err := region.Share(0, 8, weft.ReadWrite)
	must(err)
	theirs, err := q.Alloc(64)
	must(err)
	group, err := p.Join(ctx, "alone", 1)
	must(err)
	port, err := p.Port(7)
	must(err)
	in, err := p.Inbox(weft.AnyProcess, 9, 8)
	must(err)
	segment, err := p.SharedSegment(1, 64)
	must(err)
	op := new(weft.Op)
	must(p.StartRecv(op, q.Name(), 3, make([]byte, 8)))
	must(q.Send(ctx, p.Name(), 4, nil))
	go q.Peer(p.Name()).Call(ctx, 5, nil, nil)
	call, err := p.Recv(ctx, q.Name(), 5, nil)
	must(err)
	file, err := os.CreateTemp(t.TempDir(), "file")
	must(err)
	must(file.Truncate(8192))
	open := p.Runtime().NewGate()
	open.Open()
	w := &closedWorld{arguments: map[reflect.Type]any{}}
	w.receivers = []any{p, port, p.Peer(q.Name()), p.PeerAt(q.Address()), port.Peer(q.Name()), group, in, op, p.Watch(),
		region, share, segment, p.Runtime(), open, program.On(p), p.NIC()}
	w.functions = map[string]any{"Reduce": weft.Reduce[int64], "AllReduce": weft.AllReduce[float64]}
	for _, x := range []any{q.Name(), q.Address(), weft.Tag(1), call, theirs.Handle(), make([]byte, 8), [][]byte{make([]byte, 8)},
		[]weft.Name{q.Name()}, group, []int64{1}, []float64{1}, func() bool { return false }, func() {}, file, uint16(8), int(1),
		int64(0), uint32(2), program.Address{ID: 1}, []weft.NICID{0}, "name", weft.Node{Addr: "127.0.0.1:1"}} {
		w.arguments[reflect.TypeOf(x)] = x
	}
	w.arguments[reflect.TypeFor[context.Context]()] = ctx
	t.Cleanup(func() { in.Close(); file.Close() })
	return w
}

// call calls a function with arguments that an open process accepts, and returns its error.
func (w *closedWorld) call(f reflect.Value) error {
	var in []reflect.Value
	for i := range f.Type().NumIn() {
		of := f.Type().In(i)
		switch x, ok := w.arguments[of]; {
		// A new one for each call.
		case of.Kind() == reflect.Pointer && strings.HasSuffix(of.Elem().Name(), "Op"):
			in = append(in, reflect.New(of.Elem()))
		case ok:
			in = append(in, reflect.ValueOf(x))
		default:
			in = append(in, reflect.Zero(of))
		}
	}
	call := f.Call
	if f.Type().IsVariadic() {
		call = f.CallSlice
	}
	out := call(in)
	err, _ := out[len(out)-1].Interface().(error)
	if all := out[0]; all.Kind() == reflect.Func { // an iterator that ends with the error
		for _, e := range all.Seq2() {
			err, _ = e.Interface().(error)
		}
	}
	return err
}

// returnsError reports whether a function returns an error, or an iterator over errors.
func returnsError(f reflect.Type) bool {
	n := f.NumOut()
	return n > 0 && (f.Out(n-1) == reflect.TypeFor[error]() || f.Out(0).Kind() == reflect.Func && f.Out(0).CanSeq2())
}

// The test covers every method, and so also a method that is added later.
func TestEveryErrorOfAClosedProcessIsPublic(t *testing.T) {
	ctx, p, q := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	w := newClosedWorld(t, ctx, p, q)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	looked := 0
	look := func(name string, f reflect.Value) {
		looked++
		err := w.call(f)
		if stillWorks[name] != "" {
			if err != nil {
				t.Errorf("%s of a closed process: %v; expected success", name, err)
			}
			return
		}
		if !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s of a closed process: %v; expected %v", name, err, weft.ErrClosed)
		}
		mustBePublic(t, name, err)
	}
	for _, of := range w.receivers {
		v := reflect.ValueOf(of)
		for i := range v.NumMethod() {
			if name := reflect.Indirect(v).Type().Name() + "." + v.Type().Method(i).Name; returnsError(v.Method(i).Type()) && !closes(name) {
				look(name, v.Method(i))
			}
		}
	}
	for name, f := range w.functions {
		look(name, reflect.ValueOf(f))
	}
	for _, of := range w.receivers { // last, because Close ends objects that other methods use
		if v := reflect.ValueOf(of); v.MethodByName("Close").IsValid() && v.MethodByName("Close").Type().NumOut() == 1 {
			look(reflect.Indirect(v).Type().Name()+".Close", v.MethodByName("Close"))
		}
	}
	if looked < 100 {
		t.Errorf("looked at %d methods; the search must be broken", looked)
	}
}

func closes(method string) bool { return strings.HasSuffix(method, ".Close") }

// mustBePublic checks that users can take an error apart by the public types and errors.
func mustBePublic(t *testing.T, name string, err error) {
	t.Helper()
	var op *weft.OpError
	var group *weft.GroupError
	if !errors.As(err, &op) && !errors.As(err, &group) && plainErrors[name] == "" {
		t.Errorf("%s: %T %v; expected an OpError or a GroupError", name, err, err)
	}
	var half *proc.OpError
	var halfGroup *proc.GroupError
	if errors.As(err, &half) || errors.As(err, &halfGroup) {
		t.Errorf("%s: %v shows an error of an internal package", name, err)
	}
}

// If the context has ended, every operation also fails with an error of this package.
func TestEveryErrorOfAnEndedContextIsPublic(t *testing.T) {
	ctx, p, q := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	w := newClosedWorld(t, ctx, p, q)
	over, cancel := context.WithCancel(ctx)
	cancel()
	w.arguments[reflect.TypeFor[context.Context]()] = over
	looked := 0
	for _, of := range w.receivers {
		v := reflect.ValueOf(of)
		for i := range v.NumMethod() {
			m := v.Type().Method(i)
			name := reflect.Indirect(v).Type().Name() + "." + m.Name
			if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() || !returnsError(v.Method(i).Type()) {
				continue
			}
			looked++
			if err := w.call(v.Method(i)); err != nil {
				mustBePublic(t, name, err)
			} else if evenThen[name] == "" {
				t.Errorf("%s succeeds with a context that has ended", name)
			}
		}
	}
	if looked < 50 {
		t.Errorf("looked at %d methods; the search must be broken", looked)
	}
}
