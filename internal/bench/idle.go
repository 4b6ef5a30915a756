package bench

import (
	"context"
	"fmt"
	"time"
)

// KindIdle is the measurement of what idle processes cost.
const KindIdle = "idle"

// IdleOptions say how many processes are idle.
type IdleOptions struct {
	Self string // path of the weft binary
	Sealing
	Processes int
	Programs  int // over which the processes are spread
	Time      time.Duration
}

// IdleRow holds the result, in shares of a core.
type IdleRow struct {
	Bench     string  `json:"bench"`
	Sealed    bool    `json:"sealed"` // the links between NICs
	Processes int     `json:"processes"`
	Seconds   float64 `json:"seconds"`
	Daemon    float64 `json:"daemon_core_fraction"`
	Attached  float64 `json:"attached_core_fraction"` // all processes together
	Core      float64 `json:"core_fraction"`          // both
}

// settle is how long processes that have just started have to come to rest.
const settle = time.Second

// RunIdle starts a daemon and processes that attach to it and wait for a message that does not
// come. It measures how much of a core all of them use.
func RunIdle(ctx context.Context, o IdleOptions) (r IdleRow, err error) {
	var down undo
	defer down.end(ctx, &err)
	daemon, err := down.startDaemon(ctx,
		place{self: o.Self, listen: "127.0.0.1:0", config: fmt.Sprintf("max_processes = %d\n", max(o.Processes, 128)),
			sealing: o.Sealing})
	if err != nil {
		return r, err
	}
	crews, err := down.spread(ctx, o.Self, KindIdle, o.Processes, o.Programs,
		crewPlan{Socket: daemon.socket, App: "weft-idle", Size: 64, Takes: 1})
	if err != nil {
		return r, err
	}
	var pids []int
	for _, c := range crews {
		pids = append(pids, c.Process.Pid)
	}
	if err := sleep(ctx, settle); err != nil {
		return r, err
	}
	fractions, took, err := coreFractions(ctx, o.Time, []int{daemon.Process.Pid}, pids)
	if err != nil {
		return r, err
	}
	r = IdleRow{Bench: KindIdle, Sealed: o.Sealed, Processes: o.Processes, Seconds: took.Seconds(),
		Daemon: fractions[0], Attached: fractions[1]}
	r.Core = r.Daemon + r.Attached
	return r, daemon.alive()
}

// coreFractions returns how much of a core each group of programs uses in the time d, and the
// actual length of that time.
func coreFractions(
	ctx context.Context, d time.Duration, groups ...[]int,
) (fractions []float64, took time.Duration, err error) {
	used := make([]time.Duration, len(groups))
	read := func() error {
		for i, pids := range groups {
			now, err := processorTime(pids)
			if err != nil {
				return err
			}
			used[i] = now - used[i]
		}
		return nil
	}
	begin := time.Now()
	if err := read(); err != nil {
		return nil, 0, err
	}
	if err := sleep(ctx, d); err != nil {
		return nil, 0, err
	}
	took = time.Since(begin)
	if err := read(); err != nil {
		return nil, 0, err
	}
	for _, t := range used {
		fractions = append(fractions, t.Seconds()/took.Seconds())
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
