package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/hostile"
	"github.com/weftnet/weft/internal/load"
)

// KindHostile is the measurement of what hostile processes cost the others.
const KindHostile = "hostile"

// HostileBound bounds the ratio of round-trip times while hostile processes run to those while
// harmless busy processes run.
const HostileBound = 2

// HostileOptions say how to set hostile processes on a daemon.
type HostileOptions struct {
	Self string // path of the weft binary
	Sealing
	Kinds []string      // of misbehaviour; empty: all
	Time  time.Duration // for all kinds together
	Each  int           // concurrent hostile processes of one kind
	Seed  uint64
}

// HostileRow is the result for one kind of misbehaviour. P50 and P99 are of round trips while
// hostile processes run. BesideP50 and BesideP99 are of round trips while as many processes only
// burn the processor. Turns of busy processes alternate with those of the hostile ones of all
// kinds.
type HostileRow struct {
	Bench  string `json:"bench"`
	Sealed bool   `json:"sealed"` // the links between NICs
	Kind   string `json:"kind"`
	What   string `json:"what"`
	// while hostile processes run; each came once, in order and intact
	Exchanges int64   `json:"exchanges"`
	P50       int64   `json:"p50_ns"`
	P99       int64   `json:"p99_ns"`
	BesideP50 int64   `json:"busy_p50_ns"`
	BesideP99 int64   `json:"busy_p99_ns"`
	Ratio     float64 `json:"ratio"` // of P50 to BesideP50
	Misdeeds
	Named string `json:"named,omitempty"` // a line of the daemon's log that names an offender
}

// Misdeeds counts the acts of hostile processes and their consequences, over all their lives.
type Misdeeds struct {
	Attached  int64 `json:"attached"`
	Refused   int64 `json:"refused"`
	ThrownOut int64 `json:"thrown_out"`
	Acts      int64 `json:"acts"`
	Killed    int64 `json:"killed,omitempty"` // by another process, at any instruction
}

func (m *Misdeeds) add(b Misdeeds) {
	m.Attached += b.Attached
	m.Refused += b.Refused
	m.ThrownOut += b.ThrownOut
	m.Acts += b.Acts
	m.Killed += b.Killed
}

// sliceTime is the length of one turn of hostile or busy processes.
const sliceTime = 350 * time.Millisecond

// hostileRun is one daemon with its working processes.
type hostileRun struct {
	o      HostileOptions
	daemon *daemon
	work   *worker
}

// RunHostile starts a daemon and working processes, and sets hostile processes on them. In each
// round it takes one kind after the other, and then all kinds at once. Every message of the
// working processes is checked. The error names a broken promise: a message that was lost,
// doubled or altered; a daemon that ended; a resource that it still holds when all processes
// have gone; an offender that it does not name; or a cost to the others beyond HostileBound.
func RunHostile(ctx context.Context, o HostileOptions, out func(HostileRow) error) (err error) {
	if len(o.Kinds) == 0 {
		o.Kinds = append(hostile.Kinds(), allKinds)
	}
	var down undo
	defer down.end(ctx, &err)
	r := &hostileRun{o: o}
	if r.daemon, err = down.startDaemon(ctx,
		place{self: o.Self, listen: "127.0.0.1:0", sealing: o.Sealing}); err != nil {
		return err
	}
	favour(r.daemon.Process.Pid)
	favour(os.Getpid())
	before, err := r.settled()
	if err != nil {
		return err
	}
	rows, err := r.measure(ctx)
	if err != nil {
		return errors.Join(err, r.daemon.alive())
	}
	if err := r.letGo(before); err != nil {
		return err
	}
	if err := down.all(); err != nil { // the daemon ends in order, and its log is whole
		return err
	}
	return r.judge(rows, out)
}

