package processtest_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/fabric/fabrictest"
	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/internal/processtest"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

func TestMain(m *testing.M) { os.Exit(fabrictest.Run(m)) }

// TestEmbeddedProcesses runs the cases on processes of weft.Open. internal/daemon runs them on
// processes of a daemon.
func TestEmbeddedProcesses(t *testing.T) {
	for name, cfg := range map[string]weft.Config{
		"switch":     {Link: weft.NewSwitch().Link()},
		"bad switch": {Link: weft.NewSwitch().Link(), Faults: &weft.Faults{Loss: 0.05, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.02}},
		"shm":        {Link: weft.SharedMemory("")},
		"udp":        {},
	} {
		t.Run(name, func(t *testing.T) {
			for i, c := range processtest.Cases {
				t.Run(c.Name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					cfg := cfg
					cfg.Name = weft.Name{App: "a", Index: uint32(i)}
					a := open(t, ctx, cfg)
					cfg.Name.App, cfg.Nodes = "b", []weft.Node{{ID: a.NIC().ID(), Addr: a.NIC().Addr()}}
					b := open(t, ctx, cfg)
					both(t, ctx, c, a, b)
				})
			}
		})
	}
}

// A program that guards a process of weft.Open judges each message for it, however the message
// arrives. internal/daemon has the test for processes of a daemon.
func TestAFilterStandsBeforeAnEmbeddedProcess(t *testing.T) { // PANIC-7
	for name, cfg := range map[string]weft.Config{
		"switch":     {Link: weft.NewSwitch().Link()},
		"bad switch": {Link: weft.NewSwitch().Link(), Faults: &weft.Faults{Loss: 0.05, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.02}},
		"shm":        {Link: weft.SharedMemory("")},
		"udp":        {},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cfg := cfg
			cfg.Name = weft.Name{App: "a"}
			a := open(t, ctx, cfg)
			cfg.Name.App, cfg.Nodes = "b", []weft.Node{{ID: a.NIC().ID(), Addr: a.NIC().Addr()}}
			b := open(t, ctx, cfg)
			both(t, ctx, processtest.Case{Name: "guarded", A: processtest.SendToGuarded, B: processtest.ReceiveGuarded}, a, b)
		})
	}
}

func TestAGuardJudgesWhatAnEmbeddedProcessSends(t *testing.T) { // PANIC-7
	for name, cfg := range map[string]weft.Config{
		"switch":     {Link: weft.NewSwitch().Link()},
		"bad switch": {Link: weft.NewSwitch().Link(), Faults: &weft.Faults{Loss: 0.05, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.02}},
		"shm":        {Link: weft.SharedMemory("")},
		"udp":        {},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cfg := cfg
			cfg.Name = weft.Name{App: "a"}
			a := open(t, ctx, cfg)
			cfg.Name.App, cfg.Nodes = "b", []weft.Node{{ID: a.NIC().ID(), Addr: a.NIC().Addr()}}
			b := open(t, ctx, cfg)
			both(t, ctx, processtest.Case{Name: "guarded on its way out", A: processtest.SendGuarded, B: processtest.ReceiveFromGuarded}, a, b)
		})
	}
}

func open(t *testing.T, ctx context.Context, cfg weft.Config) *weft.Process {
	t.Helper()
	p, err := weft.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close %v: %v", p.Name(), err)
		}
	})
	return p
}

// both runs both sides of a case.
func both(t *testing.T, ctx context.Context, c processtest.Case, a, b *weft.Process) {
	t.Helper()
	if err := load.Both(ctx,
		func(ctx context.Context) error { return c.On(ctx, a, b.Name(), c.A) },
		func(ctx context.Context) error { return c.On(ctx, b, a.Name(), c.B) },
	); err != nil {
		t.Fatal(err)
	}
}

// TestSimulatedProcesses runs the cases in virtual time, over an unreliable network, and over
// links that lose nothing.
func TestSimulatedProcesses(t *testing.T) {
	for _, c := range processtest.Cases {
		t.Run(c.Name, func(t *testing.T) {
			for seed := range uint64(20) {
				cfg := sim.Config{Seed: sim.Seed(seed), Link: sim.Link{Reliable: seed%4 == 0}}
				if !cfg.Link.Reliable {
					cfg.Faults = sim.Faults{Loss: 0.03, LossBurst: 3, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.01, Truncate: 0.01, Delay: 0.01, DelayMax: 5 * time.Millisecond}
				}
				// Like attached processes.
				cfg = simulated.Hooked(cfg, simulated.Hooks{Pool: seed%2 == 1})
				f := sim.New(cfg)
				a, b := weft.Name{App: "a"}, weft.Name{App: "b"}
				f.Process(0, a.String(), side(c, b, c.A))
				f.Process(1, b.String(), side(c, a, c.B))
				if err := f.Run(5 * time.Minute); err != nil {
					t.Fatal(fmt.Errorf("seed %d: %w", seed, err))
				}
			}
		})
	}
}

// side returns one side of a case as the function of a simulated process. It does not end before
// the other side has all its answers.
func side(c processtest.Case, other weft.Name, on processtest.Side) func(*sim.Process) error {
	return func(p *sim.Process) error {
		defer p.Runtime().Sleep(context.Background(), 10*time.Second)
		return c.On(context.Background(), p.Weft(), other, on)
	}
}
