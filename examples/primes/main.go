// Command primes lists prime numbers by a scan, on any number of ranks. Each position tests its own
// number. A prefix sum numbers the primes, and each prime is sent to the place with its number:
//
//	go build -o primes ./examples/primes
//	weft run -n 4 -- ./primes
//
// It prints, with and without a launcher:
//
//	9592 primes below 100000: [2 3 5 7 11 13 17 19 23 29] … 99991
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/weftnet/weft/parallel"
)

const below = 100_000

func main() {
	ctx := context.Background()
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	primes, err := list(ctx, m)
	if err == nil && m.Rank() == 0 {
		fmt.Printf("%d primes below %d: %d … %d\n", len(primes), below, primes[:10], primes[len(primes)-1])
	}
	if err := errors.Join(err, m.Close()); err != nil {
		log.Fatal(err)
	}
}

// list returns the primes at rank 0.
func list(ctx context.Context, m *parallel.Machine) ([]int, error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: below})
	if err != nil {
		return nil, err
	}
	number, err1 := parallel.New[int](s)
	prime, err2 := parallel.New[bool](s)
	one, err3 := parallel.New[int](s)
	place, err4 := parallel.New[int](s)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	c := parallel.With(ctx, s)
	parallel.Pcoord(c, number, 0)
	parallel.Map(c, prime, number, isPrime)
	parallel.Fill(one, func([]int) int { return 1 })

	var all []int
	err = c.Where(prime, func(c *parallel.Ctx) error {
		count, err := parallel.Reduce(c, one, parallel.Sum[int]())
		if err != nil {
			return err
		}
		// The primes become dense: prime k goes to place k.
		if err := parallel.Scan(c, place, one, 0, parallel.Sum[int](), parallel.ScanOpt{Exclusive: true}); err != nil {
			return err
		}
		dense, err := parallel.NewShape(ctx, m, parallel.Axis{Len: count})
		if err != nil {
			return err
		}
		primes, err := parallel.New[int](dense)
		if err != nil {
			return err
		}
		if err := parallel.Send(c, primes, place, number, parallel.Op[int]{}); err != nil {
			return err
		}
		if m.Rank() == 0 {
			all = make([]int, count)
		}
		return parallel.Gather(parallel.With(ctx, dense), primes, 0, all)
	}, nil)
	return all, err
}

func isPrime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}
