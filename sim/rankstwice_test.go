package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// twins is a job of two ranks. Rank 0 has one process. Rank 1 has several processes on two hosts.
// They start at random times, in any order of their incarnations, and meet partitions and
// restarts. A process of another job also claims the name. Rank 0 notes which process of rank 1
// is with it in a group.
type twins struct {
	f       *sim.Fabric
	rng     *rand.Rand
	of      map[*sim.Process]*twin
	all     []*twin
	begins  *twin
	calm    bool // no partitions or restarts
	groups  int  // groups in which rank 0 has been
	partner int  // rank 1's process in the present group; 0: not known
	broken  []error
}

// twin is one process of rank 1.
type twin struct {
	number  int // its incarnation
	p       *sim.Process
	refused error
	joined  bool
}

// alive reports whether the process runs and has not been told of a newer process.
func (w *twin) alive() bool { return w.refused == nil && !w.p.Over() && !w.p.Detached() }

// member reports whether the process lives, belongs to the job, and has been in a group.
func (w *twin) member() bool { return w.number != foreign && w.joined && w.alive() }

const (
	twinsSeeds = 24

	foreign     = 9                // number of the process of another job
	twinsRun    = 40 * time.Second // of virtual time
	twinsSettle = 15 * time.Second // without partitions or restarts, before the end
)

func newTwins(seed uint64, defect mutate.Defect) *twins {
	w := &twins{rng: rand.New(rand.NewPCG(seed, 77)), of: make(map[*sim.Process]*twin)}
	hooks := simulated.Hooks{Defect: defect, Life: w.life, Refused: func(p any, err error) { w.of[p.(*sim.Process)].refused = err }}
	faults := sim.Faults{Loss: 0.02 * w.rng.Float64(), Duplicate: 0.02 * w.rng.Float64(), Reorder: 0.02 * w.rng.Float64()}
	w.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: 4, Faults: faults}, hooks))
	w.f.Process(0, "w/0", w.rankZero)
	order := w.rng.Perm(4)
	for i, n := range order {
		w.later(i, &twin{number: 1 + n})
	}
	w.later(len(order), &twin{number: foreign})
	w.calm = w.rng.IntN(2) == 0
	for range 4 {
		if !w.calm {
			w.disturb()
		}
	}
	return w
}

// later starts a process of rank 1 at a random time.
func (w *twins) later(i int, one *twin) {
	w.all = append(w.all, one)
	at, host := time.Duration(i)*4*time.Second+time.Duration(w.rng.Int64N(int64(4*time.Second))), 1+w.rng.IntN(2)
	w.f.After(at, func() {
		w.begins = one
		one.p = w.f.Serve(host, "w/1", func(p *sim.Process) error { w.rankOne(p, one); return nil })
		w.of[one.p], w.begins = one, nil
	})
}

func (w *twins) life(p any) vni.Life {
	one := w.of[p.(*sim.Process)]
	if one == nil {
		one = w.begins // Serve has not returned
	}
	if one == nil { // rank 0
		return vni.Life{}
	}
	l := vni.Life{Incarnation: uint64(one.number), Key: [32]byte{1}}
	if one.number == foreign {
		l.Key[0] = 2
	}
	return l
}

// disturb cuts hosts off, or restarts a host of rank 1, as long as enough time is left to settle.
func (w *twins) disturb() {
	at := time.Duration(w.rng.Int64N(int64(twinsRun - twinsSettle - 5*time.Second)))
	lasts := time.Duration(w.rng.Int64N(int64(4 * time.Second)))
	host := w.rng.IntN(4)
	w.f.After(at, func() {
		if w.rng.IntN(4) == 0 && (host == 1 || host == 2) {
			for _, o := range w.all {
				if o.p != nil && o.p.Host() == host {
					w.f.Kill(o.p)
				}
			}
			w.f.StopNIC(host)
			w.f.After(lasts, func() { w.f.StartNIC(host) })
			return
		}
		heal := w.f.Partition(host)
		w.f.After(lasts, heal)
	})
}

