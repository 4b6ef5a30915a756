package parallel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
)

// When a machine has failed, its ranks close it, and make another one over the same group. Late
// messages of the first machine must not reach the other one.
func TestAnotherMachineOverTheSameGroup(t *testing.T) {
	for seed := range uint64(20) {
		f := sim.New(sim.Config{Seed: seed, NICs: 3, Faults: sim.Faults{Loss: 0.1, Duplicate: 0.05, Reorder: 0.2}})
		for i := range 3 {
			f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
				return tried(func(*Machine) error {
					ctx := context.Background()
					g := must(p.Join(ctx, "m", 3))
					for k := range 4 {
						m := must(On(ctx, p.Weft(), g))
						var err error
						for n := 0; err == nil && n < 20; n++ {
							pause(p)
							if n == 5 && k%2 == 0 && i == k/2 {
								err = sumsOf(m, 41) // the other ranks use 40
							} else {
								err = sumsOf(m, 40)
							}
						}
						if k%2 == 1 {
							must(0, err)
							must(0, m.Close())
							continue
						}
						if !errors.Is(err, ErrMismatch) {
							return fmt.Errorf("machine %d, rank %d: %w; expected a mismatch with rank %d", k, i, err, k/2)
						}
						must(0, m.Close())
					}
					return nil
				}, nil)
			})
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Errorf("seed %d: %.500v", seed, err)
		}
	}
}
