package weft_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// Each of these tests covers a problem that stopped a new user.

func TestNICsOnASwitchKnowOneAnother(t *testing.T) {
	sw := weft.NewSwitch()
	open := func(app string) *weft.Process {
		p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: app}, Link: sw.Link()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	gone := open("gone")
	if err := gone.Close(); err != nil { // its port is no longer on the switch
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := []*weft.Process{open("a"), open("b"), open("c")}
	for _, p := range all {
		for _, q := range all {
			if _, err := p.WaitName(ctx, q.Name()); err != nil {
				t.Errorf("%v does not know %v: %v", p.Name(), q.Name(), err)
			}
		}
		if nodes, err := p.NIC().Nodes(); err != nil || len(nodes) > len(all) {
			t.Errorf("%v knows %d NICs, %v", p.Name(), len(nodes), err)
		}
	}
}

func TestAForgottenNewSwitchIsNoLinkToTheNetwork(t *testing.T) {
	for what, sw := range map[string]*weft.Switch{"nil": nil, "zero": new(weft.Switch)} {
		p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: sw.Link()})
		if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "NewSwitch") {
			t.Errorf("a NIC on a %s switch: %v, %v", what, p, err)
		}
	}
}

func TestAWaitForANameSaysThatTheNICIsAlone(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for what, wait := range map[string]func(ctx context.Context) error{
		"WaitName": func(ctx context.Context) error { _, err := p.WaitName(ctx, weft.Name{App: "b"}); return err },
		"Join":     func(ctx context.Context) error { _, err := p.Join(ctx, "both", 2); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err := wait(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Config.Nodes") {
			t.Errorf("%s: %v; expected a timeout that names Config.Nodes", what, err)
		}
	}
}

func TestErrorsAndGroupsOfNothingHaveText(t *testing.T) {
	if s := (&weft.OpError{Op: "send"}).Error(); s != "weft: send" {
		t.Errorf("an OpError without a cause is %q", s)
	}
	if s := new(weft.Group).String(); s != "no group" {
		t.Errorf("the zero Group is %q", s)
	}
}

func TestAnInboxWritesTheSenderWhateverTheMessageHeld(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in, err := p.Inbox(weft.AnyProcess, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var m weft.Message
	for i, before := range []weft.Message{{}, {From: weft.Name{App: "b"}, Addr: p.Address()}, {From: weft.Name{App: "a", Index: 9}, Addr: p.Address()}, {Addr: p.Address()}} {
		if err := p.Send(t.Context(), p.Name(), 1, []byte("x")); err != nil {
			t.Fatal(err)
		}
		m = before
		if err := in.NextInto(t.Context(), &m); err != nil || m.From != p.Name() || m.Addr != p.Address() || string(m.Data) != "x" {
			t.Errorf("message %d is from %v at %v with %q, %v", i, m.From, m.Addr, m.Data, err)
		}
	}
}

func TestAMulticastToNobodyLooksAtItsTagAndItsProcess(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Multicast(t.Context(), nil, weft.MaxTag+1); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "tag") {
		t.Errorf("with a tag that is too large: %v", err)
	}
	if err := p.Multicast(t.Context(), nil, 1); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "expected 1 to") {
		t.Errorf("to nobody: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Multicast(t.Context(), nil, 1); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("of a closed process: %v", err)
	}
}

func TestAnErrorOfAPeerMadeFromAnAddressHasThatAddress(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	q, err := p.NIC().Attach(t.Context(), weft.Name{App: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	var op weft.Op
	peer := p.PeerAt(q.Address())
	for what, send := range map[string]func() error{
		"Send":          func() error { return peer.Send(t.Context(), 1) },
		"SendDelivered": func() error { return peer.SendDelivered(t.Context(), 1) },
		"StartSendDelivered": func() error {
			if err := peer.StartSendDelivered(&op, 1); err != nil {
				return err
			}
			_, err := op.Wait(t.Context())
			return err
		},
		"Recv": func() error { _, err := peer.Recv(t.Context(), 1, nil); return err },
	} {
		var failed *weft.OpError
		if err := send(); !errors.As(err, &failed) || !errors.Is(err, weft.ErrProcessGone) || failed.Addr != q.Address() {
			t.Errorf("%s to a process that has ended: %v, at %v; expected %v at %v", what, err, failed.Addr, weft.ErrProcessGone, q.Address())
		}
	}
}
