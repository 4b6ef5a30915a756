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

// The application: a server that counts, and clients that insist. It knows nothing of package sim.

var counter = weft.Name{App: "counter"}

// serve counts requests, each client's number n once.
func serve(ctx context.Context, p *weft.Process, total *int) error {
	counted := make(map[weft.Name]uint64)
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
		if err := p.Reply(ctx, m); err != nil && !errors.Is(err, weft.ErrUnreachable) {
			return err
		}
	}
}

// count has the server count rounds times. A call that failed was executed once or not at all; the server knows.
func count(ctx context.Context, p *weft.Process, rounds int) error {
	for n := range rounds {
		request := binary.LittleEndian.AppendUint64(nil, uint64(n+1))
		_, err := p.Peer(counter).Call(ctx, 0, request, nil)
		for errors.Is(err, weft.ErrUnreachable) || errors.Is(err, weft.ErrNameUnknown) {
			if _, err = p.WaitName(ctx, counter); err == nil {
				_, err = p.Peer(counter).Call(ctx, 0, request, nil)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A user's test of it: a network that loses, repeats and damages frames, and in the middle of it all the server is cut
// off for longer than NICs are patient. A failure would print the seed, which gives the same run again.
func Example() {
	for seed := range uint64(5) {
		total := 0
		f := sim.New(sim.Config{Seed: seed, NICs: 4, Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05, Corrupt: 0.02}})
		f.After(20*time.Millisecond, func() {
			heal := f.Partition(0)
			f.After(5*time.Second, heal)
		})
		f.Serve(0, counter.String(), func(p *sim.Process) error {
			return serve(context.Background(), p.Weft(), &total)
		})
		for i := range 3 {
			f.Process(1+i, fmt.Sprintf("client/%d", i), func(p *sim.Process) error {
				if _, err := p.Weft().WaitName(context.Background(), counter); err != nil {
					return err
				}
				return count(context.Background(), p.Weft(), 1000)
			})
		}
		if err := f.Run(time.Hour); err != nil {
			fmt.Println(err)
		}
		fmt.Println("counted", total, "after", f.Elapsed().Round(time.Second))
	}
	// Output:
	// counted 3000 after 5s
	// counted 3000 after 5s
	// counted 3000 after 5s
	// counted 3000 after 5s
	// counted 3000 after 5s
}
