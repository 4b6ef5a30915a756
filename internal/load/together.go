package load

import (
	"context"
	"sync"
)

// Together calls f(ctx, 0) … f(ctx, n-1) concurrently. It returns when all have returned, with the
// first error that any of them returned. That error cancels the context of the others.
//
//	Together ─┬─► f(0) ─► nil ──────────────┐
//	          ├─► f(1) ─► err ─► cancels ───┼─► the first error
//	          └─► f(2) ─► ctx's error ──────┘
func Together(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		all   sync.WaitGroup
		once  sync.Once
		first error
	)
	for i := range n {
		all.Go(func() {
			if err := f(ctx, i); err != nil {
				once.Do(func() { first = err })
				cancel()
			}
		})
	}
	all.Wait()
	return first
}

// Both is Together for two different functions.
func Both(ctx context.Context, a, b func(ctx context.Context) error) error {
	return Together(ctx, 2, func(ctx context.Context, i int) error {
		if i == 0 {
			return a(ctx)
		}
		return b(ctx)
	})
}
