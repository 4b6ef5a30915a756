package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// peerOperations calls all operations of a Peer that name a receiver, and returns their errors.
func peerOperations(ctx context.Context, r weft.Peer, h weft.Handle) map[string]error {
	msg, buf := []byte("message"), make([]byte, 8)
	all := make(map[string]error)
	all["Send"] = r.Send(ctx, 1, msg)
	all["Alive"] = r.Alive(ctx)
	_, all["SendMany"] = r.SendMany(ctx, 1, [][]byte{msg, msg})
	_, all["SendMany of nothing"] = r.SendMany(ctx, 1, nil)
	all["SendDelivered"] = r.SendDelivered(ctx, 1, msg)
	_, all["Call"] = r.Call(ctx, 1, msg, buf)
	all["SendDatagram"] = r.SendDatagram(ctx, 1, msg)
	all["StartSend"] = r.StartSend(new(weft.Op), 1, msg)
	all["StartSendDelivered"] = r.StartSendDelivered(new(weft.Op), 1, msg)
	all["StartSendDatagram"] = r.StartSendDatagram(new(weft.Op), 1, msg)
	all["Put"] = r.Put(ctx, h, 0, msg)
	all["Get"] = r.Get(ctx, h, 0, buf)
	all["StartPut"] = r.StartPut(new(weft.Op), h, 0, msg)
	all["StartGet"] = r.StartGet(new(weft.Op), h, 0, buf)
	return all
}

// peerReceives calls the operations that are valid with AnyProcess.
func peerReceives(ctx context.Context, r weft.Peer) map[string]error {
	all := make(map[string]error)
	_, all["Recv"] = r.Recv(ctx, 1, nil)
	all["StartRecv"] = r.StartRecv(new(weft.Op), 1, nil)
	return all
}

func TestAPeerThatCannotBeFailsInEachOperation(t *testing.T) {
	ctx, p, q := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	region, err := q.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	port, err := p.Port(7)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		peer weft.Peer
		says string
		any  bool
	}{
		{"the zero Peer", weft.Peer{}, "expected one of Process.Peer or Process.PeerAt", false},
		{"AnyProcess", p.Peer(weft.AnyProcess), "expected the name of a receiver", true},
		{"AnyProcess of a port", port.Peer(weft.AnyProcess), "expected the name of a receiver", true},
		{"a malformed name", p.Peer(weft.Name{App: "Bad Name", Index: 3}), "expected an application of 1 to 24 bytes", false},
		{"a name without an application", p.Peer(weft.Name{Index: 3}), "expected an application of 1 to 24 bytes", false},
		{"a long name", p.Peer(weft.Name{App: strings.Repeat("x", 25)}), "expected at most 24", false},
		{"the zero Address", p.PeerAt(weft.Address{}), "expected the address of a process", false},
		{"the address of a NIC", port.PeerAt(weft.Address{NIC: q.Address().NIC}), "expected the address of a process", false},
	} {
		errs := peerOperations(ctx, c.peer, region.Handle())
		if !c.any {
			for what, err := range peerReceives(ctx, c.peer) {
				errs[what] = err
			}
		}
		for what, err := range errs {
			var op *weft.OpError
			if !errors.Is(err, weft.ErrBadArgument) || !errors.As(err, &op) {
				t.Errorf("%s of %s: %v; expected an OpError with %v", what, c.what, err, weft.ErrBadArgument)
			} else if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %s fails with %q; expected it to say %q", what, c.what, err, c.says)
			}
		}
		if c.peer.TrySend(1, []byte("message")) {
			t.Errorf("TrySend to %s reports a message on its way", c.what)
		}
		if s := fmt.Sprint(c.peer, c.peer.Name()); s == "" {
			t.Errorf("%s prints as nothing", c.what)
		}
	}
	for what, err := range map[string]error{
		"Send":      p.Send(ctx, weft.AnyProcess, 1),
		"Multicast": p.Multicast(ctx, []weft.Name{q.Name(), weft.AnyProcess}, 1),
		"WaitName":  func() error { _, err := p.WaitName(ctx, weft.Name{App: "Bad"}); return err }(),
		"Inbox":     func() error { _, err := p.Inbox(weft.Name{App: "Bad"}, 1, 0); return err }(),
		"Probe":     func() error { _, err := p.Probe(ctx, weft.Name{App: "Bad"}, 1); return err }(),
		"TryProbe":  func() error { _, _, err := p.TryProbe(ctx, weft.Name{App: "Bad"}, 1); return err }(),
		"RecvAlloc": func() error { _, err := p.RecvAlloc(ctx, weft.Name{App: "Bad"}, 1, 8); return err }(),
		"StartRecv": p.StartRecv(new(weft.Op), weft.Name{App: "Bad"}, 1, nil),
	} {
		var op *weft.OpError
		if !errors.Is(err, weft.ErrBadArgument) || !errors.As(err, &op) || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%s of a process: %v; expected an OpError with %v that says what was expected", what, err, weft.ErrBadArgument)
		}
	}
}

