// Command sort sorts records by a key, on any number of ranks. Rank finds the place of each record
// by a sample sort, and Send brings the record there:
//
//	go build -o sort ./examples/sort
//	weft run -n 4 -- ./sort
//
// It prints, with and without a launcher:
//
//	of 50000 records, the first is {0 0}, the middle one {32696 33525} and the last {65535 27911}
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/weftnet/weft/parallel"
)

const count = 50_000

type record struct {
	Key    uint32
	Origin int32
}

// drawn returns the record with a number. Some keys occur more than once.
func drawn(i int) record {
	x := uint32(i) * 2654435761
	x = (x ^ x>>15) * 2246822519
	return record{Key: x >> 16, Origin: int32(i)}
}

func main() {
	ctx := context.Background()
	m, err := parallel.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	sorted, err := sortRecords(ctx, m)
	if err == nil && m.Rank() == 0 {
		fmt.Printf("of %d records, the first is %v, the middle one %v and the last %v\n",
			count, sorted[0], sorted[count/2], sorted[count-1])
	}
	if err := errors.Join(err, m.Close()); err != nil {
		log.Fatal(err)
	}
}

// sortRecords returns the sorted records at rank 0.
func sortRecords(ctx context.Context, m *parallel.Machine) ([]record, error) {
	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: count})
	if err != nil {
		return nil, err
	}
	records, err1 := parallel.New[record](s)
	sorted, err2 := parallel.New[record](s)
	key, err3 := parallel.New[uint32](s)
	place, err4 := parallel.New[int](s)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	parallel.Fill(records, func(pos []int) record { return drawn(pos[0]) })
	c := parallel.With(ctx, s)
	parallel.Map(c, key, records, func(r record) uint32 { return r.Key })
	if err := parallel.Rank(c, place, key, 0); err != nil {
		return nil, err
	}
	if err := parallel.Send(c, sorted, place, records, parallel.Op[record]{}); err != nil {
		return nil, err
	}
	var all []record
	if m.Rank() == 0 {
		all = make([]record, count)
	}
	return all, parallel.Gather(c, sorted, 0, all)
}
