package sim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	nicprogram "github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/program"
	"github.com/weftnet/weft/sim"
)

// load places a program in the NIC of a host and starts it.
func load(t *testing.T, f *sim.Fabric, host int, id vm.ID, source string) vm.ID {
	t.Helper()
	id = place(t, f, host, id, source)
	start(f, host, id)
	return id
}

func start(f *sim.Fabric, host int, id vm.ID) {
	simulated.Engine(f, host).Programs().Start(id)
	simulated.Turn(f, host)
}

func place(t *testing.T, f *sim.Fabric, host int, id vm.ID, source string) vm.ID {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	id, _, err = simulated.Engine(f, host).Programs().Load(nicprogram.Spec{Module: m, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	simulated.Turn(f, host)
	return id
}

func shown(t *testing.T, e *nic.Engine, id vm.ID) []int64 {
	t.Helper()
	values, _, err := e.Programs().Log(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// pong answers the messages of the paper's ping program from the memory in which they arrived.
const pong = `PROGRAM pong: TRIGGERS 12;
BEGIN END;
MESSAGE 12: BEGIN SEND PACKET[0] LEN PACKETLEN AS 10 TO ping AT SOURCE END;
END;`

// sample returns one of the paper's programs unchanged.
func sample(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("WEFT_PDL_SAMPLES")
	if dir == "" {
		t.Skip("WEFT_PDL_SAMPLES names no folder with the paper's programs")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// PANIC-37, PANIC-41: the program of Figure 4 exchanges 100 messages with its peer, and displays
// the times of sending and receiving.
func TestThePapersPingRunsBetweenTwoNICs(t *testing.T) {
	// The NIC id of the paper's peer.
	source, there := sample(t, "ping.pdl"), uint64(0x60<<32|0xdd7f_ff8c)
	for _, faults := range []sim.Faults{{}, {Loss: 0.05, Duplicate: 0.05, Reorder: 0.05}} {
		f := sim.New(simulated.Hooked(sim.Config{Seed: 7, Faults: faults}, simulated.Hooks{IDs: []uint64{1, there}}))
		load(t, f, 1, 415, pong)
		ping := place(t, f, 0, 0, source)
		// The NICs tell each other about their programs.
		if err := f.Settle(time.Second); err != nil {
			t.Fatal(err)
		}
		start(f, 0, ping)
		if err := f.Settle(20 * time.Second); err != nil {
			t.Fatal(err)
		}
		values := shown(t, simulated.Engine(f, 0), ping)
		if len(values) != 200 || !slices.IsSorted(values) || values[0] == values[199] {
			t.Fatalf("with faults %+v it shows %d values, sorted %v", faults, len(values), slices.IsSorted(values))
		}
	}
}

// PANIC-32, PANIC-37: the program of Figure 6 delivers 64 bytes into segment 2.
func TestThePapersDelivertestRunsInANIC(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	mem := vni.AlignedBytes(128 + nicprogram.SegmentTail)
	if err := simulated.Engine(f, 0).Programs().AddSegment(2, mem); err != nil {
		t.Fatal(err)
	}
	id := load(t, f, 0, 0, sample(t, "delivertest.pdl"))
	f.Process(0, "a/0", func(p *sim.Process) error {
		return simulated.Half(p).SendProgram(context.Background(), 0, uint32(id), 10, true)
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	for i, want := range []byte{2, 3, 4, 0} {
		if mem[8*i] != want {
			t.Errorf("word %d of the segment is %d, want %d", i, mem[8*i], want)
		}
	}
}

func TestAProcessIsToldWhatHasBecomeOfItsMessageToAProgram(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	const source = `PROGRAM count: VAR n; TRIGGERS 1, 2;
BEGIN END;
MESSAGE 1: BEGIN n = n + PACKET[0]; DISPLAY n; END;
MESSAGE 2: BEGIN n = 1 / 0 + n; END;
END;`
	there := load(t, f, 1, 9, strings.Replace(source, "1 / 0", "1 / (n - n)", 1))
	here := load(t, f, 0, 8, strings.Replace(source, "1 / 0", "1 / (n - n)", 1))
	f.Process(0, "a/0", func(p *sim.Process) error {
		ctx := context.Background()
		for nic, id := range map[uint64]vm.ID{0: here, uint64(sim.NICID(1)): there} {
			for _, c := range []struct {
				id, trigger uint32
				want        error
			}{{uint32(id), 1, nil}, {uint32(id), 2, proc.ErrProgramFailed}, {uint32(id), 3, proc.ErrNoProgram}, {77, 1, proc.ErrNoProgram}} {
				err := simulated.Half(p).SendProgram(ctx, nic, c.id, c.trigger, true, []byte{5, 0, 0, 0, 0, 0, 0, 0})
				if !errors.Is(err, c.want) || c.want == nil && err != nil {
					return fmt.Errorf("trigger %d of program %d at %d: %v, want %v", c.trigger, c.id, nic, err, c.want)
				}
			}
			if err := simulated.Half(p).SendProgram(ctx, nic, uint32(id), 1, false, []byte{7}); err != nil {
				return err
			}
		}
		p.Runtime().Sleep(context.Background(), time.Second)
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	for host, id := range []vm.ID{here, there} {
		if got := shown(t, simulated.Engine(f, host), id); !slices.Equal(got, []int64{5, 12}) {
			t.Errorf("the program of host %d shows %v, want 5 and 12", host, got)
		}
	}
}

// A process also has a number, by which a program answers it. The process may be on the program's
// NIC or on another one.
func TestAProgramAnswersAProcess(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05}})
	const source = `PROGRAM double: VAR n; TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN n = 2 * PACKETBYTE[8]; SEND n LEN 8 AS 33 TO PACKET[0] AT SOURCE END;
END;`
	for host := range 2 {
		load(t, f, host, 415, source)
	}
	f.Process(0, "a/0", func(p *sim.Process) error {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		slot, gen := simulated.Slot(p)
		number := nicprogram.ProcessNumber(slot, gen)
		for i := range 20 {
			nic := sim.NICID(i % 2)
			request := []byte{byte(number), byte(number >> 8), byte(number >> 16), byte(number >> 24), 0, 0, 0, 0, byte(i)}
			if err := simulated.Half(p).SendProgram(ctx, uint64(nic), 415, 1, false, request); err != nil {
				return err
			}
			var answer [8]byte
			m, err := p.Recv(ctx, weft.Name{App: "program", Index: 415}, 33, answer[:])
			if err != nil || m.Len != 8 || answer[0] != byte(2*i) || m.Addr.NIC != nic {
				return fmt.Errorf("request %d: %v from %v, %v", i, answer, m.Addr, err)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// A simulated process loads programs into its NIC by the same calls as a real process.
func TestASimulatedProcessLoadsAProgramAndTalksToIt(t *testing.T) {
	m, err := pdl.Compile("twice.pdl", []byte(`PROGRAM twice: VAR n; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN n = PACKET[1] * 2; DISPLAY n; SEND n LEN 8 AS 33 TO PACKET[0] AT SOURCE END; END;`))
	if err != nil {
		t.Fatal(err)
	}
	f := sim.New(sim.Config{Seed: sim.Seed(1), Faults: sim.Faults{Loss: 0.03, Duplicate: 0.03, Reorder: 0.03}})
	twice := program.Address{NIC: sim.NICID(1), ID: 415}
	loaded := false
	f.Process(1, "app/1", func(p *sim.Process) error {
		ctx, programs := context.Background(), program.On(p.Weft())
		if _, err := programs.Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{ID: 415}); err != nil {
			return err
		}
		if err := programs.Start(ctx, program.Address{ID: 415}); err != nil {
			return err
		}
		_, err := program.On(p.Weft()).List(ctx, sim.NICID(0))
		if !errors.Is(err, weft.ErrBadArgument) || strings.Count(err.Error(), "weft: ") != 1 {
			return fmt.Errorf("programs of another NIC: %v", err)
		}
		loaded = true
		p.Runtime().Sleep(ctx, 5*time.Second)
		values, _, err := programs.Log(ctx, twice, 0)
		if err != nil || len(values) != 20 || values[19] != 38 {
			return fmt.Errorf("the log is %v, %v", values, err)
		}
		l, err := programs.List(ctx, 0)
		if err != nil || len(l) != 1 || l[0].Name != "twice" || l[0].Activations != 21 {
			return fmt.Errorf("the programs are %+v, %v", l, err)
		}
		return programs.Unload(ctx, twice)
	})
	f.Process(0, "app/0", func(p *sim.Process) error {
		ctx, programs := context.Background(), program.On(p.Weft())
		for !loaded {
			p.Runtime().Sleep(ctx, time.Millisecond)
		}
		for i := range uint64(20) {
			question := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(programs.Number())), i)
			if err := programs.Send(ctx, twice, 1, question); err != nil {
				return err
			}
			var answer [8]byte
			if _, err := p.Recv(ctx, program.NameOf(415), 33, answer[:]); err != nil || binary.LittleEndian.Uint64(answer[:]) != 2*i {
				return fmt.Errorf("answer %d is %v, %v", i, answer, err)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