// handleOperations calls the operations of a Peer that take a Handle, and waits for their results.
func handleOperations(ctx context.Context, r weft.Peer, h weft.Handle) map[string]error {
	ended := func(op *weft.Op, err error) error {
		if err == nil {
			_, err = op.Wait(ctx)
		}
		return err
	}
	var put, get weft.Op
	return map[string]error{
		"Put":      r.Put(ctx, h, 0, []byte("message")),
		"Get":      r.Get(ctx, h, 0, make([]byte, 8)),
		"StartPut": ended(&put, r.StartPut(&put, h, 0, []byte("message"))),
		"StartGet": ended(&get, r.StartGet(&get, h, 0, make([]byte, 8))),
	}
}

func mustAll(t *testing.T, what string, errs map[string]error, is error) {
	t.Helper()
	for op, err := range errs {
		if !errors.Is(err, is) {
			t.Errorf("%s %s: %v; expected %v", op, what, err, is)
		}
	}
}

func TestAPeerReachesOnlyItsOwnRegions(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	own, err := b.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	third, err := a.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	port, err := a.Port(7)
	if err != nil {
		t.Fatal(err)
	}
	for what, peer := range map[string]weft.Peer{
		"by name": a.Peer(b.Name()), "by address": a.PeerAt(b.Address()),
		"by name of a port": port.Peer(b.Name()), "by address of a port": port.PeerAt(b.Address()),
	} {
		for range 2 { // the second time the name is known
			mustAll(t, what+" with the handle of another process", handleOperations(ctx, peer, third.Handle()), weft.ErrBadArgument)
			mustAll(t, what+" with the zero handle", handleOperations(ctx, peer, weft.Handle{}), weft.ErrBadArgument)
			mustAll(t, what, handleOperations(ctx, peer, own.Handle()), nil)
		}
	}
	if string(own.Bytes()[:7]) != "message" || third.Bytes()[0] != 0 {
		t.Errorf("the regions hold %q and %q", own.Bytes()[:7], third.Bytes()[:7])
	}
	err = a.Peer(b.Name()).Put(ctx, third.Handle(), 0, nil)
	if err == nil || !strings.Contains(err.Error(), "expected one of this peer") {
		t.Errorf("a PUT by the handle of another process says %v", err)
	}
	nobody := a.Peer(weft.Name{App: "nobody"})
	for what, err := range map[string]error{
		"StartPut": nobody.StartPut(new(weft.Op), own.Handle(), 0), "StartGet": nobody.StartGet(new(weft.Op), own.Handle(), 0, nil),
	} {
		if !errors.Is(err, weft.ErrNameUnknown) {
			t.Errorf("%s of a name that no process has: %v; expected %v", what, err, weft.ErrNameUnknown)
		}
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := nobody.Put(short, own.Handle(), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a PUT to a name that no process has: %v; expected %v", err, context.DeadlineExceeded)
	}
}

// A name may pass to a new process. The Peer then accepts the handles of the new process, and no
// handle of the old process.
func TestAPeerFollowsItsNameToANewProcess(t *testing.T) {
	for seed := range uint64(20) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 3})
		ctx := context.Background()
		lives, host := 0, 1+int(seed%2)
		var server *sim.Process
		serve := func(p *sim.Process) error {
			lives++
			region, err := p.Alloc(64)
			if err != nil {
				return err
			}
			b, err := region.Handle().MarshalBinary()
			if err != nil {
				return err
			}
			if _, err := p.WaitName(ctx, weft.Name{App: "client"}); err != nil {
				return err
			}
			if err := p.Send(ctx, weft.Name{App: "client"}, 1, b); err != nil {
				return err
			}
			return p.Runtime().Sleep(ctx, time.Hour)
		}
		server = f.Serve(1, "server/0", serve)
		f.Process(0, "client/0", func(p *sim.Process) error {
			peer := p.Peer(weft.Name{App: "server"})
			hear := func() (h weft.Handle, from weft.Address, err error) {
				m, err := p.RecvAlloc(ctx, peer.Name(), 1, 100)
				if err != nil {
					return h, from, err
				}
				return h, m.Addr, h.UnmarshalBinary(m.Data)
			}
			old, _, err := hear()
			if err != nil {
				return err
			}
			for what, err := range handleOperations(ctx, peer, old) {
				if err != nil {
					return fmt.Errorf("%s to the first process: %w", what, err)
				}
			}
			f.Kill(server)
			if host != 1 { // wait until the other NICs know that the name is free
				if err := p.Runtime().Sleep(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
			server = f.Serve(host, "server/0", serve)
			now, at, err := hear()
			if err != nil {
				return err
			}
			for what, err := range handleOperations(ctx, peer, old) {
				if err == nil {
					return fmt.Errorf("%s by the handle of the first process succeeds", what)
				}
			}
			for what, err := range handleOperations(ctx, peer, now) {
				if err != nil {
					return fmt.Errorf("%s to the second process: %w", what, err)
				}
			}
			for what, err := range handleOperations(ctx, peer, old) {
				if !errors.Is(err, weft.ErrBadArgument) {
					return fmt.Errorf("%s by the handle of the first process: %v; expected %v", what, err, weft.ErrBadArgument)
				}
			}
			for what, err := range handleOperations(ctx, p.PeerAt(at), old) {
				if !errors.Is(err, weft.ErrBadArgument) {
					return fmt.Errorf("%s at the second process by the handle of the first: %v; expected %v", what, err, weft.ErrBadArgument)
				}
			}
			return nil
		})
		if err := f.Run(time.Minute); err != nil {
			t.Fatal(err)
		}
		if lives != 2 {
			t.Errorf("the name had %d processes; expected 2", lives)
		}
	}
}

