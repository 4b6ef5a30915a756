package weft_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/weftnet/weft"
)

// member is the function of each of the three members. They call the same operations in the same
// order.
func member(ctx context.Context, p *weft.Process) error {
	g, err := p.Join(ctx, "solvers", 3)
	if err != nil {
		return err
	}
	defer g.Close()

	limit := make([]byte, 2)
	if g.Rank() == 0 {
		copy(limit, "42")
	}
	if err := g.Broadcast(ctx, 0, limit); err != nil {
		return err
	}
	sum := []int64{int64(g.Rank()), 1} // the sum of the ranks, and the number of members
	if err := weft.AllReduce(ctx, g, weft.Sum, sum); err != nil {
		return err
	}
	if g.Rank() == g.Size()-1 {
		fmt.Printf("%v: limit %s, sums %v\n", p.Name(), limit, sum)
	}
	return g.Barrier(ctx) // no member closes the group before all are done
}

// Three processes work together. Here they are on one NIC; they could also be on three hosts.
func ExampleGroup() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	nic, err := weft.OpenNIC(ctx, weft.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer nic.Close()
	var members sync.WaitGroup
	for i := range uint32(3) {
		p, err := nic.Attach(ctx, weft.Name{App: "solver", Index: i})
		if err != nil {
			log.Fatal(err)
		}
		members.Go(func() {
			if err := member(ctx, p); err != nil {
				log.Fatal(err)
			}
		})
	}
	members.Wait()
	// Output: solver/2: limit 42, sums [3 3]
}
