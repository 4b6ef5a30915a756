package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/parallel"
	"github.com/weftnet/weft/sim"
)

// library is a fabric with page servers that store shelves. Two ranks of a job share a host.
type library struct {
	f       *sim.Fabric
	refs    []netmem.ServerRef
	servers []*sim.Process
	dead    time.Duration // time after which a client counts as dead; 0: the default
}

const rankHosts = 3

func newLibrary(t *testing.T, seed uint64, bytes int, faults sim.Faults) *library {
	const servers = 3
	l := &library{f: sim.New(sim.Config{Seed: seed, NICs: rankHosts + servers, Faults: faults})}
	for i := range servers {
		l.refs = append(l.refs, netmem.ServerRef{Name: weft.Name{App: "memory", Index: uint32(i)}})
		l.servers = append(l.servers, l.f.Serve(rankHosts+i, l.refs[i].Name.String(), func(p *sim.Process) error {
			cfg := netmem.ServerConfig{Bytes: bytes, Shelve: time.Hour}
			if _, err := netmem.Serve(p.Weft(), cfg); err != nil {
				return err
			}
			return p.Runtime().Sleep(context.Background(), 100*time.Hour)
		}))
	}
	t.Cleanup(func() {
		if err := l.f.Run(100 * time.Hour); err != nil { // ends the servers
			t.Error(err)
		}
	})
	return l
}

// rankMain is the function of a rank. It gets the rank's machine and the store.
type rankMain func(p *sim.Process, m *parallel.Machine, store *netmem.Shelf) error

// job runs n ranks with a machine and their store, until all of them have ended. If within is
// above 0, job kills the ranks after that time.
func (l *library) job(t *testing.T, name string, n int, within time.Duration, main rankMain) {
	t.Helper()
	left, ranks := n, []*sim.Process(nil)
	for i := range n {
		ranks = append(ranks, l.f.Serve(i/2, fmt.Sprintf("%s/%d", name, i), func(p *sim.Process) error {
			err := l.rank(p, name, n, main)
			left--
			return err
		}))
	}
	step := 5 * time.Millisecond
	if within > 0 {
		step = within
	}
	for i := 0; left > 0; i++ {
		l.f.After(step, func() {})
		if err := l.f.Settle(step); err != nil {
			t.Fatal(err)
		}
		if within > 0 {
			for _, p := range ranks {
				l.f.Kill(p)
			}
			return
		}
		if i > 100_000 {
			t.Fatal("ranks have not ended")
		}
	}
}

func (l *library) rank(p *sim.Process, name string, n int, main rankMain) error {
	ctx := context.Background()
	g, err := p.Join(ctx, name, n)
	if err != nil {
		return err
	}
	m, err := parallel.On(ctx, p.Weft(), g)
	if err != nil {
		return err
	}
	store, err := netmem.OpenShelf(ctx, p.Weft(), netmem.ShelfConfig{
		ClientConfig: netmem.ClientConfig{Servers: l.refs, Copies: 2, Dead: l.dead},
		Key:          "heat of the simulation",
	})
	if err != nil {
		return err
	}
	defer store.Close()
	return main(p, m, store)
}

var lossy = sim.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02}

// All ranks are killed at some moment of their work, and then a page server is killed. A job with
// another name and another number of ranks continues from the checkpoint in the memory of the
// other servers.
func TestAJobContinuesFromNetworkMemory(t *testing.T) {
	want, err := heat(t.Context(), machineOfOne(t), 200, 40)
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	continued := 0
	for seed := range seeds {
		l := newLibrary(t, seed, 1<<20, lossy)
		within := time.Duration(26+5*seed) * time.Millisecond
		l.job(t, "first", 1+int(seed)%5, within, func(p *sim.Process, m *parallel.Machine, store *netmem.Shelf) error {
			if _, err := (&saver{store: store, n: 200, steps: 40}).run(context.Background(), m); err != nil {
				return err
			}
			return p.Runtime().Sleep(context.Background(), time.Hour)
		})
		l.f.Kill(l.servers[seed%3])
		l.job(t, "second", 1+int(seed+2)%5, 0, func(p *sim.Process, m *parallel.Machine, store *netmem.Shelf) error {
			a := &saver{store: store, n: 200, steps: 40}
			got, err := a.run(context.Background(), m)
			if err != nil || got != want {
				return fmt.Errorf("seed %d: %v, %w; expected %v", seed, got, err, want)
			}
			if a.loaded > 0 {
				continued++
			}
			return m.Close()
		})
	}
	if continued == 0 {
		t.Error("no job has continued from a checkpoint")
	}
}

