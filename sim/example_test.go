package sim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// The application knows nothing of package sim: serve and ask run on any *weft.Process.

var counter = weft.Name{App: "counter"}

// serve counts the requests of each client. A client numbers its requests and repeats each failed
// request, so serve counts each number once.
func serve(ctx context.Context, p *weft.Process, total *int) error {
	counted := make(map[weft.Name]uint64) // the last number of each client
	request := make([]byte, 8)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, request)
		if err != nil {
			return err
		}
		if n := binary.LittleEndian.Uint64(request); n > counted[m.From] {
			counted[m.From] = n
			*total++
		}
		_ = p.Reply(ctx, m) // a failed Reply affects only its caller, which asks again
	}
}

// ask sends request number n until the server has answered it.
func ask(ctx context.Context, p *weft.Process, n uint64) error {
	request := binary.LittleEndian.AppendUint64(nil, n)
	for {
		_, err := p.WaitName(ctx, counter)
		if err == nil {
			_, err = p.Peer(counter).Call(ctx, 0, request, nil)
		}
		if !errors.Is(err, weft.ErrUnreachable) && !errors.Is(err, weft.ErrNameUnknown) {
			return err
		}
	}
}

// simulate runs a server and two clients. The network loses, repeats and damages frames, and after
// 20 ms it cuts the server off for 5 s, which is longer than NICs wait.
func simulate(seed uint64) (total int, err error) {
	ctx := context.Background() // a simulation refuses a real deadline
	f := sim.New(sim.Config{
		Seed:   seed,
		NICs:   3,
		Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05, Corrupt: 0.02},
	})
	f.Serve(0, counter.String(), func(p *sim.Process) error { return serve(ctx, p.Weft(), &total) })
	for i := range 2 {
		f.Process(1+i, fmt.Sprintf("client/%d", i), func(p *sim.Process) error {
			for n := range uint64(500) {
				if err := ask(ctx, p.Weft(), n+1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	f.After(20*time.Millisecond, func() {
		heal := f.Partition(0)
		f.After(5*time.Second, heal)
	})
	err = f.Run(time.Hour) // of virtual time
	return total, err
}

// A test tries several seeds. If one fails, the error contains the seed. The same test with
// WEFT_SIM_SEED in its environment repeats the run.
func Example() {
	for seed := range uint64(3) {
		total, err := simulate(sim.Seed(seed))
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(total, "requests counted")
	}
	// Output:
	// 1000 requests counted
	// 1000 requests counted
	// 1000 requests counted
}
