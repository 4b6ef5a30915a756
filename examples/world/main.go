// Command world is one rank of a parallel job. A launcher starts all ranks, and the program needs
// neither names nor addresses: the ranks find each other, and form one group.
//
//	go build -o world ./examples/world
//	weft run -n 4 -- ./world
//	mpiexec.hydra -n 4 ./world
//
// With four ranks, rank 2 prints "rank 2 of 4: the ranks add up to 6".
//
// It prints, without a launcher:
//
//	no launcher started this program; try: weft run -n 4 -- world
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/weftnet/weft"
)

// joinWithin is how long a rank waits for the others. A cluster may need minutes to bring a
// program to all its hosts.
const joinWithin = 15 * time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	p, err := open(ctx)
	if errors.Is(err, weft.ErrNoLauncher) {
		fmt.Println("no launcher started this program; try: weft run -n 4 -- world")
		return nil
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
	fmt.Printf("rank %d of %d: the ranks add up to %d\n", world.Rank(), world.Size(), sum[0])
	return world.Barrier(ctx) // no rank closes its NIC before all are done
}

// open uses the NIC daemon that the launcher names, or else a NIC inside this program.
func open(ctx context.Context) (*weft.Process, error) {
	if os.Getenv("WEFT_SOCKET") != "" {
		return weft.Attach(ctx, weft.AttachConfig{})
	}
	return weft.Open(ctx, weft.Config{})
}
