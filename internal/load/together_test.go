package load_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/weftnet/weft/internal/load"
)

func TestAllHaveRunWhenRunReturns(t *testing.T) {
	var ran atomic.Int32
	err := load.Together(t.Context(), 10, func(context.Context, int) error { ran.Add(1); return nil })
	if err != nil || ran.Load() != 10 {
		t.Errorf("%d of 10 have run; error %v", ran.Load(), err)
	}
}

func TestTheFirstErrorEndsTheOthersAndIsReturned(t *testing.T) {
	broken := errors.New("broken")
	err := load.Both(t.Context(),
		func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		func(context.Context) error { return broken })
	if err != broken {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestTheEndOfTheContextReachesAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := load.Together(ctx, 3, func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