// A datagram reaches the process by name as well as by address.
func TestADatagramGoesByNameAsByAddress(t *testing.T) {
	for what, config := range map[string]weft.Config{
		"switch": {Link: weft.NewSwitch().Link()}, "UDP": {Link: weft.UDP("127.0.0.1:0")},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, p, q := pair(t, on(config))
			for what, to := range map[string]weft.Peer{
				"by name": p.Peer(q.Name()), "by address": p.PeerAt(q.Address()),
				"to the sender by name": p.Peer(p.Name()), "to the sender by address": p.PeerAt(p.Address()),
			} {
				at := q
				if to.Name() == p.Name() || to.String() == p.Address().String() {
					at = p
				}
				for _, send := range []func(data []byte) error{
					func(data []byte) error { return to.SendDatagram(ctx, 5, data) },
					func(data []byte) error {
						var op weft.Op
						if err := to.StartSendDatagram(&op, 5, data); err != nil {
							return err
						}
						_, err := op.Wait(ctx)
						return err
					},
				} {
					mustHearDatagram(t, ctx, what, send, at, p.Name())
				}
			}
			for what, err := range map[string]error{
				"SendDatagram":      p.Peer(weft.Name{App: "nobody"}).SendDatagram(ctx, 5, []byte("x")),
				"StartSendDatagram": startedDatagram(ctx, p.Peer(weft.Name{App: "nobody"})),
			} {
				if !errors.Is(err, weft.ErrNameUnknown) {
					t.Errorf("%s to a name that no process has: %v; expected %v", what, err, weft.ErrNameUnknown)
				}
			}
		})
	}
}

func startedDatagram(ctx context.Context, to weft.Peer) error {
	var op weft.Op
	if err := to.StartSendDatagram(&op, 5, []byte("x")); err != nil {
		return err
	}
	_, err := op.Wait(ctx)
	return err
}

// sentDatagrams numbers the datagrams, so that they are distinct.
var sentDatagrams atomic.Int64

// mustHearDatagram sends datagrams until one arrives, because each may be lost.
func mustHearDatagram(t *testing.T, ctx context.Context, what string, send func([]byte) error, at *weft.Process, from weft.Name) {
	t.Helper()
	var recv weft.Op
	buf := make([]byte, 8)
	for {
		if recv.Ended() {
			if err := at.StartRecvDatagram(&recv, 5, buf); err != nil {
				t.Fatal(err)
			}
		}
		data := fmt.Sprintf("%08d", sentDatagrams.Add(1))
		if err := send([]byte(data)); err != nil {
			t.Fatalf("a datagram %s: %v", what, err)
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		m, err := recv.Wait(short)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue
		}
		if err != nil || m.From != from {
			t.Fatalf("a datagram %s comes as %+v, %v", what, m, err)
		}
		if string(buf[:m.Len]) == data { // otherwise it is an earlier datagram
			return
		}
	}
}
