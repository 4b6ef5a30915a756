package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// KindParallel is the measurement of package parallel in comparison with plain loops, messages
// and MPICH.
const KindParallel = "parallel"

// The cases of weft bench parallel.
const (
	ParallelJacobi    = "jacobi"
	ParallelJacobi2   = "jacobi-2"
	ParallelHalo      = "halo"
	ParallelHidden    = "hidden"
	ParallelScan      = "scan"
	ParallelOrder     = "order"
	ParallelStencil   = "stencil"
	ParallelTranspose = "transpose"
)

// ParallelOptions say what to measure.
type ParallelOptions struct {
	Self   string        // path of the weft binary
	Cases  []string      // empty: all
	Time   time.Duration // for each case and its baseline together
	Rounds int           // in which the two take turns
	Small  bool          // small shapes, for tests
	Flags  string        // of the compiler of MPICH's programs
}

// ParallelRow is one case and its baseline. The times are medians of the rounds.
type ParallelRow struct {
	Bench      string `json:"bench"`
	Case       string `json:"case"`
	Ranks      int    `json:"ranks"`
	Size       int    `json:"size"`       // side of a square shape, number of elements, or bytes
	Iterations int    `json:"iterations"` // in each round
	Took       int64  `json:"took_ns"`    // per iteration
	Baseline   string `json:"baseline"`
	BaseTook   int64  `json:"baseline_ns"` // per iteration

	// Took by BaseTook, or as Measure says: the median of RoundRatios
	Ratio   float64 `json:"ratio"`
	Measure string  `json:"measure"`
	Bound   float64 `json:"bound"`
	// the bound is a minimum of the ratio, otherwise a maximum
	AtLeast     bool      `json:"at_least"`
	Aim         bool      `json:"aim"` // the bound is an aim, not a requirement
	Met         bool      `json:"met"`
	RoundRatios []float64 `json:"round_ratios"`

	Missing string `json:"missing,omitempty"` // why there are no figures
}

// The forms of a ratio.
const (
	ofTimes  = "time / baseline"
	ofSpeeds = "speed / baseline"
	ofHidden = "share hidden"
)

// A parallelCase is a work of package parallel and its baseline.
type parallelCase struct {
	name        string
	work, base  string
	ranks       int // of the work; 1: it runs in the process of the plain loops
	baseRanks   int // of the baseline; 0: MPICH
	baseline    string
	serial      bool // the result must equal the work's at one rank, instead of the baseline's
	size, small int
	measure     string
	bound       float64
	aim         bool
}

var parallelCases = []parallelCase{
	{ParallelJacobi, workJacobi, workJacobiPlain, 1, 1, "a Go loop", false, 1024, 64, ofSpeeds, 0.95, false},
	{ParallelJacobi2, workJacobi, workJacobiGoroutines, 2, 1, "two goroutines", false, 1024, 64, ofSpeeds, 0.95, true},
	{ParallelHalo, workHalo, workCall, 2, 2, "Call", false, 8 << 10, 8 << 10, ofTimes, 1.3, false},
	{ParallelHidden, workWaitHidden, workWaitAlone, 2, 2, "no overlap", false, 1024, 64, ofHidden, 0.8, true},
	{ParallelScan, workScan, workCopy, 1, 1, "copy", false, 1 << 24, 1 << 12, ofTimes, 2.5, false},
	{ParallelOrder, workSum, workSumFree, 2, 2, "free order", true, 1 << 22, 1 << 12, ofTimes, 1.1, false},
	{ParallelStencil, workStencil, workStencil, 2, 0, "MPICH", false, 2000, 100, ofTimes, 1.1, false},
	{ParallelTranspose, workTranspose, workTranspose, 2, 0, "MPICH", false, 2000, 100, ofTimes, 1.1, false},
}

// ParallelCases lists the cases.
func ParallelCases() (names []string) {
	for _, c := range parallelCases {
		names = append(names, c.name)
	}
	return names
}

