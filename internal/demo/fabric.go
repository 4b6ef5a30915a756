package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/bench"
	"github.com/weftnet/weft/internal/load"
)

// name returns the name of the process on a NIC.
func name(host int) weft.Name { return weft.Name{App: "demo", Index: uint32(host)} }

// open makes the NICs, each with one process. Each NIC gets the address of the first, and they
// learn about each other themselves.
func (d *demo) open(ctx context.Context) error {
	key, remove, err := bench.NewFabric() // the user's own key does not change
	if err != nil {
		return err
	}
	d.forget = remove
	var nodes []weft.Node
	for i := range d.procs {
		p, err := weft.Open(ctx, weft.Config{
			Name:   name(i),
			Fabric: key,
			Nodes:  nodes,
			Faults: &weft.Faults{Loss: d.Loss, Seed: d.Seed + uint64(i)},
		})
		if err != nil {
			return err
		}
		d.procs[i] = p
		if i == 0 {
			nodes = []weft.Node{{Addr: p.NIC().Addr()}}
		}
		d.screen.printf("  %-8v NIC %v at %s\n", p.Name(), p.NIC().ID(), p.NIC().Addr())
	}
	d.screen.printf("\n")
	return nil
}

func (d *demo) close() error {
	var errs []error
	for i, p := range d.procs {
		if p != nil {
			errs = append(errs, p.Close())
			d.procs[i] = nil
		}
	}
	if d.forget != nil {
		errs = append(errs, d.forget())
		d.forget = nil
	}
	return errors.Join(errs...)
}

// eachPair calls f for every direction concurrently.
func eachPair(ctx context.Context, f func(ctx context.Context, from, to int) error) error {
	return load.Together(ctx, pairs, func(ctx context.Context, i int) error {
		from := i / (hosts - 1)
		to := (from + 1 + i%(hosts-1)) % hosts
		if err := f(ctx, from, to); err != nil {
			return fmt.Errorf("from %v to %v: %w", name(from), name(to), err)
		}
		return nil
	})
}

// findNames waits until every process knows the addresses of all others.
func (d *demo) findNames(ctx context.Context, done *tally) error {
	return eachPair(ctx, func(ctx context.Context, from, to int) error {
		at, err := d.procs[from].WaitName(ctx, name(to))
		if err != nil {
			return err
		}
		if at != d.procs[to].Address() {
			return fmt.Errorf("found %v; expected %v", at, d.procs[to].Address())
		}
		done.add(0, 1)
		return nil
	})
}

// frames holds counts over all NICs.
type frames struct {
	out          uint64 // frames sent
	first, again uint64 // segments sent, and the retransmitted ones among them
}

func (d *demo) frames() (f frames) {
	for _, p := range d.procs {
		c := p.NIC().Counters()
		f.out += c["link_frames_out"]
		f.first += c["rel_sends"]
		f.again += c["rel_resends_timeout"] + c["rel_resends_fast"] + c["rel_resends_tail"]
	}
	return f
}

func (f frames) minus(g frames) frames {
	return frames{f.out - g.out, f.first - g.first, f.again - g.again}
}

// share returns the percentage of retransmitted segments.
func (f frames) share() float64 { return 100 * float64(f.again) / float64(max(f.first, 1)) }