// judge passes the rows on, with a line of the log for each, and returns the errors.
func (r *hostileRun) judge(rows []HostileRow, out func(HostileRow) error) error {
	var wrong []error
	var slow SlowError
	for _, row := range rows {
		row.Named = r.named(row.Kind)
		if err := out(row); err != nil {
			return err
		}
		if row.ThrownOut > 0 && row.Named == "" && row.Kind != allKinds {
			wrong = append(wrong, fmt.Errorf(
				"bench: processes of kind %q were thrown out, and the daemon's log names none", row.Kind))
		}
		if row.Ratio > HostileBound {
			slow = append(slow, row)
		}
	}
	if len(wrong) == 0 && len(slow) > 0 {
		return &slow
	}
	return errors.Join(wrong...)
}

// SlowError lists the kinds for which round trips took longer than HostileBound allows. Nothing
// else was wrong.
type SlowError []HostileRow

func (e *SlowError) Error() string {
	var l []string
	for _, r := range *e {
		l = append(l, fmt.Sprintf("%.2f times beside kind %q", r.Ratio, r.Kind))
	}
	return fmt.Sprintf("bench: round trips may take %d times as long as beside busy processes; they took %s",
		HostileBound, strings.Join(l, ", "))
}

// allKinds stands for all kinds at once, one process of each.
const allKinds = "all"

// measure makes them work during the turns of each kind, in rounds.
func (r *hostileRun) measure(ctx context.Context) (rows []HostileRow, err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	if r.work, err = down.startWork(ctx, r.o.Self, r.daemon.socket, r.o.Seed); err != nil {
		return nil, err
	}
	rounds := max(1, int(r.o.Time/(2*sliceTime))/len(r.o.Kinds))
	slice := min(sliceTime, r.o.Time/time.Duration(2*rounds*len(r.o.Kinds)))
	var turns []*turns
	busy := make(map[int]*times)
	for _, kind := range r.o.Kinds {
		turns = append(turns, r.turns(kind, busy))
	}
	// every kind has turns throughout the run, so other load on the machine affects all kinds
	// alike
	for range rounds {
		for _, t := range turns {
			if err := r.take(ctx, t, slice); err != nil {
				return nil, fmt.Errorf("bench: beside hostile processes of kind %q: %w", t.row.Kind, err)
			}
		}
	}
	for _, t := range turns {
		rows = append(rows, t.done())
	}
	return rows, nil
}

// turns holds the results of one kind. The turns with busy processes are counted together for
// all kinds with the same number of processes: those round trips depend more on which processes
// share a core than on anything else.
type turns struct {
	row         HostileRow
	kinds       []string // of the processes
	among, busy *times
}

func (r *hostileRun) turns(kind string, busy map[int]*times) *turns {
	t := &turns{row: HostileRow{Bench: KindHostile, Sealed: r.o.Sealed, Kind: kind, What: hostile.What(kind)},
		kinds: slices.Repeat([]string{kind}, r.o.Each)}
	if kind == allKinds {
		t.kinds, t.row.What = hostile.Kinds(), "all of these at once"
	}
	n := len(t.kinds)
	if busy[n] == nil {
		busy[n] = newHistogram()
	}
	t.among, t.busy = newHistogram(), busy[n]
	return t
}

// take measures the work during a turn of busy processes, and then during one of hostile
// processes.
func (r *hostileRun) take(ctx context.Context, t *turns, slice time.Duration) error {
	if _, err := r.beside(ctx, slices.Repeat([]string{burn}, len(t.kinds)), slice, t.busy); err != nil {
		return err
	}
	all, err := r.beside(ctx, t.kinds, slice, t.among)
	if err != nil {
		return err
	}
	for _, one := range all {
		t.row.add(one)
	}
	return r.daemon.alive()
}

// done returns the row of the turns.
func (t *turns) done() HostileRow {
	row, l, b := t.row, t.among.latency(), t.busy.latency()
	row.Exchanges, row.P50, row.P99, row.BesideP50, row.BesideP99 = t.among.TotalCount(), l.P50, l.P99, b.P50, b.P99
	row.Ratio = float64(row.P50) / float64(max(row.BesideP50, 1))
	return row
}

