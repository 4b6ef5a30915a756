package netmem

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// farther makes a server farther away than the others: packets to it take up to a millisecond,
// until nearer is called.
func (w *several) farther(server int) (nearer func()) {
	const held = time.Millisecond
	over := false
	var hold func()
	hold = func() {
		if !over {
			w.f.Clog(0, 1+server, held)
			w.f.After(held, hold)
		}
	}
	hold()
	return func() { over = true }
}

// readsAt reads the first pages several times, and returns the number of reads that each server
// has answered.
func (w *several) readsAt(pages uint64, times int) (at []uint64, err error) {
	for _, s := range w.servers {
		at = append(at, s.Stats().PageIns)
	}
	for range times {
		err = errors.Join(err, w.reads(pages))
	}
	for i, s := range w.servers {
		at[i] = s.Stats().PageIns - at[i]
	}
	return at, err
}

func TestAPageIsReadFromTheNearestServerThatHasIt(t *testing.T) {
	const pages, times = 20, 10
	onSeveral(t, []int{64, 64}, pages, ClientConfig{Copies: 2}, func(w *several) error {
		for _, far := range []int{0, 1, 0} {
			nearer := w.farther(far)
			for range times { // so that the client knows
				if err := w.write(pages); err != nil {
					return err
				}
			}
			at, err := w.readsAt(pages, times)
			if err != nil || at[far] > pages*times/10 || at[1-far] < pages*times*9/10 {
				return fmt.Errorf("of %d reads, %d were answered by the server that is farther away, and %d by the other: %v", pages*times, at[far], at[1-far], err)
			}
			nearer()
		}
		return nil
	})
}

// If servers are equally near, each of them gets reads.
func TestReadsAreSpreadOverServersThatAreAsNear(t *testing.T) {
	const pages, times = 40, 10
	onSeveral(t, []int{64, 64, 64}, pages, ClientConfig{Copies: 2}, func(w *several) error {
		at, err := w.readsAt(pages, times)
		for i, n := range at {
			if n < pages*times/10 {
				err = errors.Join(err, fmt.Errorf("server %d has answered %d of %d reads", i, n, pages*times))
			}
		}
		return err
	})
}
