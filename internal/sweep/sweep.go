package sweep

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/mutate"
)

// Options selects the runs.
type Options struct {
	First   uint64 // the first seed
	Seeds   int    // number of seeds, one after the other
	Defect  mutate.Defect
	Stop    bool      // at the first seed with a violation
	Log     io.Writer // gets a log of the faults; may be nil
	Workers int       // number of concurrent runs; 0: the number of processors
}

// mostFindings is the number of seeds whose violations a report lists in full.
const mostFindings = 10

// Sweep runs the seeds and adds up their figures. Findings are in the order of their seeds.
func Sweep(ctx context.Context, o Options) *Report {
	began := time.Now()
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	results := make([]*Result, o.Seeds)
	var next atomic.Int64
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for range o.Workers {
		wg.Go(func() {
			for ctx.Err() == nil && !stopped.Load() {
				i := next.Add(1) - 1
				if i >= int64(o.Seeds) {
					return
				}
				r := RunLogged(o.First+uint64(i), o.Defect, o.Log)
				results[i] = r
				if o.Stop && len(r.Violations) > 0 {
					stopped.Store(true)
				}
			}
		})
	}
	wg.Wait()
	report := &Report{Seconds: time.Since(began).Seconds()}
	for _, r := range results {
		if r != nil {
			report.add(r)
		}
	}
	return report
}

func (r *Report) add(one *Result) {
	r.Totals.add(&one.Totals)
	if len(one.Violations) > 0 && len(r.Findings) < mostFindings {
		r.Findings = append(r.Findings, Finding{one.Seed, one.Violations, replay(one.Seed, one.Defect)})
	}
}

// replay returns the command that repeats a run.
func replay(seed uint64, d mutate.Defect) string {
	if d == mutate.None {
		return fmt.Sprintf("weft sim --seed %d", seed)
	}
	return fmt.Sprintf("weft sim --seed %d --mutate %v", seed, d)
}