// rankOne joins the world and reduces, until it learns of a newer process.
func (w *twins) rankOne(p *sim.Process, one *twin) {
	w.inWorld(p, func(ctx context.Context, g *weft.Group) error {
		one.joined = true
		v := []int64{int64(one.number)}
		return weft.AllReduce(ctx, g, weft.Sum, v)
	})
}

// rankZero notes the process of rank 1 in each reduction.
func (w *twins) rankZero(p *sim.Process) error {
	was := (*weft.Group)(nil)
	w.inWorld(p, func(ctx context.Context, g *weft.Group) error {
		if g != was {
			was, w.partner = g, 0
			w.groups++
		}
		v := []int64{0}
		if err := weft.AllReduce(ctx, g, weft.Sum, v); err != nil {
			return err
		}
		w.met(int(v[0]))
		return nil
	})
	return nil
}

// met checks the invariant: no two processes of a rank are in one group, and no process of
// another job is in a group while a process of this job is. A NIC that was cut off may lose the
// names of its processes to any other.
func (w *twins) met(number int) {
	switch {
	case number == foreign && w.calm && w.partner != foreign && slices.ContainsFunc(w.all, (*twin).member):
		w.breaks("a process of another job is in a group")
	case w.partner != 0 && w.partner != number:
		w.breaks("processes %d and %d of rank 1 are in one group", w.partner, number)
	}
	w.partner = number
}

func (w *twins) breaks(format string, args ...any) {
	if len(w.broken) > 0 {
		return // the other errors follow from the first
	}
	w.broken = append(w.broken, fmt.Errorf("after %v: "+format, append([]any{w.f.Elapsed()}, args...)...))
}

// inWorld joins the world repeatedly, and works in it until the work fails.
func (w *twins) inWorld(p *sim.Process, work func(context.Context, *weft.Group) error) {
	for w.f.Elapsed() < twinsRun && !p.Detached() {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 3*time.Second)
		g, err := p.Join(ctx, "world", 2)
		for err == nil && w.f.Elapsed() < twinsRun {
			if err = work(ctx, g); err == nil {
				err = p.Runtime().Sleep(ctx, 20*time.Millisecond)
			}
		}
		cancel()
		if g != nil {
			_ = g.Close()
		}
		if errors.Is(err, weft.ErrNameLost) {
			return // a newer process has the name
		}
		if p.Runtime().Sleep(context.Background(), 50*time.Millisecond) != nil {
			return
		}
	}
}

// run returns the errors of the run: broken invariants, and processes that should have learned of
// a newer one but did not.
func (w *twins) run() error {
	err := w.f.Run(5 * time.Minute)
	return errors.Join(append(w.broken, err)...)
}

// settled returns the errors shortly before the end: among the live processes, only the newest
// may have the rank.
func (w *twins) settled() {
	newest, live := 0, 0
	for _, o := range w.all {
		if o.p != nil && o.alive() {
			live++
			newest = max(newest, o.number)
		}
	}
	if live > 1 {
		w.breaks("%d processes of rank 1 live", live)
	}
	if w.calm {
		newest = 4
	}
	if live == 1 && w.partner != newest || w.calm && live != 1 {
		w.breaks("rank 0 is in a group with process %d, of %d that live; expected %d", w.partner, live, newest)
	}
}

func runTwins(seed uint64, defect mutate.Defect) error {
	w := newTwins(seed, defect)
	w.f.After(twinsRun-time.Second, w.settled)
	return w.run()
}

// Two live processes of one rank are never both in a group, despite partitions and restarts. The
// newer one stays.
func TestTwoProcessesOfARankAreNeverBothInAGroup(t *testing.T) {
	for seed := range uint64(twinsSeeds) {
		if err := runTwins(seed, mutate.None); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func TestEachDefectOfTwoProcessesOfARankIsFound(t *testing.T) {
	for _, d := range mutate.RankDefects() {
		found := false
		for seed := uint64(0); seed < twinsSeeds && !found; seed++ {
			if err := runTwins(seed, d); err != nil {
				t.Logf("%v: seed %d: %v", d, seed, err)
				found = true
			}
		}
		if !found {
			t.Errorf("defect %v is not found in %d seeds", d, twinsSeeds)
		}
	}
}
