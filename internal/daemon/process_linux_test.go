package daemon_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/internal/processtest"
)

// Attached processes of two daemons pass the tests for every process.
func TestAttachedProcessesDoWhatEveryProcessDoes(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		s.run(t, 0)
		s.run(t, 1)
		for i, c := range processtest.Cases {
			t.Run(c.Name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				a, b := mustAttach(t, s.c[0], fmt.Sprintf("a/%d", i)), mustAttach(t, s.c[1], fmt.Sprintf("b/%d", i))
				if err := load.Both(ctx,
					func(ctx context.Context) error { return c.On(ctx, a, b.Name(), c.A) },
					func(ctx context.Context) error { return c.On(ctx, b, a.Name(), c.B) },
				); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// A program that guards an attached process judges each message for it, on every path.
func TestAFilterStandsBeforeAnAttachedProcess(t *testing.T) { // PANIC-7
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		s.run(t, 0)
		s.run(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c := processtest.Case{Name: "guarded", A: processtest.SendToGuarded, B: processtest.ReceiveGuarded}
		a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[1], "b/0")
		if err := load.Both(ctx,
			func(ctx context.Context) error { return c.On(ctx, a, b.Name(), c.A) },
			func(ctx context.Context) error { return c.On(ctx, b, a.Name(), c.B) },
		); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAGuardJudgesWhatAnAttachedProcessSends(t *testing.T) { // PANIC-7
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		s.run(t, 0)
		s.run(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c := processtest.Case{Name: "guarded on its way out", A: processtest.SendGuarded, B: processtest.ReceiveFromGuarded}
		a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[1], "b/0")
		if err := load.Both(ctx,
			func(ctx context.Context) error { return c.On(ctx, a, b.Name(), c.A) },
			func(ctx context.Context) error { return c.On(ctx, b, a.Name(), c.B) },
		); err != nil {
			t.Fatal(err)
		}
	})
}

// The library and the application of the simulator also share processes of daemons.
func TestALibrarySharesAttachedProcessesWithAnApplication(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		s.run(t, 0)
		s.run(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		client := mustAttach(t, s.c[0], processtest.Client.String())
		client.Flush() // a daemon polls by itself
		served := make(chan error, processtest.Workers)
		var workers []*weft.Process
		for i := range processtest.Workers {
			p := mustAttach(t, s.c[i%2], processtest.Worker(i).String())
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
