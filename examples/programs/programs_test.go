// Package programs_test runs the example programs in the NICs of simulated fabrics.
package programs_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	nicprogram "github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/program"
	"github.com/weftnet/weft/sim"
)

func TestExamplesAreRightAndFormatted(t *testing.T) {
	files, err := filepath.Glob("*.pdl")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if warnings, err := pdl.Check(file, src); err != nil || len(warnings) > 0 {
			t.Errorf("%v %v", err, warnings)
		}
		if formatted, err := pdl.Format(file, src); err != nil || string(formatted) != string(src) {
			t.Errorf("%s is not in the one form (%v): weft pdl fmt -w brings it there", file, err)
		}
	}
}

// docs/programs.md lists the examples that can reside in the driver: those that need no
// delivery.
func TestTheExamplesThatCanResideInTheDriverAreThoseOfThePage(t *testing.T) {
	files, err := filepath.Glob("../*/*.pdl")
	if err != nil {
		t.Fatal(err)
	}
	var can []string
	for _, file := range files {
		if ebpf.Check(compiled(t, file)) == nil {
			can = append(can, filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file))
		}
	}
	want := []string{"pdl/bucket.pdl", "pdl/counter.pdl", "pdl/filter.pdl", "pdl/store.pdl",
		"programs/deliverget.pdl", "programs/directory.pdl", "programs/pong.pdl"}
	if !slices.Equal(can, want) {
		t.Errorf("%v can reside; the page says %v, or of filters that they guard a process", can, want)
	}
}

// compiled returns the module of an example.
func compiled(t *testing.T, file string) *prog.Module {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pdl.Compile(file, src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fabric returns two NICs and a link between them that loses, repeats and reorders.
func fabric(seed uint64) *sim.Fabric {
	return sim.New(sim.Config{Seed: seed, Faults: sim.Faults{Loss: 0.03, Duplicate: 0.03, Reorder: 0.03}})
}

// load loads an example into the NIC of a host and starts it.
func load(t *testing.T, f *sim.Fabric, host int, id vm.ID, file string) {
	t.Helper()
	if _, _, err := simulated.Engine(f, host).Programs().Load(nicprogram.Spec{Module: compiled(t, file), ID: id, Start: true}); err != nil {
		t.Fatal(err)
	}
	simulated.Turn(f, host)
}

func words(all ...uint64) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func TestPingAndPongExchangeAHundredMessages(t *testing.T) { // PANIC-37, PANIC-40
	for seed := range uint64(5) {
		f := fabric(seed + 1)
		load(t, f, 0, 416, "ping.pdl")
		load(t, f, 1, 415, "pong.pdl")
		f.Process(0, "app/0", func(p *sim.Process) error {
			ping := program.Address{ID: 416}
			if err := program.On(p.Weft()).SendHandled(context.Background(), ping, 1, words(uint64(sim.NICID(1)))); err != nil {
				return err
			}
			sleep(p, 10*time.Second)
			return nil
		})
		if err := f.Run(time.Minute); err != nil {
			t.Fatal(err)
		}
		took, _, err := simulated.Engine(f, 0).Programs().Log(416, 0)
		if err != nil || len(took) != 100 {
			t.Fatalf("seed %d: ping shows %d times, %v", seed+1, len(took), err)
		}
		for i, ns := range took {
			if ns <= 0 {
				t.Errorf("seed %d: exchange %d took %d ns", seed+1, i, ns)
			}
		}
	}
}

func TestTheDirectoryAnswersProcessesOfOtherNICs(t *testing.T) { // PANIC-7
	f := fabric(1)
	load(t, f, 1, 20, "directory.pdl")
	f.Process(0, "app/0", func(p *sim.Process) error {
		programs := program.On(p.Weft())
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		directory := program.Address{NIC: sim.NICID(1), ID: 20}
		for key := range uint64(100) {
			// all keys have the same first place
			if err := programs.SendHandled(ctx, directory, 1, words(key*1024, key+7)); err != nil {
				return err
			}
		}
		for key := range uint64(101) {
			if err := programs.Send(ctx, directory, 2, words(number(p), key*1024)); err != nil {
				return err
			}
			var answer [16]byte
			if _, err := p.Recv(ctx, program.NameOf(20), 2, answer[:]); err != nil {
				return err
			}
			found, value := binary.LittleEndian.Uint64(answer[:]), binary.LittleEndian.Uint64(answer[8:])
			if key < 100 && (found != 1 || value != key+7) || key == 100 && found != 0 {
				return fmt.Errorf("the look-up of key %d finds %d, %d", key, found, value)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