// beside works for the time d while processes of these kinds run.
func (r *hostileRun) beside(ctx context.Context, kinds []string, d time.Duration, h *times) ([]Misdeeds, error) {
	all := make([]Misdeeds, len(kinds))
	stop := make(chan struct{})
	return all, load.Together(ctx, 1+len(kinds), func(ctx context.Context, i int) error {
		if i > 0 {
			return r.wild(ctx, kinds[i-1], r.o.Seed+uint64(i-1)+rand.Uint64()>>32, stop, &all[i-1])
		}
		defer close(stop)
		if err := r.work.work(ctx, d/8, nil); err != nil {
			return err
		}
		return r.work.work(ctx, d-d/8, h)
	})
}

// burn is the kind of process that only burns the processor.
const burn = "burn"

// wild runs one process of a kind until stop is closed. A process of the kind "stop" is started
// again after it was killed.
func (r *hostileRun) wild(ctx context.Context, kind string, seed uint64, stop <-chan struct{}, m *Misdeeds) error {
	for {
		killed, err := r.life(ctx, kind, seed, stop, m)
		if err != nil || !killed {
			return err
		}
		m.Killed++
	}
}

// life runs one process. The process ends by stop, with a report on its acts, or is killed.
func (r *hostileRun) life(
	ctx context.Context, kind string, seed uint64, stop <-chan struct{}, m *Misdeeds,
) (killed bool, err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	of := newChild(r.o.Self, childPlan{Hostile: &hostilePlan{kind, r.daemon.socket, seed}}.args(KindHostile)...)
	of.Env = append(os.Environ(), "GOMAXPROCS=1")
	c, err := down.talk(ctx, of)
	if err != nil {
		return false, err
	}
	if kind == "stop" && harass(of, stop) {
		<-of.ended
		_ = of.failure() // killed by harass
		return true, nil
	}
	select {
	case <-stop:
	case <-of.ended:
	}
	_ = c.in.Close()
	defer time.AfterFunc(2*grace, func() { _ = of.Process.Kill() }).Stop()
	var one hostile.Tally
	if err := c.hear(&one); err != nil {
		return false, err
	}
	<-of.ended
	if one.Broken != "" {
		return false, errors.New(one.Broken)
	}
	m.add(Misdeeds{Attached: one.Attached, Refused: one.Refused, ThrownOut: one.ThrownOut, Acts: one.Acts})
	return false, nil
}

// harass stops and continues a process at random instants, or kills it, until stop is closed. It
// reports whether it has killed it.
func harass(c *child, stop <-chan struct{}) (killed bool) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return false
		case <-c.ended:
			return false
		case <-time.After(rand.N(10 * time.Millisecond)):
		}
		if n > 8 && rand.IntN(8) == 0 {
			_ = c.Process.Kill()
			return true
		}
		_ = c.Process.Signal(syscall.SIGSTOP)
		time.Sleep(rand.N(40 * time.Millisecond))
		if n > 8 && rand.IntN(8) == 0 { // without continuing it
			_ = c.Process.Kill()
			return true
		}
		_ = c.Process.Signal(syscall.SIGCONT)
	}
}

// hostilePlan is a process of RunHostile. It misbehaves as its kind does until ctx ends, and
// then reports its acts.
type hostilePlan struct {
	Kind   string
	Socket string
	Seed   uint64
}

func (p *hostilePlan) run(ctx context.Context, out io.Writer) error {
	level()
	var others []string
	for _, n := range workers {
		others = append(others, n.String())
	}
	var t hostile.Tally
	if p.Kind == burn {
		for ctx.Err() == nil {
		}
	} else if err := hostile.Act(ctx, p.Kind, p.Socket, p.Seed, others, &t); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(t)
}
