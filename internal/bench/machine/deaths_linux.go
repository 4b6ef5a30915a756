package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/testbed"
)

// The kinds of death.
const (
	dieExit     = "rank-exits-3"
	dieKilled   = "rank-killed"
	dieFault    = "rank-segv"
	dieDeaf     = "ranks-ignore-term"
	dieStopped  = "rank-stopped"
	dieForked   = "rank-forks-twice"
	dieDaemon   = "daemon-killed"
	dieOwn      = "launchers-daemon-killed"
	dieLauncher = "launcher-killed"
	dieHangup   = "launcher-hup"
	dieInt      = "launcher-int"
	dieSuspend  = "launcher-suspended-and-killed"
	dieCut      = "host-cut"

	sleeper = "sleeper" // a process that a rank leaves behind
)

// Deaths returns the kinds of death.
func Deaths() []string {
	return []string{dieExit, dieKilled, dieFault, dieDeaf, dieStopped, dieForked, dieDaemon, dieOwn, dieLauncher,
		dieHangup, dieInt, dieSuspend, dieCut}
}

// DeathsOptions say which deaths to try.
type DeathsOptions struct {
	Self   string // path of the weft binary
	Hosts  int
	Ranks  int
	Rounds int
	Kinds  []string // empty: all
	Grace  time.Duration
}

// DeathsRow is the result of the rounds of one kind.
type DeathsRow struct {
	Bench  string   `json:"bench"`
	Kind   string   `json:"kind"`
	Hosts  int      `json:"hosts"`
	Ranks  int      `json:"ranks"`
	Rounds int      `json:"rounds"`
	Median int64    `json:"median_ns"` // from the death until nothing is left
	Most   int64    `json:"most_ns"`
	Bound  int64    `json:"bound_ns"`
	Late   int      `json:"late"` // rounds beyond the bound
	Left   []string `json:"left,omitempty"`
	Said   string   `json:"said,omitempty"` // the last line of one launcher
}

