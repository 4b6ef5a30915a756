package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
)

// hogPlan is a program that computes on one processor, like a service that shares its machine.
// It never waits, so the kernel takes the processor from it for woken threads.
type hogPlan struct{}

// run computes until in ends.
func (hogPlan) run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx = EndWithInput(ctx, in)
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	runtime.LockOSThread()
	x := uint64(1)
	for ctx.Err() == nil {
		for range 1 << 16 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
	}
	_, err := fmt.Fprintln(out, x) // so the compiler keeps the loop
	return err
}
