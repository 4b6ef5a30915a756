package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/simulated"
)

var pong = weft.Name{App: "pong"}

// pingPong starts two processes that send each other rounds messages.
func pingPong(f *Fabric, rounds int) {
	f.Process(0, "ping/0", func(p *Process) error {
		for i := range rounds {
			if err := p.Send(context.Background(), pong, 1, fmt.Append(nil, i)); err != nil {
				return err
			}
			var buf [16]byte
			m, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, buf[:])
			if err != nil {
				return err
			}
			if got := string(buf[:m.Len]); got != fmt.Sprint(i) {
				return fmt.Errorf("%q came back in round %d", got, i)
			}
		}
		return nil
	})
	f.Serve(1, "pong/0", func(p *Process) error {
		for {
			var buf [16]byte
			m, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, buf[:])
			if err != nil {
				return err
			}
			if err := p.Send(context.Background(), m.From, 2, buf[:m.Len]); err != nil {
				return err
			}
		}
	})
}

// sleep sleeps for d of virtual time.
func sleep(p *Process, d time.Duration) { p.Runtime().Sleep(context.Background(), d) }

func TestBlockingCodeRunsUnchanged(t *testing.T) {
	f := New(Config{Seed: Seed(1)})
	pingPong(f, 100)
	if err := f.Run(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if f.Elapsed() > 2*time.Second {
		t.Errorf("100 round trips took %v", f.Elapsed())
	}
}

func TestItRunsOverABadNetworkToo(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		f := New(Config{Seed: seed, Faults: Faults{Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Corrupt: 0.05, Truncate: 0.05}})
		pingPong(f, 50)
		if err := f.Run(60 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneSeedIsOneRun(t *testing.T) {
	run := func(seed uint64) uint64 {
		f := New(Config{Seed: seed, NICs: 3, Faults: Faults{Loss: 0.05, Duplicate: 0.1, Delay: 0.01}})
		pingPong(f, 50)
		if err := f.Run(60 * time.Second); err != nil {
			t.Fatal(err)
		}
		return f.Trace()
	}
	if a, b := run(5), run(5); a != b {
		t.Errorf("seed 5 gave the traces %x and %x", a, b)
	}
	if a, b := run(5), run(6); a == b {
		t.Error("seeds 5 and 6 gave one trace")
	}
}

func TestAnErrorNamesTheSeedAndTheCommand(t *testing.T) {
	f := New(Config{Seed: 77})
	ouch := errors.New("ouch")
	f.Process(0, "app/0", func(p *Process) error {
		sleep(p, 3*time.Second)
		return ouch
	})
	err := f.Run(time.Minute)
	var failure *Failure
	if !errors.As(err, &failure) || !errors.Is(err, ouch) || failure.Seed != 77 {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{"seed 77", "app/0", "3.0", "WEFT_SIM_SEED=77"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestWhatHangsIsNamed(t *testing.T) {
	f := New(Config{Seed: 1})
	f.Process(0, "app/0", func(p *Process) error {
		_, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, nil)
		return err
	})
	err := f.Run(5 * time.Second)
	if err == nil || !strings.Contains(err.Error(), "app/0 on host 0 waits for an operation") {
		t.Errorf("error is %v", err)
	}
}

func TestARealDeadlineIsRefused(t *testing.T) {
	f := New(Config{Seed: 1})
	f.Process(0, "app/0", func(p *Process) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, nil)
		return err
	})
	if err := f.Run(5 * time.Second); !errors.Is(err, errRealDeadline) {
		t.Errorf("error is %v", err)
	}
}

func TestAVirtualDeadlineEndsAReceive(t *testing.T) {
	f := New(Config{Seed: 1})
	f.Process(0, "app/0", func(p *Process) error {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if _, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, nil); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("receive ended with %v", err)
		}
		return nil
	})
	if err := f.Run(2 * time.Hour); err != nil {
		t.Error(err)
	}
	if d := f.Elapsed() - time.Hour; d < 0 || d > time.Millisecond {
		t.Errorf("it ended after %v", f.Elapsed())
	}
}

func TestAPartitionBeyondUnreachableAfterIsTold(t *testing.T) {
	f := New(Config{Seed: 1})
	heal := f.Partition(0)
	f.After(10*time.Second, heal)
	f.Process(0, "app/0", func(p *Process) error {
		p.Runtime().Sleep(context.Background(), time.Second)
		h := proc.Handle{NIC: uint64(NICID(1)), Slot: 1, Gen: 1}
		if err := simulated.Half(p).Get(context.Background(), h, 0, make([]byte, 8)); !errors.Is(err, proc.ErrUnreachable) {
			return fmt.Errorf("GET ended with %v", err)
		}
		if d := p.Fabric().Elapsed(); d > 5*time.Second {
			return fmt.Errorf("it took %v", d)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}

func TestAStoppedNICEndsItsProcessesOperations(t *testing.T) {
	f := New(Config{Seed: 1})
	f.Process(0, "app/0", func(p *Process) error {
		if _, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, nil); !errors.Is(err, proc.ErrNICGone) {
			return fmt.Errorf("receive ended with %v", err)
		}
		return nil
	})
	f.After(time.Second, func() { f.StopNIC(0) })
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}

func TestTheNamesOfADeadNICVanishThoughNobodySendsToIt(t *testing.T) {
	f := New(Config{Seed: 1, NICs: 4})
	for host := range 4 {
		f.Process(host, fmt.Sprintf("app/%d", host), func(p *Process) error {
			sleep(p, time.Minute)
			return nil
		})
	}
	lists := func(when string, want int) {
		for host := range 3 {
			l := simulated.Engine(f, host).Names()
			if len(l) != want || slices.ContainsFunc(l, func(n nic.NameInfo) bool { return !n.Reachable }) {
				t.Errorf("%s NIC %d lists %v", when, host, l)
			}
			processes := 1 // the NIC's own process
			for _, n := range simulated.Engine(f, host).Nodes() {
				processes += n.Processes
			}
			if processes != want {
				t.Errorf("%s NIC %d knows of %d processes by NIC", when, host, processes)
			}
		}
	}
	const died, returns = 20 * time.Second, 40 * time.Second
	f.After(died, func() {
		lists("before,", 4)
		f.Reboot(3, returns-died)
	})
	f.After(died+limits.FailureTimeout, func() { lists("after the failure timeout", 3) })
	f.After(returns+2*limits.RetryAtMost, func() { lists("when it is back", 4) })
	if err := f.Run(3 * time.Minute); err != nil {
		t.Error(err)
	}
}

func TestARebootedHostStartsItsProcessesAgain(t *testing.T) {
	f := New(Config{Seed: 1})
	starts := 0
	f.Process(0, "app/0", func(p *Process) error {
		if starts++; starts == 1 {
			sleep(p, time.Hour)
			return errors.New("it went on")
		}
		return nil
	})
	f.After(time.Second, func() { f.Reboot(0, time.Second) })
	if err := f.Run(time.Minute); err != nil || starts != 2 {
		t.Errorf("%d starts, %v", starts, err)
	}
	if c := f.Counts(); c.Restarts != 1 {
		t.Errorf("%d restarts were counted", c.Restarts)
	}
}

func TestAKilledProcessGoesNoFurther(t *testing.T) {
	f := New(Config{Seed: 1})
	went := false
	victim := f.Process(0, "app/0", func(p *Process) error {
		p.Start("beside", func(p *Process) error { sleep(p, time.Minute); went = true; return nil })
		sleep(p, time.Minute)
		went = true
		return nil
	})
	f.Process(1, "app/1", func(p *Process) error {
		sleep(p, time.Second)
		f.Kill(victim)
		sleep(p, 2*time.Minute)
		return nil
	})
	if err := f.Run(time.Hour); err != nil || went || !victim.Over() {
		t.Errorf("went on %v, over %v, %v", went, victim.Over(), err)
	}
}

func TestRandomEpisodesHappen(t *testing.T) {
	often := Episodes{Every: 100 * time.Millisecond, Lasting: 20 * time.Millisecond}
	f := New(Config{Seed: 1, NICs: 4, Faults: Faults{Partitions: often, Clogs: often, Stalls: often, Reboots: often}})
	f.Process(0, "app/0", func(p *Process) error { return nil })
	if err := f.Settle(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if c := f.Counts(); min(c.Partitions, c.Stalls, c.Restarts) < 20 || c.Clogs < 20 {
		t.Errorf("%+v", c)
	}
}

func TestAClosedProcessIsGoneForEverybody(t *testing.T) {
	f := New(Config{Seed: 1})
	f.Process(0, "app/0", func(p *Process) error {
		sleep(p, time.Second)
		if err := p.Close(); err != nil {
			return err
		}
		sleep(p, time.Second)
		if _, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, nil); !errors.Is(err, weft.ErrClosed) {
			return fmt.Errorf("receive after Close ended with %v", err)
		}
		return nil
	})
	f.Process(1, "app/1", func(p *Process) error {
		_, err := p.Recv(context.Background(), weft.Name{App: "app"}, weft.AnyTag, nil)
		if at := p.Fabric().Elapsed(); !errors.Is(err, weft.ErrProcessGone) || at > 1500*time.Millisecond {
			return fmt.Errorf("receive from a closed process ended with %v after %v", err, at)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}
