package daemon_test

import (
	"errors"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/program"
)

// controlCalls returns the calls of a process that send its daemon a request over the socket.
func controlCalls(t *testing.T, p *weft.Process) map[string]func() error {
	return map[string]func() error{
		"AppGroup":        func() error { _, err := p.AppGroup(t.Context()); return err },
		"Alloc":           func() error { _, err := p.Alloc(100); return err },
		"Segment":         func() error { _, err := p.SharedSegment(3, 100); return err },
		"Programs().List": func() error { _, err := program.On(p).List(t.Context(), 0); return err },
		"Programs().Unload": func() error {
			return program.On(p).Unload(t.Context(), program.Address{ID: 7})
		},
		"Programs().Load": func() error {
			_, err := program.On(p).Load(t.Context(), []weft.NICID{0}, []byte("module"), program.Options{})
			return err
		},
	}
}

func TestControlCallsOfAClosedProcessFailWithErrClosed(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	p := mustAttach(t, c, "p/0")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for what, call := range controlCalls(t, p) {
		if err := call(); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("%s: %v; expected %v", what, err, weft.ErrClosed)
		}
	}
}

func TestControlCallsFailWithErrNICGoneWhenTheDaemonIsGone(t *testing.T) {
	c := configs(t, 1)[0]
	victim := child(t, "daemon", marshal(t, c))
	p := mustAttach(t, c, "p/0")
	r, err := p.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // killed
	calls := controlCalls(t, p)
	calls["Share"] = func() error { _, err := r.Share(0, 1, weft.ReadOnly); return err }
	for what, call := range calls {
		if err := call(); !errors.Is(err, weft.ErrNICGone) {
			t.Errorf("%s: %v; expected %v", what, err, weft.ErrNICGone)
		}
	}
}

func TestReceivesUnderWayAtADaemonAreAsManyAsContexts(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	p := mustAttach(t, c, "p/0")
	for i := range limits.Contexts {
		if err := p.StartRecv(new(weft.Op), weft.AnyProcess, 1, nil); err != nil {
			t.Fatalf("receive %d: %v", i, err)
		}
	}
	if err := p.StartRecv(new(weft.Op), weft.AnyProcess, 1, nil); !errors.Is(err, weft.ErrQueueFull) {
		t.Errorf("one more: %v; expected %v", err, weft.ErrQueueFull)
	}
	if _, _, err := p.TryProbe(t.Context(), weft.AnyProcess, 2); !errors.Is(err, weft.ErrQueueFull) {
		t.Errorf("a probe that does not wait: %v; expected %v", err, weft.ErrQueueFull)
	}
}