// Ranks die at some moment, possibly during a Save. The others shrink and continue from network
// memory.
func TestAfterShrinkNetworkMemoryHasAWholeCheckpoint(t *testing.T) {
	want, err := heat(t.Context(), machineOfOne(t), 200, 40)
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	shrunk := 0
	for seed := range seeds {
		l := newLibrary(t, seed, 1<<20, lossy)
		l.job(t, "m", 5, 0, func(p *sim.Process, m *parallel.Machine, store *netmem.Shelf) error {
			ctx, ended := context.Background(), false
			if i := m.Rank(); i == int(seed)%5 || i == int(seed+2)%5 {
				p.Start("death", func(p *sim.Process) error {
					err := p.Runtime().Sleep(ctx, time.Duration(1+p.Rand().IntN(80_000))*time.Microsecond)
					ended = true
					return errors.Join(err, p.Weft().Close())
				})
			}
			for {
				got, err := (&saver{store: store, n: 200, steps: 40}).run(ctx, m)
				switch {
				case ended:
					return nil
				case err == nil && got != want:
					return fmt.Errorf("seed %d: %v; expected %v", seed, got, want)
				case err == nil:
					if err = m.Close(); ended || errors.Is(err, parallel.ErrRankGone) {
						return nil // a rank died after all had finished
					}
					return err
				case !errors.Is(err, parallel.ErrRankGone):
					return fmt.Errorf("seed %d: %w; expected ErrRankGone", seed, err)
				}
				shrunk++
				if m, err = m.Shrink(ctx); ended {
					return nil
				} else if err != nil {
					return fmt.Errorf("seed %d: shrink: %w", seed, err)
				}
			}
		})
	}
	if shrunk == 0 {
		t.Error("no rank died during the work")
	}
}

// Two of three page servers die. Each page was on two servers, so pages are lost, and each rank
// reports the loss.
func TestALostCheckpointIsAnErrorThatNamesTheServers(t *testing.T) {
	l := newLibrary(t, 1, 1<<20, sim.Faults{})
	l.dead = 100 * time.Millisecond
	l.job(t, "m", 3, 0, func(p *sim.Process, m *parallel.Machine, store *netmem.Shelf) error {
		ctx := context.Background()
		s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: 5000})
		if err != nil {
			return err
		}
		v, err := parallel.New[float64](s)
		if err != nil {
			return err
		}
		if err := parallel.Save(ctx, m, store, 1, parallel.Named("v", v)); err != nil {
			return err
		}
		if err := m.Barrier(ctx); err != nil {
			return err
		}
		if m.Rank() == 0 {
			l.f.Kill(l.servers[0])
			l.f.Kill(l.servers[1])
		}
		if err := m.Barrier(ctx); err != nil {
			return err
		}
		_, err = parallel.Load(ctx, m, store, parallel.Named("v", v))
		if err == nil || m.Rank() == 0 && (!errors.Is(err, netmem.ErrFew) || !strings.Contains(err.Error(), "memory/0, memory/1")) {
			return fmt.Errorf("rank %d: %w; expected an error that names memory/0 and memory/1", m.Rank(), err)
		}
		return nil
	})
}

// The servers are too small for a checkpoint. Save fails at every rank, and the previous
// checkpoint stays.
func TestACheckpointForWhichThereIsNoRoomLeavesTheOneBefore(t *testing.T) {
	l := newLibrary(t, 1, 128<<10, sim.Faults{})
	l.job(t, "first", 3, 0, func(p *sim.Process, m *parallel.Machine, store *netmem.Shelf) error {
		ctx := context.Background()
		for step, n := range []int{4000, 200_000} {
			s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: n})
			if err != nil {
				return err
			}
			v, err := parallel.New[int](s)
			if err != nil {
				return err
			}
			parallel.Fill(v, func(pos []int) int { return pos[0] })
			err = parallel.Save(ctx, m, store, uint64(step), parallel.Named("v", v))
			if full := err != nil && strings.Contains(err.Error(), netmem.ErrFull.Error()); full != (step == 1) {
				return fmt.Errorf("rank %d, %d elements: %w", m.Rank(), n, err)
			}
		}
		return nil
	})
	l.job(t, "second", 2, 0, func(p *sim.Process, m *parallel.Machine, store *netmem.Shelf) error {
		ctx := context.Background()
		s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: 4000})
		if err != nil {
			return err
		}
		v, err := parallel.New[int](s)
		if err != nil {
			return err
		}
		step, err := parallel.Load(ctx, m, store, parallel.Named("v", v))
		if err != nil || step != 0 {
			return fmt.Errorf("step %d: %w; expected step 0", step, err)
		}
		for i, x := range v.Row() {
			if x != s.Local().Lo[0]+i {
				return fmt.Errorf("element %d is %d", s.Local().Lo[0]+i, x)
			}
		}
		return m.Close()
	})
}
