// Command world is one rank of a parallel job. It takes its name, its rank and the number of ranks from
// the launcher that started it, and adds up the ranks of all processes.
//
//	weft run -n 4 -- world
//	mpiexec.hydra -n 4 world
//	srun -n 4 world
//
// It prints, as rank 0 of 4:
//
//	rank 0 of 4: the sum of all ranks is 6
//
// and without a launcher:
//
//	no launcher started this process: run it by weft run -n 4 -- world
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// joinWithin is how long a rank waits for the others. A cluster may need minutes to load a program
// onto all hosts.
const joinWithin = 15 * time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin)
	defer cancel()
	err := run(ctx)
	if errors.Is(err, weft.ErrNoLauncher) {
		fmt.Println("no launcher started this process: run it by weft run -n 4 -- world")
	} else if err != nil {
		log.Fatal(err) // status 1: the launcher then ends the other ranks
	}
}

func run(ctx context.Context) error {
	p, err := weft.Attach(ctx, weft.AttachConfig{})
	if errors.Is(err, weft.ErrNoDaemon) { // as under mpiexec.hydra, where embedded NICs find each other
		p, err = weft.Open(ctx, weft.Config{})
	}
	if err != nil {
		return err
	}
	defer p.Close()
	world, err := p.World(ctx)
	if err != nil {
		return err
	}
	sum := []int64{int64(world.Rank())}
	if err := weft.AllReduce(ctx, world, weft.Sum, sum); err != nil {
		return err
	}
	if world.Rank() == 0 {
		fmt.Printf("rank 0 of %d: the sum of all ranks is %d\n", world.Size(), sum[0])
	}
	return world.Barrier(ctx) // so that no rank leaves before all have the sum
}