// RunDeaths makes hosts, runs jobs on them, ends them in each way, and looks for leftovers. The
// error names what was left after the longest wait, or what could not be tried.
func RunDeaths(ctx context.Context, o DeathsOptions, row func(DeathsRow) error) (err error) {
	if len(o.Kinds) == 0 {
		o.Kinds = Deaths()
	}
	if err := testbed.Check(); err != nil {
		return err
	}
	slots := (o.Ranks + o.Hosts - 1) / o.Hosts
	f, err := newFleet(ctx, o.Self, o.Hosts, slots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	var wrong []error
	for _, kind := range o.Kinds {
		r, err := f.die(ctx, &o, kind, slots)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if err := row(r); err != nil {
			return err
		}
		if len(r.Left) > 0 {
			wrong = append(wrong, fmt.Errorf("%s left behind: %s", kind, strings.Join(r.Left, "; ")))
		}
	}
	return errors.Join(wrong...)
}

// die runs the rounds of one kind.
func (f *fleet) die(ctx context.Context, o *DeathsOptions, kind string, slots int) (DeathsRow, error) {
	r := DeathsRow{Bench: KindDeaths, Kind: kind, Hosts: o.Hosts, Ranks: o.Ranks, Rounds: o.Rounds}
	bound := o.Grace + time.Second
	if kind == dieCut { // the other hosts notice its silence
		bound += limits.UnreachableAfter
	}
	r.Bound = int64(bound)
	var took []time.Duration
	for range o.Rounds {
		d := &death{f: f, o: o, kind: kind}
		one, left, err := d.round(ctx)
		if err != nil {
			return r, err
		}
		took = append(took, one)
		r.Left, r.Said = append(r.Left, left...), d.said()
		if one > bound {
			r.Late++
		}
		r.Most = max(r.Most, int64(one))
		if err := d.mend(ctx, slots); err != nil {
			return r, err
		}
	}
	r.Median = int64(median(took))
	return r, nil
}

// death is one round.
type death struct {
	f        *fleet
	o        *DeathsOptions
	kind     string
	dir      string
	launcher *testbed.Cmd
	ended    chan struct{}
	stderr   lastWords
}

// victim returns the host on which daemons die and links are cut. That is the last one, since
// the launcher is on the first. For dieOwn it is the first: the launcher's daemon is there.
func (d *death) victim() *host {
	if d.kind == dieOwn {
		return d.f.hosts[0]
	}
	return d.f.hosts[len(d.f.hosts)-1]
}

// round starts a job, strikes it, and returns how long anything of it stayed.
func (d *death) round(ctx context.Context) (took time.Duration, left []string, err error) {
	if d.dir, err = os.MkdirTemp(d.f.dir, "round-"); err != nil {
		return 0, nil, err
	}
	first := d.f.hosts[0]
	d.launcher = first.command(ctx, "run", "-m", machineName, "-n", fmt.Sprint(d.o.Ranks), "--grace",
		d.o.Grace.String(), "--", d.f.self, "victim", d.kind, d.dir)
	d.launcher.Stderr = &d.stderr
	d.launcher.SysProcAttr.Setpgid = true
	if err := d.launcher.Start(); err != nil {
		return 0, nil, err
	}
	d.ended = make(chan struct{})
	go func() {
		_ = d.launcher.Wait()
		close(d.ended)
	}()
	over := false
	err = first.until(ctx, "all ranks run", func() bool {
		over = d.over()
		return over || d.allRun()
	})
	if over {
		err = errors.New("the launcher ended before all ranks ran")
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %s", err, d.stderr.all())
	}
	began := time.Now()
	if err := d.strike(); err != nil {
		return 0, nil, err
	}
	if d.kind == dieSuspend {
		if err := first.until(ctx, "launcher and ranks are stopped", d.allStopped); err != nil {
			return 0, nil, err
		}
		began = time.Now()
		_ = d.launcher.Process.Kill()
	}
	left = d.watch(ctx)
	return time.Since(began), left, nil
}

// over reports whether the launcher has ended.
func (d *death) over() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// allRun reports whether every rank has reported that it runs.
func (d *death) allRun() bool {
	ranks, _ := filepath.Glob(filepath.Join(d.dir, "rank.*"))
	return len(ranks) == d.o.Ranks
}

// allStopped reports whether the launcher and all ranks are stopped.
func (d *death) allStopped() bool {
	for i := range d.o.Ranks {
		b, err := os.ReadFile(filepath.Join(d.dir, fmt.Sprint("rank.", i)))
		var pid int
		if _, scan := fmt.Sscan(string(b), &pid); err != nil || scan != nil || !stopped(pid) {
			return false
		}
	}
	return stopped(d.launcher.Process.Pid)
}

// strike causes the death.
func (d *death) strike() error {
	switch d.kind {
	case dieDaemon, dieOwn:
		return d.victim().daemon.Process.Kill()
	case dieLauncher:
		return d.launcher.Process.Kill()
	case dieHangup:
		return d.launcher.Process.Signal(syscall.SIGHUP)
	case dieInt:
		return syscall.Kill(-d.launcher.Process.Pid, syscall.SIGINT)
	case dieSuspend:
		return syscall.Kill(-d.launcher.Process.Pid, syscall.SIGTSTP)
	case dieCut:
		return d.victim().SetPlugged(false)
	}
	return os.WriteFile(filepath.Join(d.dir, "go"), nil, 0o600)
}

// watch waits until nothing of the job is left, and returns what is left after settleWithin.
func (d *death) watch(ctx context.Context) (left []string) {
	for end := time.Now().Add(settleWithin); ; time.Sleep(2 * time.Millisecond) {
		left = left[:0]
		for _, h := range d.f.hosts {
			for _, p := range h.strangers() {
				left = append(left, fmt.Sprintf("process %d on host %d: %s", p.pid, h.Index(), p.args))
			}
		}
		if len(left) == 0 || ctx.Err() != nil || time.Now().After(end) {
			break
		}
	}
	if len(left) > 0 {
		_ = d.launcher.Process.Kill() // it may wait for them
	}
	<-d.ended
	return append(left, d.holdings()...)
}

// holdings waits until the daemons hold no more than before the job, and returns what they still
// hold after 10 s.
func (d *death) holdings() (left []string) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left = left[:0]
		for _, h := range d.f.hosts {
			if h == d.victim() && (d.kind == dieDaemon || d.kind == dieOwn) {
				continue
			}
			now, err := holdingsOf(h.daemon.Process.Pid)
			if more := now.more(h.holds); err == nil && more != "" {
				left = append(left, fmt.Sprintf("host %d: %s", h.Index(), more))
			} else if err != nil {
				left = append(left, fmt.Sprintf("host %d: its daemon: %v", h.Index(), err))
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// mend repairs the fleet.
func (d *death) mend(ctx context.Context, slots int) error {
	h := d.victim()
	switch d.kind {
	case dieDaemon, dieOwn:
		_ = h.daemon.Wait()
		if err := h.start(ctx, slots); err != nil {
			return err
		}
	case dieCut:
		if err := h.SetPlugged(true); err != nil {
			return err
		}
	default:
		return os.RemoveAll(d.dir)
	}
	for _, one := range d.f.hosts {
		if err := one.up(ctx); err != nil {
			return err
		}
	}
	return errors.Join(d.f.settle(), os.RemoveAll(d.dir))
}

// said returns the last line that the launcher has printed.
func (d *death) said() string { return d.stderr.line() }
