package sim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft"
	nicprogram "github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/sim"
)

// shaper lets one byte leave each microsecond. Its variable free holds the time in nanoseconds at
// which the next message may leave.
const shaper = `PROGRAM shaper: CONST ns_per_byte = 1000; VAR now, free; TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN
    now = CLOCK;
    IF free < now THEN free = now;
    free = free + PACKET[0] * ns_per_byte;
    PASS AFTER free - now;
END;
END;`

// guardOutgoing loads a program that guards the messages that a process of host 0 sends.
func guardOutgoing(t *testing.T, f *sim.Fabric, process, source string) vm.ID {
	t.Helper()
	m, err := pdl.Compile("guard.pdl", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	name, err := vni.ParseName(process)
	if err != nil {
		t.Fatal(err)
	}
	spec := nicprogram.Spec{Module: m, Start: true, Guards: name, Outgoing: true, Trigger: 1}
	id, _, err := simulated.Engine(f, 0).Programs().Load(spec)
	if err != nil {
		t.Fatal(err)
	}
	simulated.Turn(f, 0)
	return id
}

// A tenant sends messages of all lengths to two receivers, over links that lose, duplicate and
// reorder frames. Each receiver gets its messages in order, and no faster than the guard permits.
// A neighbour on the same NIC is not delayed.
func TestAGuardShapesWhatAProcessSendsAndKeepsItsOrder(t *testing.T) { // PANIC-7
	for seed := range uint64(6) {
		for _, faults := range []sim.Faults{{}, {Loss: 0.02, Duplicate: 0.02, Reorder: 0.05}} {
			t.Run(fmt.Sprintf("seed %d, loss %v", seed, faults.Loss), func(t *testing.T) { shapeTenant(t, seed, faults) })
		}
	}
}

func shapeTenant(t *testing.T, seed uint64, faults sim.Faults) {
	f := sim.New(sim.Config{Seed: seed, NICs: 3, Faults: faults})
	guardOutgoing(t, f, "tenant/0", shaper)
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 7))
	var lengths []int
	total := 0
	for range 60 {
		n := 8 + []int{rng.IntN(60), rng.IntN(3000), rng.IntN(30_000)}[rng.IntN(3)]
		lengths = append(lengths, n)
		total += n
	}
	receivers := []weft.Name{{App: "sink", Index: 1}, {App: "sink", Index: 2}}
	var began, ended time.Time // the tenant's first message leaves; the last one is received
	for i, name := range receivers {
		f.Process(1+i, name.String(), func(p *sim.Process) error {
			buf := make([]byte, 64<<10)
			for k := range lengths {
				m, err := p.Recv(ctx, weft.Name{App: "tenant"}, 1, buf)
				if err != nil {
					return err
				}
				if got := int(binary.LittleEndian.Uint64(buf)); got != k || m.Len != lengths[k] {
					return fmt.Errorf("message %d of %d bytes is number %d; expected %d bytes", got, m.Len, k, lengths[k])
				}
			}
			ended = p.Runtime().Now()
			p.Runtime().Sleep(ctx, time.Second) // until the tenant knows that everything arrived
			return nil
		})
	}
	f.Process(0, "tenant/0", func(p *sim.Process) error {
		if _, err := p.WaitName(ctx, receivers[1]); err != nil {
			return err
		}
		began = p.Runtime().Now()
		done := 0
		for _, to := range receivers {
			p.Start("pour", func(p *sim.Process) error {
				err := pourAll(ctx, p, to, lengths)
				done++
				return err
			})
		}
		for done < len(receivers) {
			p.Runtime().Sleep(ctx, time.Millisecond)
		}
		return nil
	})
	var slowest time.Duration
	f.Serve(2, "echo/0", func(p *sim.Process) error {
		for buf := make([]byte, 64); ; {
			m, err := p.Recv(ctx, weft.AnyProcess, 2, buf)
			if err != nil {
				return nil
			}
			if err := p.Send(ctx, m.From, 2, buf); err != nil {
				return nil
			}
		}
	})
	f.Process(0, "neighbour/0", func(p *sim.Process) error {
		if _, err := p.WaitName(ctx, weft.Name{App: "echo"}); err != nil {
			return err
		}
		buf := make([]byte, 64)
		for range 100 {
			begin := p.Runtime().Now()
			if err := p.Send(ctx, weft.Name{App: "echo"}, 2, buf); err != nil {
				return err
			}
			if _, err := p.Recv(ctx, weft.AnyProcess, 2, buf); err != nil {
				return err
			}
			slowest = max(slowest, p.Runtime().Now().Sub(begin))
			p.Runtime().Sleep(ctx, time.Millisecond)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	took := ended.Sub(began)
	if least := time.Duration(2*total) * time.Microsecond; took < least || took > least*5/4+50*time.Millisecond {
		t.Errorf("%d bytes took %v; the guard lets them leave in %v", 2*total, took, least)
	}
	if faults.Loss == 0 && slowest > time.Millisecond {
		t.Errorf("a round trip of the neighbour took %v", slowest)
	}
	e := simulated.Engine(f, 0)
	if n := e.Count(vni.NICSendsDelayed); n != uint64(2*len(lengths)) {
		t.Errorf("%d messages are counted as delayed, and %d were", n, 2*len(lengths))
	}
}

// pourAll sends numbered messages of the given lengths, with several in flight.
func pourAll(ctx context.Context, p *sim.Process, to weft.Name, lengths []int) error {
	var ops [8]weft.Op
	for k := range len(lengths) + len(ops) {
		o := &ops[k%len(ops)]
		if k >= len(ops) {
			if _, err := o.Wait(ctx); err != nil {
				return err
			}
		}
		if k < len(lengths) {
			b := make([]byte, lengths[k])
			binary.LittleEndian.PutUint64(b, uint64(k))
			if err := p.Weft().Peer(to).StartSend(o, 1, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// If a guard gives no verdict, the message is refused and its sender gets an error. The causes
// are a DROP, an error, a delay that is too long, and an exhausted budget. Without the guard, the
// process sends as before.
func TestWhatAGuardRefusesDoesNotLeaveAndItsSenderHearsSo(t *testing.T) { // PANIC-7
	for what, body := range map[string]string{
		"drops":                  "DROP",
		"divides by zero":        "x = 1 / x; PASS",
		"delays for too long":    "PASS AFTER 20000000000 + x",
		"delays into the past":   "PASS AFTER x - 1",
		"reads behind its words": "x = PACKET[5]; PASS",
		"never ends":             "WHILE x = 0 DO y = y + 1; PASS",
		"stops":                  "IF PACKET[0] > 0 THEN STOP; PASS",
	} {
		t.Run(what, func(t *testing.T) {
			f := sim.New(sim.Config{Seed: 3, NICs: 2})
			id := guardOutgoing(t, f, "tenant/0", "PROGRAM guard: VAR x, y; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN "+body+" END; END;")
			ctx, sink := context.Background(), weft.Name{App: "sink"}
			got := 0
			f.Process(1, "sink/0", func(p *sim.Process) error {
				_, err := p.Recv(ctx, weft.AnyProcess, 1, make([]byte, 64))
				got++
				return err
			})
			f.Process(0, "tenant/0", func(p *sim.Process) error {
				if _, err := p.WaitName(ctx, sink); err != nil {
					return err
				}
				for range 3 {
					if err := p.Send(ctx, sink, 1, make([]byte, 64)); !errors.Is(err, weft.ErrRefused) {
						return fmt.Errorf("a guard that %s: %w", what, err)
					}
				}
				if got != 0 {
					return errors.New("a refused message has left")
				}
				if err := simulated.Engine(f, 0).Programs().Unload(id); err != nil {
					return err
				}
				return p.Send(ctx, sink, 1, make([]byte, 64))
			})
			if err := f.Run(time.Minute); err != nil {
				t.Fatal(err)
			}
			if n := simulated.Engine(f, 0).Count(vni.NICSendsRefused); n != 3 {
				t.Errorf("%d refused messages are counted, expected 3", n)
			}
		})
	}
}
