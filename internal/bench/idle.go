package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/together"
)

// KindIdle is the measurement of what processes cost that do nothing.
const KindIdle = "idle"

// IdleOptions say which processes do nothing.
type IdleOptions struct {
	Self      string // path of the weft binary
	Processes int
	Programs  int // that the processes are spread over
	Time      time.Duration
}

// IdleRow is what it came to, in shares of a core.
type IdleRow struct {
	Bench     string  `json:"bench"`
	Processes int     `json:"processes"`
	Seconds   float64 `json:"seconds"`
	Daemon    float64 `json:"daemon_core_fraction"`
	Attached  float64 `json:"attached_core_fraction"` // all of the processes together
	Core      float64 `json:"core_fraction"`          // both
}

// settle is how long processes that have just started have to come to rest.
const settle = time.Second

// RunIdle starts a daemon and processes that attach to it and wait for a message that does not come, and measures how
// much of a core all of them use.
func RunIdle(ctx context.Context, o IdleOptions) (r IdleRow, err error) {
	var down undo
	defer down.end(ctx, &err)
	daemon, socket, _, err := down.runDaemon(ctx, place{self: o.Self, listen: "127.0.0.1:0", config: fmt.Sprintf("max_processes = %d\n", max(o.Processes, 128))})
	if err != nil {
		return r, fmt.Errorf("bench: starting a NIC daemon: %w", err)
	}
	var pids []int
	for i := range o.Programs {
		first, next := i*o.Processes/o.Programs, (i+1)*o.Processes/o.Programs
		c, _, err := down.startCrew(o.Self, KindIdle, "--child", "--socket", socket, "--first", fmt.Sprint(first), "--count", fmt.Sprint(next-first))
		if err != nil {
			return r, err
		}
		pids = append(pids, c.Process.Pid)
	}
	if err := sleep(ctx, settle); err != nil {
		return r, err
	}
	fractions, took, err := coreFractions(ctx, o.Time, []int{daemon.Process.Pid}, pids)
	if err != nil {
		return r, err
	}
	r = IdleRow{Bench: KindIdle, Processes: o.Processes, Seconds: took.Seconds(), Daemon: fractions[0], Attached: fractions[1]}
	r.Core = r.Daemon + r.Attached
	return r, daemon.alive()
}

// coreFractions is how much of a core each group of programs uses in the time d, and how long that was indeed.
func coreFractions(ctx context.Context, d time.Duration, groups ...[]int) (fractions []float64, took time.Duration, err error) {
	var before, after []time.Duration
	read := func(into *[]time.Duration) error {
		for _, pids := range groups {
			t, err := processorTime(pids)
			if err != nil {
				return err
			}
			*into = append(*into, t)
		}
		return nil
	}
	begin := time.Now()
	if err := read(&before); err != nil {
		return nil, 0, err
	}
	if err := sleep(ctx, d); err != nil {
		return nil, 0, err
	}
	took = time.Since(begin)
	if err := read(&after); err != nil {
		return nil, 0, err
	}
	for i := range groups {
		fractions = append(fractions, (after[i]-before[i]).Seconds()/took.Seconds())
	}
	return fractions, took, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// BeIdle is a program of idle processes. It says "ready" when all are attached, and ends with its input.
func BeIdle(ctx context.Context, socket string, first, count int, in io.Reader, out io.Writer) (err error) {
	ctx = EndWithInput(ctx, in)
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	var procs []*weft.Process
	for i := range count {
		p, err := down.attach(ctx, socket, weft.Name{App: "weft-idle", Index: uint32(first + i)})
		if err != nil {
			return err
		}
		procs = append(procs, p)
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	err = together.Run(ctx, count, func(ctx context.Context, i int) error {
		_, err := procs[i].Recv(ctx, weft.AnyProcess, weft.AnyTag, make([]byte, 64))
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
