package weft_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/weftnet/weft"
)

// A launcher starts the ranks of a job, here one rank. The program needs no names and no sizes.
func ExampleProcess_World() {
	for name, value := range map[string]string{"WEFT_NAME": "job-1a2b3c4d", "WEFT_RANK": "0", "WEFT_SIZE": "1"} {
		os.Setenv(name, value) // as weft run does
		defer os.Unsetenv(name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	p, err := weft.Open(ctx, weft.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	world, err := p.World(ctx)
	if err != nil {
		log.Fatal(err)
	}
	sum := []int64{int64(world.Rank())}
	if err := weft.AllReduce(ctx, world, weft.Sum, sum); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v is rank %d of %d; the sum of all ranks is %d\n", p.Name(), world.Rank(), world.Size(), sum[0])
	// Output: job-1a2b3c4d/0 is rank 0 of 1; the sum of all ranks is 0
}
