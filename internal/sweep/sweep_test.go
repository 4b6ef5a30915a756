package sweep

import (
	"context"
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/sim"
)

var long = flag.Bool("long", false, "run all that CI runs by hand: 1,000 seeds, and every defect")

// seeds returns the number of seeds for a test. The usual numbers are small: weft sim runs more of
// the same seeds.
func seeds(short, usual, all int) int {
	switch {
	case *long:
		return all
	case testing.Short():
		return short
	}
	return usual
}

func TestEverySeedKeepsEveryPromise(t *testing.T) {
	first := sim.Seed(1)
	r := Sweep(context.Background(), Options{First: first, Seeds: seeds(4, 12, 1000)})
	for _, f := range r.Findings {
		t.Errorf("seed %d: %s\nreplay: %s", f.Seed, strings.Join(f.Violations, "\n"), f.Replay)
	}
	if m := r.Faults.Missing(); *long && len(m) > 0 {
		t.Errorf("faults that never happened: %v", m)
	}
	t.Logf("%+v", r.Totals)
}

func TestOneSeedIsOneRun(t *testing.T) {
	for seed := range uint64(seeds(1, 2, 20)) {
		a, b := Run(seed+1, mutate.None), Run(seed+1, mutate.None)
		if a.Trace != b.Trace || !reflect.DeepEqual(a.Totals, b.Totals) {
			t.Errorf("seed %d: traces %x and %x\n%+v\n%+v", seed+1, a.Trace, b.Trace, a.Totals, b.Totals)
		}
	}
}

func TestDefectsAreCaught(t *testing.T) {
	names := []string{"tag-ignored", "chunk-off-by-one"}
	if *long {
		names = mutate.Names()
	}
	for _, name := range names {
		d, err := mutate.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if r := Sweep(context.Background(), Options{First: 1, Seeds: 1000, Defect: d, Stop: true}); r.Violations == 0 {
			t.Errorf("%v was not caught in %d seeds", d, r.Seeds)
		} else {
			t.Logf("%v was caught after %d seeds: %s", d, r.Seeds, r.Findings[0].Violations[0])
		}
	}
}

// Issue 2 requires of each seed at least 8 NICs, 16 processes and 2,000 messages, with PUT and
// GET.
func TestEveryPlanIsLargeEnough(t *testing.T) {
	var reliable, calm, staged, fewSlots int
	for seed := range uint64(1000) {
		p := newPlan(seed)
		if p.nics < 8 || p.procs < 16 || p.messages < 2000 || p.puts == 0 || p.gets == 0 {
			t.Errorf("seed %d: %d NICs, %d processes, %d messages, %d PUT, %d GET", seed, p.nics, p.procs, p.messages, p.puts, p.gets)
		}
		if err := p.hooks.Geometry.Validate(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		reliable += count(p.link.Reliable)
		calm += count(p.calm())
		staged += count(p.hooks.Pool)
		fewSlots += count(p.hooks.MaxProcesses*p.nics == p.procs)
	}
	if min(reliable, calm, staged, fewSlots) < 30 {
		t.Errorf("of 1000 plans %d have a reliable link, %d are calm, %d stage, %d have no slot to spare", reliable, calm, staged, fewSlots)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestMissingFaultsAreNamed(t *testing.T) {
	f := Faults{Hostile: 1}
	f.Lost = 1
	m := f.Missing()
	if len(m) == 0 {
		t.Fatal("none is missing")
	}
	for _, name := range m {
		if name == "lost" || name == "hostile" || name == "" {
			t.Errorf("missing: %q", name)
		}
	}
}
