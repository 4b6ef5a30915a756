package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

func TestAnOperationWithATimeoutThatHasPassedIsNotCarriedOut(t *testing.T) {
	f := New(Config{Seed: Seed(1)})
	f.Process(0, "self/0", func(p *Process) error {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 0)
		defer cancel()
		if err := p.Send(ctx, p.Name(), 1, []byte("late")); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the send gave %v", err)
		}
		_, found, err := p.TryProbe(context.Background(), p.Name(), 1)
		if found {
			return errors.New("the message came all the same")
		}
		return err
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// At the instant of its deadline, a context may not have ended yet. Sleeping below it lets other
// tasks run until it ends.
func TestASleepAtTheDeadlineOfItsContextLetsTheContextEnd(t *testing.T) {
	f := New(Config{Seed: Seed(1)})
	f.Process(0, "self/0", func(p *Process) error {
		const in = 10 * time.Millisecond
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), in)
		defer cancel()
		at := p.Runtime().Now().Add(in)
		for range 20 { // some of them wake before the context ends
			p.Start("sleeper", func(p *Process) error {
				sleep(p, at.Sub(p.Runtime().Now()))
				for n := 0; p.Weft().Runtime().Sleep(ctx, time.Millisecond) == nil; n++ {
					if n > 0 {
						return errors.New("a sleep at the deadline of its context ends, and the context does not")
					}
				}
				return nil
			})
		}
		sleep(p, 2*in)
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestAnOperationBelowARealDeadlineIsRefused(t *testing.T) {
	f := New(Config{Seed: Seed(1)})
	f.Process(0, "self/0", func(p *Process) error {
		real, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		ctx, cancelVirtual := p.Runtime().WithTimeout(real, time.Second)
		defer cancelVirtual()
		_, err := p.Recv(ctx, weft.AnyProcess, 1, nil)
		if err == nil || !strings.Contains(err.Error(), "the context has a real deadline") {
			return fmt.Errorf("the receive gave %v", err)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
