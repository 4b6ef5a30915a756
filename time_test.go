package weft_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// timely is code that uses only a *weft.Process. It must run in the same way in real time and in
// virtual time.
func timely(p *weft.Process) error {
	ctx, rt := context.Background(), p.Runtime()
	begun := rt.Now()
	if err := rt.Sleep(ctx, 5*time.Millisecond); err != nil {
		return err
	}
	if d := rt.Now().Sub(begun); d < 5*time.Millisecond {
		return errors.New("Sleep ended early")
	}
	short, cancel := rt.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := rt.Sleep(short, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		return errors.New("Sleep outlived its context")
	}
	if err := rt.WaitUntil(short, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		return errors.New("WaitUntil outlived its context")
	}
	var done atomic.Int32
	for range 3 {
		rt.Go(func() {
			_ = rt.Sleep(ctx, time.Millisecond)
			done.Add(1)
			rt.Wake()
		})
	}
	return rt.WaitUntil(ctx, func() bool { return done.Load() == 3 })
}

func TestCodeThatAsksAProcessForTheTimeRunsInRealTime(t *testing.T) {
	ctx, p, _ := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	if err := timely(p); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- p.Runtime().WaitUntil(ctx, func() bool { return false }) }()
	time.Sleep(10 * time.Millisecond)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a wait of a process that is closed ended with %v", err)
	}
	if err := p.Runtime().WaitUntil(ctx, func() bool { return true }); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a wait after the end of the process ended with %v", err)
	}
}

func TestCodeThatAsksAProcessForTheTimeRunsInVirtualTime(t *testing.T) {
	for seed := range uint64(50) {
		f := sim.New(sim.Config{Seed: seed, NICs: 1})
		f.Process(0, "a/0", func(p *sim.Process) error {
			if err := timely(p.Weft()); err != nil {
				return err
			}
			return p.Weft().Runtime().Sleep(context.Background(), 24*time.Hour)
		})
		if err := f.Run(48 * time.Hour); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
