package sim_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// The error of a failed run says how to repeat the run. The same seed gives the same run, to the
// nanosecond.
func ExampleFailure() {
	run := func(seed uint64) (failure *sim.Failure) {
		f := sim.New(sim.Config{Seed: seed, NICs: 2, Faults: sim.Faults{Loss: 0.3}})
		f.Process(0, "receiver/0", func(p *sim.Process) error {
			_, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, make([]byte, 4))
			return err
		})
		f.Process(1, "sender/0", func(p *sim.Process) error {
			ctx, receiver := context.Background(), weft.Name{App: "receiver"}
			if _, err := p.WaitName(ctx, receiver); err != nil {
				return err
			}
			return p.Send(ctx, receiver, 0, []byte("too long"))
		})
		errors.As(f.Run(time.Minute), &failure)
		return failure
	}
	first := run(4711)
	fmt.Println("truncated:", errors.Is(first, weft.ErrTruncated))
	fmt.Println("replay:", first.Replay)
	again := run(first.Seed)
	fmt.Println("at the same time:", again.At == first.At)
	fmt.Println("another seed differs:", run(4712).At != first.At)
	// Output:
	// truncated: true
	// replay: WEFT_SIM_SEED=4711 go test -run NAME
	// at the same time: true
	// another seed differs: true
}
