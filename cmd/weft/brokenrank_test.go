package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	fabric "github.com/weftnet/weft"
)

// asBroken makes this test a rank of a job. Its rank 2 exits with 3 while all ranks are in a
// collective.
const asBroken = "WEFT_TEST_BROKEN_RANK"

// breakWorld runs such a rank. It returns the exit status.
func breakWorld() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := fabric.Attach(ctx, fabric.AttachConfig{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 10
	}
	world, err := p.World(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 11
	}
	for round := 0; ; round++ {
		if round == 3 && world.Rank() == 2 {
			fmt.Print(strings.Repeat("the rest of its output\n", 1000))
			return 3
		}
		if err := fabric.AllReduce(ctx, world, fabric.Sum, []int64{1}); err != nil {
			return 1
		}
	}
}
