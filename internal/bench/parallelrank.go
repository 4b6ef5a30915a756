package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/parallel"
)

// parallelPlan is one of the processes of weft bench parallel. It prints the address of its NIC,
// and another line when all ranks have joined. Then it answers questions.
type parallelPlan struct {
	Rank, Ranks int
	Peer        string // address of the NIC of rank 0; empty: this is rank 0
}

// parallelQuestion asks for a work: Warm iterations that are not timed, and Count that are. All
// ranks get the same question.
type parallelQuestion struct {
	Work        string
	Size        int
	Warm, Count int
}

// parallelAnswer holds the durations and the result of a work.
type parallelAnswer struct {
	Count int
	// the compared time: of all iterations, or of the waits in them; ns
	Took  int64
	Whole int64  // of all iterations; ns
	Check string // the result: must equal the baseline's, or that of a serial computation
}

func (a parallelAnswer) each() int64 { return a.Took / int64(max(a.Count, 1)) }

// parallelBench starts the processes: two ranks, each with one half of the processors, and one
// process with all of them.
func (u *undo) parallelBench(ctx context.Context, o *ParallelOptions) (*parallelBench, error) {
	b := &parallelBench{o: o, mpich: newMPICH(u, o.Flags)}
	c, _, err := u.startRank(ctx, newChild(o.Self, childPlan{Parallel: &parallelPlan{Ranks: 1}}.args(KindParallel)...))
	if err != nil {
		return nil, err
	}
	b.alone = []*crew{c}
	addr := ""
	for i := range 2 {
		p := parallelPlan{Rank: i, Ranks: 2, Peer: addr}
		c, at, err := u.startRank(ctx, newChild(o.Self, childPlan{Parallel: &p}.args(KindParallel)...).with(i, 2))
		if err != nil {
			return nil, err
		}
		if b.ranks = append(b.ranks, c); i == 0 {
			addr = at
		}
	}
	for _, c := range append(b.alone, b.ranks...) {
		if _, err := c.line(); err != nil {
			return nil, fmt.Errorf("bench: joining the ranks: %w", err)
		}
	}
	return b, nil
}

// startRank starts a process and returns its first line.
func (u *undo) startRank(ctx context.Context, of *child) (c *crew, line string, err error) {
	if c, err = u.talk(ctx, of); err == nil {
		line, err = c.line()
	}
	if err != nil {
		return nil, "", fmt.Errorf("bench: starting a rank: %w", err)
	}
	return c, line, nil
}

// parallelRank is one rank at work.
type parallelRank struct {
	p *weft.Process
	m *parallel.Machine
}

// run runs the whole process.
func (p *parallelPlan) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	var nodes []weft.Node
	if p.Peer != "" {
		nodes = []weft.Node{{Addr: p.Peer}}
	}
	name := weft.Name{App: "weft-bench", Index: uint32(p.Rank)}
	proc, addr, err := down.open(ctx, place{deployment: DeployedEmbedded, name: name, listen: "shm:", nodes: nodes})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, addr); err != nil {
		return err
	}
	r := &parallelRank{p: proc}
	if err := r.join(ctx, p.Ranks); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	return answerAll(in, out, func(q parallelQuestion) (any, error) {
		a, err := r.do(ctx, q)
		runtime.GC() // so the next work does not find the variables of this one
		return a, err
	})
}

// join makes the machine of the ranks.
func (r *parallelRank) join(ctx context.Context, ranks int) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	g, err := r.p.Join(wait, groupName, ranks)
	if err == nil {
		r.m, err = parallel.On(wait, r.p, g)
	}
	return err
}

// do runs a work.
func (r *parallelRank) do(ctx context.Context, q parallelQuestion) (a parallelAnswer, err error) {
	work := parallelWorks[q.Work]
	if work == nil || q.Size < 1 || q.Warm < 0 || q.Count < 1 {
		return a, fmt.Errorf("bench: %q of size %d, %d iterations: no such work", q.Work, q.Size, q.Count)
	}
	return work(r, ctx, q)
}

// A parallelWork is a function that calls timed with what it measures.
type parallelWork func(r *parallelRank, ctx context.Context, q parallelQuestion) (parallelAnswer, error)

// timed calls f for each iteration. The clock starts when all ranks have done the first Warm
// iterations, and stops when all ranks have done all of them.
func (r *parallelRank) timed(ctx context.Context, q parallelQuestion, f func(i int) error) (parallelAnswer, error) {
	var begin time.Time
	for i := range q.Warm + q.Count {
		if i == q.Warm {
			if err := r.m.Barrier(ctx); err != nil {
				return parallelAnswer{}, err
			}
			begin = time.Now()
		}
		if err := f(i); err != nil {
			return parallelAnswer{}, err
		}
	}
	err := r.m.Barrier(ctx)
	took := time.Since(begin).Nanoseconds()
	return parallelAnswer{Count: q.Count, Took: took, Whole: took}, err
}

// alone is timed without other ranks.
func alone(q parallelQuestion, f func(i int)) parallelAnswer {
	var begin time.Time
	for i := range q.Warm + q.Count {
		if i == q.Warm {
			begin = time.Now()
		}
		f(i)
	}
	took := time.Since(begin).Nanoseconds()
	return parallelAnswer{Count: q.Count, Took: took, Whole: took}
}
