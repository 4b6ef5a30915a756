// Command simulation runs an application on a simulated fabric, on virtual time. The network
// loses, repeats and damages frames, and a partition cuts the server off for five seconds. The
// application, serve and ask, does not know that it is simulated. The same seed gives the same
// run.
//
//	go run ./examples/simulation
//
// It prints:
//
//	seed 1: 300 calls answered, 5 s of virtual time
//	seed 2: 300 calls answered, 5 s of virtual time
//	seed 3: 300 calls answered, 5 s of virtual time
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

var echo = weft.Name{App: "echo"}

func main() {
	for seed := uint64(1); seed <= 3; seed++ {
		if err := simulate(seed); err != nil {
			log.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func simulate(seed uint64) error {
	answered := 0
	f := sim.New(sim.Config{
		Seed:   seed,
		NICs:   3,
		Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05, Corrupt: 0.02},
	})
	f.Serve(0, echo.String(), func(p *sim.Process) error { return serve(context.Background(), p.Weft()) })
	for i := range 2 {
		f.Process(1+i, fmt.Sprintf("client/%d", i), func(p *sim.Process) error {
			return ask(context.Background(), p.Weft(), 150, &answered)
		})
	}
	f.After(time.Millisecond, func() {
		heal := f.Partition(0)
		f.After(5*time.Second, heal)
	})
	if err := f.Run(time.Hour); err != nil {
		return err
	}
	fmt.Printf("seed %d: %d calls answered, %.0f s of virtual time\n", seed, answered, f.Elapsed().Seconds())
	return nil
}

// serve echoes requests until the simulation ends.
func serve(ctx context.Context, p *weft.Process) error {
	buf := make([]byte, 64)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
		if err != nil {
			return err
		}
		_ = p.Reply(ctx, m, buf[:m.Len]) // a failed Reply affects only its caller, which asks again
	}
}

// ask makes calls, and retries each until it succeeds. A failed call was executed once or not at
// all, so a retry may execute it twice. For an echo that is harmless.
func ask(ctx context.Context, p *weft.Process, calls int, answered *int) error {
	server, reply := p.Peer(echo), make([]byte, 64)
	for range calls {
		for {
			_, err := p.WaitName(ctx, echo)
			if err == nil {
				_, err = server.Call(ctx, 0, []byte("hello"), reply)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, weft.ErrUnreachable) && !errors.Is(err, weft.ErrNameUnknown) {
				return err
			}
		}
		*answered++
	}
	return nil
}