// RunParallel measures each case, and passes each row to out. In each round of a case, the work
// and its baseline take turns:
//
//	round      1            2            3
//	work       ────         ────         ────
//	baseline       ────         ────         ────
func RunParallel(ctx context.Context, o ParallelOptions, out func(ParallelRow) error) (err error) {
	if err := CheckRounds(o.Time, o.Rounds); err != nil {
		return err
	}
	var down undo
	defer down.end(ctx, &err)
	b, err := down.parallelBench(ctx, &o)
	if err != nil {
		return err
	}
	for i := range parallelCases {
		c := &parallelCases[i]
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, c.name) {
			continue
		}
		row, err := b.measure(ctx, c)
		if err != nil {
			return fmt.Errorf("bench: %s: %w", c.name, err)
		}
		if err := out(row); err != nil {
			return err
		}
	}
	return nil
}

// parallelBench holds the processes that run the works.
type parallelBench struct {
	o     *ParallelOptions
	alone []*crew // one process, for works of one rank and for plain loops
	ranks []*crew // two processes, the ranks of a machine
	mpich *mpich
}

// measure makes the row of a case.
func (b *parallelBench) measure(ctx context.Context, c *parallelCase) (ParallelRow, error) {
	row := ParallelRow{Bench: KindParallel, Case: c.name, Ranks: c.ranks, Size: c.size, Baseline: c.baseline,
		Measure: c.measure, Bound: c.bound, AtLeast: c.measure != ofTimes, Aim: c.aim}
	if b.o.Small {
		row.Size = c.small
	}
	if c.baseRanks == 0 {
		row.Baseline += " " + b.o.Flags
		if row.Missing = b.mpich.missing; row.Missing != "" {
			return row, nil
		}
	}
	count, err := b.iterations(ctx, c, row.Size)
	if err != nil {
		return row, err
	}
	row.Iterations = count
	want := ""
	if c.serial {
		one, err := b.do(ctx, 1, parallelQuestion{c.work, row.Size, warmIterations, 1})
		if want = one.Check; err != nil {
			return row, fmt.Errorf("one rank: %w", err)
		}
	}
	var works, bases []parallelAnswer
	for range b.o.Rounds {
		work, err := b.do(ctx, c.ranks, parallelQuestion{c.work, row.Size, warmIterations, count})
		if err != nil {
			return row, err
		}
		base, err := b.do(ctx, c.baseRanks, parallelQuestion{c.base, row.Size, warmIterations, count})
		if err != nil {
			return row, fmt.Errorf("baseline: %w", err)
		}
		if !c.serial {
			want = base.Check
		}
		if work.Check != want {
			return row, fmt.Errorf("the result is %s; expected %s, that of the baseline or of one rank",
				work.Check, want)
		}
		works, bases = append(works, work), append(bases, base)
		row.RoundRatios = append(row.RoundRatios, c.ratio(&work, &base))
	}
	row.Took, row.BaseTook = medianOf(works, parallelAnswer.each), medianOf(bases, parallelAnswer.each)
	row.Ratio = median(row.RoundRatios)
	row.Met = row.Ratio >= row.Bound == row.AtLeast || row.Ratio == row.Bound
	return row, nil
}

// warmIterations are the iterations of a round that are not timed.
const warmIterations = 3

// ratio relates the two turns of a round.
func (c *parallelCase) ratio(work, base *parallelAnswer) float64 {
	w, b := float64(work.Took), float64(base.Took)
	switch c.measure {
	case ofSpeeds:
		return b / w
	case ofHidden:
		return 1 - w/b
	}
	return w / b
}

// iterations returns how many iterations fill half a round.
func (b *parallelBench) iterations(ctx context.Context, c *parallelCase, size int) (int, error) {
	const trial = 5
	a, err := b.do(ctx, c.ranks, parallelQuestion{c.work, size, warmIterations, trial})
	if err != nil {
		return 0, err
	}
	each := max(a.Whole/trial, 1)
	n := b.o.Time.Nanoseconds() / int64(2*b.o.Rounds) / each
	return int(min(max(n, trial), 1_000_000)), nil
}

// do asks the processes for a work, and returns the answer of all of them.
func (b *parallelBench) do(ctx context.Context, ranks int, q parallelQuestion) (parallelAnswer, error) {
	asked := b.alone
	switch ranks {
	case 0:
		return b.mpich.do(ctx, q)
	case 2:
		asked = b.ranks
	}
	for _, c := range asked {
		c.tell(q)
	}
	var all parallelAnswer
	var errs []error
	for i, c := range asked {
		var a parallelAnswer
		errs = append(errs, c.hear(&a))
		if i == 0 {
			all = a
		}
	}
	return all, errors.Join(errs...)
}
