// Command groups adds up the numbers of four processes, and continues when one of them has
// ended. The operations of the group then fail with the name of the ended member, and Shrink
// makes a new group of the others.
//
//	go run ./examples/groups
//
// It prints:
//
//	four together have 0 + 1 + 2 + 3 = 6
//	without the one that had 3: 3
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

const members = 4

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ended := make(chan error, members)
	var first string
	for i := range uint32(members) {
		cfg := weft.Config{Name: weft.Name{App: "solver", Index: i}}
		if first != "" {
			cfg.Nodes = []weft.Node{{Addr: first}}
		}
		p, err := weft.Open(ctx, cfg)
		if err != nil {
			return err
		}
		if first == "" {
			first = p.NIC().Addr()
		}
		go func() { ended <- errors.Join(solve(ctx, p), p.Close()) }()
	}
	var all error
	for range members {
		all = errors.Join(all, <-ended)
	}
	return all
}

// solve does the work of one member. The member of the highest rank ends early.
func solve(ctx context.Context, p *weft.Process) error {
	g, err := p.Join(ctx, "solvers", members)
	if err != nil {
		return err
	}
	number := float64(p.Name().Index)
	sum := []float64{number}
	if err := weft.AllReduce(ctx, g, weft.Sum, sum); err != nil {
		return err
	}
	if g.Rank() == 0 {
		fmt.Printf("four together have 0 + 1 + 2 + 3 = %v\n", sum[0])
	}
	if err := g.Barrier(ctx); err != nil || g.Rank() == members-1 {
		return err
	}
	// Repeat until the NIC notices that the other member has ended.
	for err = nil; !errors.Is(err, weft.ErrGroupBroken); err = g.Barrier(ctx) {
		if err != nil {
			return err
		}
	}
	if g, err = g.Shrink(ctx); err != nil {
		return err
	}
	sum[0] = number
	if err := weft.AllReduce(ctx, g, weft.Sum, sum); err != nil {
		return err
	}
	if g.Rank() == 0 {
		fmt.Printf("without the one that had 3: %v\n", sum[0])
	}
	return g.Barrier(ctx) // so no member leaves before all have the sum
}
