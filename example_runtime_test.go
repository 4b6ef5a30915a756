package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// nap is a function of a library. It takes the time from the process, not from package time, so it
// runs in real and in virtual time.
func nap(ctx context.Context, p *weft.Process, d time.Duration) (slept time.Duration, err error) {
	rt := p.Runtime()
	begin := rt.Now()
	err = rt.Sleep(ctx, d)
	return rt.Now().Sub(begin), err
}

// The library sleeps a millisecond of real time, and then a day of virtual time.
func ExampleRuntime() {
	ctx := context.Background() // a simulation refuses a real deadline

	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "real"}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	slept, err := nap(ctx, p, time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("real: at least a millisecond:", slept >= time.Millisecond)

	f := sim.New(sim.Config{NICs: 1})
	f.Process(0, "virtual/0", func(p *sim.Process) error {
		slept, err := nap(ctx, p.Weft(), 24*time.Hour)
		fmt.Println("virtual:", slept.Truncate(time.Hour))
		return err
	})
	if err := f.Run(48 * time.Hour); err != nil {
		log.Fatal(err)
	}
	// Output:
	// real: at least a millisecond: true
	// virtual: 24h0m0s
}
