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
	"github.com/weftnet/weft/internal/together"
)

// KindHostile is the measurement of what hostile processes cost the others.
const KindHostile = "hostile"

// HostileBound is how many times as long as beside harmless busy processes a round trip may take beside hostile ones.
const HostileBound = 2

// HostileOptions say how to set hostile processes on a daemon.
type HostileOptions struct {
	Self string // path of the weft binary
	Sealing
	Kinds []string      // of misbehaviour; empty: all
	Time  time.Duration // for all kinds together
	Each  int           // hostile processes of one kind at a time
	Seed  uint64
}

// HostileRow is what one kind of misbehaviour came to. Beside as many processes that only burn the processor, in turns
// with the hostile ones of all kinds, round trips took the times of Beside.
type HostileRow struct {
	Bench     string  `json:"bench"`
	Sealed    bool    `json:"sealed"` // the links between NICs
	Kind      string  `json:"kind"`
	What      string  `json:"what"`
	Exchanges int64   `json:"exchanges"` // beside hostile processes; each came once, in order and intact
	P50       int64   `json:"p50_ns"`
	P99       int64   `json:"p99_ns"`
	BesideP50 int64   `json:"busy_p50_ns"`
	BesideP99 int64   `json:"busy_p99_ns"`
	Ratio     float64 `json:"ratio"` // of P50 to BesideP50
	Misdeeds
	Named string `json:"named,omitempty"` // a line of the daemon's log that names an offender
}

// Misdeeds are what hostile processes came to, in all their lives.
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

// sliceTime is how long hostile and busy processes take turns.
const sliceTime = 350 * time.Millisecond

// hostileRun is one daemon and the processes that work with it.
type hostileRun struct {
	o      HostileOptions
	daemon *daemon
	work   *worker
}

// RunHostile starts a daemon and processes that work, and sets hostile processes on them, one kind after the other and
// then all kinds at once, in rounds. Every message of the processes that work is checked. The error is a promise that was broken: a message
// lost, doubled or altered; a daemon that ended; something that it still holds when all have gone; an offender that it does not
// name; or, beyond HostileBound, what the others paid.
func RunHostile(ctx context.Context, o HostileOptions, out func(HostileRow) error) (err error) {
	if len(o.Kinds) == 0 {
		o.Kinds = append(hostile.Kinds(), allKinds)
	}
	var down undo
	defer down.end(ctx, &err)
	r := &hostileRun{o: o}
	if r.daemon, err = down.startDaemon(ctx, place{self: o.Self, listen: "127.0.0.1:0", sealing: o.Sealing}); err != nil {
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

// judge passes the rows on, with a line of the log for each, and says what is wrong.
func (r *hostileRun) judge(rows []HostileRow, out func(HostileRow) error) error {
	var wrong []error
	var slow SlowError
	for _, row := range rows {
		row.Named = r.named(row.Kind)
		if err := out(row); err != nil {
			return err
		}
		if row.ThrownOut > 0 && row.Named == "" && row.Kind != allKinds {
			wrong = append(wrong, fmt.Errorf("bench: processes of kind %q were thrown out, and the daemon's log names none", row.Kind))
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

// SlowError says beside which kinds round trips took longer than HostileBound allows. Nothing else was wrong.
type SlowError []HostileRow

func (e *SlowError) Error() string {
	var l []string
	for _, r := range *e {
		l = append(l, fmt.Sprintf("%.2f times beside kind %q", r.Ratio, r.Kind))
	}
	return fmt.Sprintf("bench: round trips may take %d times as long as beside busy processes; they took %s", HostileBound, strings.Join(l, ", "))
}

// allKinds are all kinds at once, a process each.
const allKinds = "all"

// measure has them all work beside one kind after the other, in rounds.
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
	for range rounds { // every kind has its turns all over the time, so that what the machine does besides falls upon all alike
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

// turns are those of one kind. Beside as many busy processes it does not matter whose turn follows: those round trips are
// counted together, since they depend more on which processes share a core than on anything else.
type turns struct {
	row         HostileRow
	kinds       []string // of the processes
	among, busy *times
}

func (r *hostileRun) turns(kind string, busy map[int]*times) *turns {
	t := &turns{row: HostileRow{Bench: KindHostile, Sealed: r.o.Sealed, Kind: kind, What: hostile.What(kind)}, kinds: slices.Repeat([]string{kind}, r.o.Each)}
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

// take measures the work beside busy processes, and then beside hostile ones.
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

// done is what the turns came to.
func (t *turns) done() HostileRow {
	row, l, b := t.row, t.among.latency(), t.busy.latency()
	row.Exchanges, row.P50, row.P99, row.BesideP50, row.BesideP99 = t.among.TotalCount(), l.P50, l.P99, b.P50, b.P99
	row.Ratio = float64(row.P50) / float64(max(row.BesideP50, 1))
	return row
}

// beside works for a while beside processes of these kinds.
func (r *hostileRun) beside(ctx context.Context, kinds []string, d time.Duration, h *times) ([]Misdeeds, error) {
	all := make([]Misdeeds, len(kinds))
	stop := make(chan struct{})
	return all, together.Run(ctx, 1+len(kinds), func(ctx context.Context, i int) error {
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

// burn is the kind of process that does nothing but burn the processor.
const burn = "burn"

// wild runs one process of a kind until stop is closed. One of the kind that is stopped is started again when killed.
func (r *hostileRun) wild(ctx context.Context, kind string, seed uint64, stop <-chan struct{}, m *Misdeeds) error {
	for {
		killed, err := r.life(ctx, kind, seed, stop, m)
		if err != nil || !killed {
			return err
		}
		m.Killed++
	}
}

// life is that of one process. It ends by stop, with a word on what it came to, or is killed.
func (r *hostileRun) life(ctx context.Context, kind string, seed uint64, stop <-chan struct{}, m *Misdeeds) (killed bool, err error) {
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
		_ = of.failure() // by us
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

// harass stops a process at random instants and lets it go on, or kills it, until stop is closed. It reports whether it
// has killed it.
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
		if n > 8 && rand.IntN(8) == 0 { // without ever going on
			_ = c.Process.Kill()
			return true
		}
		_ = c.Process.Signal(syscall.SIGCONT)
	}
}

// hostilePlan is a process of RunHostile: it does what those of its kind do, until ctx ends, and says what it came to.
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
