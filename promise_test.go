package weft_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

func TestACallWithAnEndedContextDoesNothing(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	region, err := b.Alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	in, err := a.Inbox(weft.AnyProcess, 9, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := b.Send(ctx, a.Name(), 3, []byte("stays")); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	g, err := a.Join(ctx, "alone", 1)
	if err != nil {
		t.Fatal(err)
	}
	buf, nobody, toB := make([]byte, 8), weft.Name{App: "nobody"}, a.Peer(b.Name())
	calls := map[string]func() error{
		"Send to an unknown name":          func() error { return a.Send(over, nobody, 1, buf) },
		"SendDelivered to an unknown name": func() error { return a.Peer(nobody).SendDelivered(over, 1, buf) },
		"Call to an unknown name":          func() error { _, err := a.Peer(nobody).Call(over, 1, buf, buf); return err },
		"Send":                             func() error { return a.Send(over, b.Name(), 1, buf) },
		"SendMany":                         func() error { _, err := toB.SendMany(over, 1, [][]byte{buf, buf}); return err },
		"SendDelivered":                    func() error { return toB.SendDelivered(over, 1, buf) },
		"Multicast":                        func() error { return a.Multicast(over, []weft.Name{b.Name()}, 1, buf) },
		"Recv":                             func() error { _, err := a.Recv(over, weft.AnyProcess, 3, buf); return err },
		"Call":                             func() error { _, err := toB.Call(over, 1, buf, buf); return err },
		"Reply":                            func() error { return a.Reply(over, weft.Message{}) },
		"Put":                              func() error { return a.Put(over, region.Handle(), 0, []byte("!")) },
		"Get":                              func() error { return a.Get(over, region.Handle(), 0, buf) },
		"WaitName":                         func() error { _, err := a.WaitName(over, b.Name()); return err },
		"SendDatagram":                     func() error { return a.PeerAt(b.Address()).SendDatagram(over, 1, buf) },
		"RecvDatagram":                     func() error { _, err := a.RecvDatagram(over, 1, buf); return err },
		"Next":                             func() error { _, err := in.Next(over); return err },
		"AppGroup":                         func() error { _, err := a.AppGroup(over); return err },
		"WaitUntil":                        func() error { return a.Runtime().WaitUntil(over, func() bool { return true }) },
		"Join":                             func() error { _, err := a.Join(over, "g", 1); return err },
		"Barrier":                          func() error { return g.Barrier(over) },
		"Attach": func() error {
			_, err := weft.Attach(over, weft.AttachConfig{Name: weft.Name{App: "x"}, Socket: filepath.Join(t.TempDir(), "none")})
			return err
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v; expected %v", name, err, context.Canceled)
		}
	}
	if err := toB.SendDelivered(ctx, 2, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if m, err := b.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf); err != nil || m.Tag != 2 {
		t.Errorf("what came first has tag %d, %v; expected 2", m.Tag, err)
	}
	if err := g.Barrier(ctx); err != nil {
		t.Errorf("a group that a barrier with an ended context has left alone: %v", err)
	}
	if region.Bytes()[0] != 0 {
		t.Error("a PUT with an ended context has written")
	}
	if m, err := a.Recv(ctx, weft.AnyProcess, 3, buf); err != nil || m.Len != 5 {
		t.Errorf("what a receive with an ended context has left: %d bytes, %v; expected 5", m.Len, err)
	}
}

func TestAnOrderlyEndIsToldApartFromSilence(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	events := a.Watch()
	defer events.Close()
	buf := make([]byte, 8)
	if err := b.Peer(a.Name()).SendDelivered(ctx, 1, buf); err != nil { // a itself never sends
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []weft.EventKind{weft.EventProcessGone, weft.EventClosed} {
		e, err := events.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != kind || e.Addr.NIC != b.Address().NIC || kind == weft.EventProcessGone && e.Name != b.Name() {
			t.Errorf("event %v; expected that the process is gone, and then that its NIC was closed", e)
		}
	}
}

func TestAttachSaysThatThereIsNoDaemon(t *testing.T) {
	_, err := weft.Attach(t.Context(), weft.AttachConfig{Name: weft.Name{App: "x"}, Socket: filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, weft.ErrNoDaemon) {
		t.Errorf("%v; expected %v", err, weft.ErrNoDaemon)
	}
}

func TestANodeThatIsDownIsKnownUntilItIsRemoved(t *testing.T) {
	_, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()})) // b's configuration lists a
	node := weft.Node{ID: a.NIC().ID(), Addr: a.NIC().Addr()}
	known := func() (up, all bool) {
		l, err := b.NIC().Nodes()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range l {
			if s.Node == node {
				up, all = s.Up, true
			}
		}
		return up, all
	}
	becomes := func(wantUp, wantAll bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			up, all := known()
			if up == wantUp && all == wantAll {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("up %v, known %v; expected %v, %v", up, all, wantUp, wantAll)
			}
		}
	}
	becomes(true, true)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	becomes(false, true)
	time.Sleep(50 * time.Millisecond)
	if _, all := known(); !all {
		t.Fatal("a node that is down was forgotten though it was not removed")
	}
	if err := b.NIC().RemoveNode(node); err != nil {
		t.Fatal(err)
	}
	becomes(false, false)
}

// No start form that uses a given Op allocates memory.
func TestTheIntoFormsAllocateNothing(t *testing.T) { // P12
	if testing.Short() {
		t.Skip("short runs may be for the race detector, with which system calls allocate")
	}
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	region, err := b.Alloc(8 << 10)
	if err != nil {
		t.Fatal(err)
	}
	h, name, buf, in := region.Handle(), b.Name(), make([]byte, 4<<10), make([]byte, 4<<10)
	var op, received weft.Op
	wait := func(o *weft.Op, err error) {
		if err == nil {
			_, err = o.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	forms := map[string]func(){
		"StartPut": func() { wait(&op, a.StartPut(&op, h, 8, buf)) },
		"StartGet": func() { wait(&op, a.StartGet(&op, h, 8, buf)) },
		"StartSendDelivered": func() {
			if err := b.StartRecv(&received, a.Name(), 1, in); err != nil {
				t.Fatal(err)
			}
			wait(&op, a.Peer(name).StartSendDelivered(&op, 1, buf))
			wait(&received, nil)
		},
	}
	for form, use := range forms {
		if got := steadyAllocs(use); got != 0 {
			t.Errorf("%s: %v allocations", form, got)
		}
	}
}
