package parallel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// Any process that can reach a rank may send to its port. Here a process sends messages that name
// a rank as their sender, and messages that are too short or too long.
func TestMessagesOfAStrangerAreDiscarded(t *testing.T) {
	for seed := range uint64(3) {
		f := sim.New(sim.Config{Seed: seed, NICs: 3})
		const ranks = 3
		over, names, epoch := 0, make([]weft.Name, ranks), uint32(0)
		for i := range ranks {
			f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
				ctx := context.Background()
				names[i] = p.Weft().Name()
				g, err := p.Join(ctx, "m", ranks)
				if err != nil {
					return err
				}
				m, err := On(ctx, p.Weft(), g)
				if err != nil {
					return err
				}
				epoch = m.epoch
				for n := 0; n < 300 && err == nil; n++ {
					err = sumsOf(m, 40)
				}
				over++
				return firstError(err, m.Close())
			})
		}
		f.Process(0, "stranger/0", func(p *sim.Process) error {
			port, err := p.Weft().Port(machinePort)
			if err != nil {
				return err
			}
			p.Runtime().Sleep(context.Background(), time.Millisecond) // now the ranks have names
			sent, lie := 0, encodeFault(&RankError{1, "Scan", errors.New("a lie")})
			for n := uint64(1); over == 0; n++ {
				ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Millisecond)
				to := port.Peer(names[p.Rand().IntN(ranks)])
				h := header{epoch: epoch, rank: uint32(p.Rand().IntN(ranks)),
					seq: n / 10, phase: 1, kind: 1 + uint32(n%3), total: uint64(len(lie))}
				var head [headerLen]byte
				h.put(&head)
				data := append(head[:], lie...)
				data = [][]byte{data, data[:n%headerLen], append(data, make([]byte, maxMessage)...)}[p.Rand().IntN(3)]
				if to.Send(ctx, 0, data) == nil {
					sent++
				}
				cancel()
				p.Runtime().Sleep(context.Background(), 20*time.Microsecond)
			}
			if sent == 0 {
				return errors.New("no message of the stranger arrived")
			}
			return nil
		})
		if err := f.Run(10 * time.Minute); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The error names the lost rank by its number in the machine, not by its number in the job.
func TestTheErrorNamesTheRankThatIsGone(t *testing.T) {
	for _, victims := range [][]int{{0, 2}, {1, 0}, {3, 2}, {2, 0}} {
		f := sim.New(sim.Config{Seed: 5, NICs: 4})
		for i := range 4 {
			f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
				ctx := context.Background()
				g, err := p.Join(ctx, "m", 4)
				if err != nil {
					return err
				}
				m, err := On(ctx, p.Weft(), g)
				for _, victim := range victims {
					if err != nil {
						return err
					}
					if m.rank == victim {
						p.Runtime().Sleep(ctx, time.Duration(p.Rand().IntN(2000))*time.Microsecond)
						return nil // the process ends silently
					}
					for err == nil {
						err = sumsOf(m, 40)
					}
					var of *RankError
					if !errors.Is(err, ErrRankGone) || !errors.As(err, &of) || of.Rank != victim || of.Op == "" {
						return fmt.Errorf("rank %d of %d: %w; expected that rank %d is gone", m.rank, m.size, err, victim)
					}
					m, err = m.Shrink(ctx)
				}
				return firstError(err, sumsOf(m, 40), m.Close())
			})
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Errorf("ranks %v end: %v", victims, err)
		}
	}
}

// A failing rank reports its error before it leaves, so the others get this error and not
// ErrRankGone.
func TestAllRanksGetTheReasonOfTheFirst(t *testing.T) {
	for seed := range uint64(10) {
		f := sim.New(sim.Config{Seed: seed, NICs: 4, Faults: sim.Faults{Loss: 0.05, Reorder: 0.1}})
		for i := range 4 {
			f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
				return tried(func(*Machine) error {
					ctx := context.Background()
					m := must(On(ctx, p.Weft(), must(p.Join(ctx, "m", 4))))
					s := must(NewShape(ctx, m, Axis{Len: 20}))
					var err error
					for n := 0; err == nil; n++ {
						pause(p)
						// Rank 3 fails in step 5.
						at := must(on(s, func(pos []int) int { return pos[0] + n/5*m.rank/3*20 }))
						err = Get(With(ctx, s), must(New[int](s)), at, must(New[int](s)))
					}
					var of *RankError
					if !errors.Is(err, ErrBadArgument) || !errors.As(err, &of) || of.Rank != 3 {
						return fmt.Errorf("rank %d: %w; expected the error of rank 3", m.rank, err)
					}
					return m.Close()
				}, nil)
			})
		}
		if err := f.Run(10 * time.Minute); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// A program may have as many sends in flight as its process permits. A rank then waits until it
// can send, and does not mistake another rank for gone.
func TestSendsOfTheProgramThatFillTheQueueDelayAnOperation(t *testing.T) {
	const bytes = 1 << 20
	simulatedMachines(t, 2, func(p *sim.Process, m *Machine) error {
		ctx := context.Background()
		s := must(NewShape(ctx, m, Axis{Len: 2}, Axis{Len: bytes}))
		v, d := must(on(s, func(pos []int) byte { return byte(pos[1]) })), must(New[byte](s))
		started := 0
		var ops [1000]weft.Op
		own := must(m.p.Port(9))
		if m.rank == 0 {
			for ; started < len(ops); started++ {
				err := own.Peer(m.group.Member(1)).StartSend(&ops[started], 7, make([]byte, bytes))
				if errors.Is(err, weft.ErrQueueFull) {
					break
				}
				must(0, err)
			}
		} else {
			p.Start("receiver", func(p *sim.Process) error {
				p.Runtime().Sleep(ctx, 5*time.Millisecond)
				for b := make([]byte, bytes); ; {
					if _, err := own.Recv(ctx, weft.AnyProcess, 7, b); err != nil {
						return nil // the process has ended
					}
				}
			})
		}
		must(0, Spread(With(ctx, s), d, v, 0, 0))
		for i := range started {
			_, err := ops[i].Wait(ctx)
			must(0, err)
		}
		if m.rank == 0 && (started == 0 || started == len(ops)) {
			return fmt.Errorf("%d sends start", started)
		}
		return firstError(expect(d, func(i int) byte { return byte(i % bytes) }), m.Close(), p.Weft().Close())
	})
}

// simulatedMachines runs a function on n ranks, each on its own host.
func simulatedMachines(t *testing.T, n int, main func(p *sim.Process, m *Machine) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: n})
	for i := range n {
		f.Process(i, fmt.Sprintf("m/%d", i), func(p *sim.Process) error {
			return tried(func(*Machine) error {
				return main(p, must(On(context.Background(), p.Weft(), must(p.Join(context.Background(), "m", n)))))
			}, nil)
		})
	}
	if err := f.Run(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
}
