package processtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/processtest"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/workqueue"
	"github.com/weftnet/weft/sim"
)

// The test runs the same library and application as the simulator below, on NICs of weft.Open.
func TestALibrarySharesEmbeddedProcessesWithAnApplication(t *testing.T) {
	for name, cfg := range map[string]weft.Config{
		"bad switch": {Link: weft.NewSwitch().Link(), Faults: &weft.Faults{Loss: 0.05, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.02}},
		"shm":        {Link: weft.SharedMemory("")},
		"udp":        {},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cfg.Name = processtest.Client
			client := open(t, ctx, cfg)
			node := weft.Node{ID: client.NIC().ID(), Addr: client.NIC().Addr()}
			served := make(chan error, processtest.Workers)
			var workers []*weft.Process
			for i := range processtest.Workers {
				cfg.Name, cfg.Nodes = processtest.Worker(i), []weft.Node{node}
				p := open(t, ctx, cfg)
				workers = append(workers, p)
				go func() { served <- processtest.ServeJobs(ctx, p) }()
			}
			if _, err := processtest.AskForJobs(ctx, client); err != nil {
				t.Error(err)
			}
			for _, p := range workers {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
			for range workers {
				if err := <-served; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// simulate runs the queue and the application on a bad network, in which hosts are cut off,
// stall, and restart. It returns the counts.
func simulate(seed uint64) (sim.Counts, workqueue.Counts, error) {
	cfg := sim.Config{Seed: seed, NICs: processtest.Workers + 1, UnreachableAfter: 60 * time.Millisecond, Replay: fmt.Sprintf("WEFT_SIM_SEED=%d go test ./internal/processtest -run Simulated", seed)}
	cfg.Faults = sim.Faults{
		Loss: 0.02, LossBurst: 3, Duplicate: 0.02, Reorder: 0.03, Corrupt: 0.01, Truncate: 0.01, Delay: 0.01, DelayMax: 5 * time.Millisecond,
		Partitions: sim.Episodes{Every: 200 * time.Millisecond, Lasting: 60 * time.Millisecond}, Clogs: sim.Episodes{Every: 200 * time.Millisecond, Lasting: 20 * time.Millisecond},
		Stalls: sim.Episodes{Every: 200 * time.Millisecond, Lasting: 20 * time.Millisecond}, Reboots: sim.Episodes{Every: 300 * time.Millisecond, Lasting: 20 * time.Millisecond},
	}
	cfg = simulated.Hooked(cfg, simulated.Hooks{Pool: seed%2 == 1}) // like attached processes
	f := sim.New(cfg)
	ctx := context.Background()
	var last *sim.Process
	for i := range processtest.Workers {
		last = f.Serve(1+i, processtest.Worker(i).String(), func(p *sim.Process) error { return processtest.ServeJobs(ctx, p.Weft()) })
	}
	var counts workqueue.Counts
	f.Process(0, processtest.Client.String(), func(p *sim.Process) error {
		within, cancel := p.Runtime().WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		c, err := processtest.AskForJobs(within, p.Weft())
		counts = c
		return err
	})
	f.After(20*time.Millisecond, func() { f.Narrow(0, 1, 700) })
	if seed%4 == 0 {
		f.After(50*time.Millisecond, func() { f.Kill(last) })
	}
	err := f.Run(time.Hour)
	return f.Counts(), counts, err
}

func TestALibrarySharesSimulatedProcessesWhateverHappens(t *testing.T) {
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 50
	}
	first := sim.Seed(0)
	if first != 0 {
		seeds = 1
	}
	var all sim.Counts
	var work workqueue.Counts
	for seed := first; seed < first+seeds; seed++ {
		c, w, err := simulate(seed)
		if err != nil {
			t.Fatal(err)
		}
		all.Lost += c.Lost
		all.Duplicated += c.Duplicated
		all.Reordered += c.Reordered
		all.Corrupted += c.Corrupted
		all.Truncated += c.Truncated
		all.Delayed += c.Delayed
		all.Partitioned += c.Partitioned
		all.Clogged += c.Clogged
		all.TooLong += c.TooLong
		all.Deaths += c.Deaths
		all.Stalls += c.Stalls
		all.Restarts += c.Restarts
		work.Jobs, work.Retries, work.Events = work.Jobs+w.Jobs, work.Retries+w.Retries, work.Events+w.Events
	}
	t.Logf("%d seeds: %+v, %+v", seeds, work, all)
	for what, n := range map[string]uint64{"lost": all.Lost, "duplicated": all.Duplicated, "reordered": all.Reordered, "corrupted": all.Corrupted, "truncated": all.Truncated, "delayed": all.Delayed,
		"partitioned": all.Partitioned, "clogged": all.Clogged, "too long": all.TooLong, "deaths": all.Deaths, "stalls": all.Stalls, "restarts": all.Restarts, "retries": work.Retries, "events": work.Events} {
		if n == 0 && seeds > 1 {
			t.Errorf("none in all seeds: %s", what)
		}
	}
}
