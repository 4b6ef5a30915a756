package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftnet/weft/internal/hostile"
)

// KindHostile is the measurement of what hostile processes cost the others.
const KindHostile = "hostile"

// HostileBound is how many times as long as beside harmless busy processes a round trip may take beside hostile ones.
const HostileBound = 2

// HostileOptions say how to set hostile processes on a daemon.
type HostileOptions struct {
	Self  string        // path of the weft binary
	Kinds []string      // of misbehaviour; empty: all
	Time  time.Duration // for all kinds together
	Each  int           // hostile processes of one kind at a time
	Seed  uint64
}

// HostileRow is what one kind of misbehaviour came to. Beside as many processes that only burn the processor, in turns
// with the hostile ones of all kinds, round trips took the times of Beside.
type HostileRow struct {
	Bench     string  `json:"bench"`
	Kind      string  `json:"kind"`
	What      string  `json:"what"`
	Exchanges int64   `json:"exchanges"` // beside hostile processes; each came once, in order and intact
	P50       int64   `json:"p50_ns"`
	P99       int64   `json:"p99_ns"`
	BesideP50 int64   `json:"busy_p50_ns"`
	BesideP99 int64   `json:"busy_p99_ns"`
	Ratio     float64 `json:"ratio"` // of P50 to BesideP50
	Attached  int64   `json:"attached"`
	Refused   int64   `json:"refused"`
	ThrownOut int64   `json:"thrown_out"`
	Acts      int64   `json:"acts"`
	Killed    int64   `json:"killed,omitempty"` // by another process, at any instruction
	Named     string  `json:"named,omitempty"`  // a line of the daemon's log that names an offender
}

// sliceTime is how long hostile and busy processes take turns.
const sliceTime = 350 * time.Millisecond

// hostileRun is one daemon and the processes that work with it.
type hostileRun struct {
	o      HostileOptions
	socket string
	daemon *child
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
	defer func() { err = errors.Join(err, down.all()) }()
	r := &hostileRun{o: o}
	if r.daemon, r.socket, _, err = down.runDaemon(ctx, place{self: o.Self, listen: "127.0.0.1:0"}); err != nil {
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
	if r.work, err = down.startWork(ctx, r.o.Self, r.socket, r.o.Seed); err != nil {
		return nil, err
	}
	rounds := max(1, int(r.o.Time/(2*sliceTime))/len(r.o.Kinds))
	slice := min(sliceTime, r.o.Time/time.Duration(2*rounds*len(r.o.Kinds)))
	turns := make([]*turns, len(r.o.Kinds))
	busy := make(map[int]*hdrhistogram.Histogram)
	for i, kind := range r.o.Kinds {
		turns[i] = r.turns(kind, busy)
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

// turns are those of one kind. // turns are those of one kind. Beside as many busy processes it does not matter whose turn follows: those round trips are
// counted together, since they depend more on which processes share a core than on anything else.
type turns struct {
	row         HostileRow
	kinds       []string // of the processes
	among, busy *hdrhistogram.Histogram
}

func (r *hostileRun) turns(kind string, busy map[int]*hdrhistogram.Histogram) *turns {
	t := &turns{row: HostileRow{Bench: KindHostile, Kind: kind, What: hostile.What(kind)}, kinds: slices.Repeat([]string{kind}, r.o.Each)}
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
	tallies, err := r.beside(ctx, t.kinds, slice, t.among)
	if err != nil {
		return err
	}
	for _, said := range tallies {
		t.row.Attached += said.Attached
		t.row.Refused += said.Refused
		t.row.ThrownOut += said.ThrownOut
		t.row.Acts += said.Acts
		t.row.Killed += said.killed
		if said.Broken != "" {
			return errors.New(said.Broken)
		}
	}
	return r.daemon.alive()
}

// done is what the turns came to.
func (t *turns) done() HostileRow {
	row, l, b := t.row, latencyOf(t.among), latencyOf(t.busy)
	row.Exchanges, row.P50, row.P99, row.BesideP50, row.BesideP99 = t.among.TotalCount(), l.P50, l.P99, b.P50, b.P99
	row.Ratio = float64(row.P50) / float64(max(row.BesideP50, 1))
	return row
}

// beside works for a while beside processes of these kinds.
func (r *hostileRun) beside(ctx context.Context, kinds []string, d time.Duration, h *hdrhistogram.Histogram) ([]tally, error) {
	var wild sync.WaitGroup
	tallies := make([]tally, len(kinds))
	failed := make([]error, len(kinds))
	stop := make(chan struct{})
	for i, kind := range kinds {
		wild.Go(func() { failed[i] = r.wild(kind, r.o.Seed+uint64(i)+rand.Uint64()>>32, stop, &tallies[i]) })
	}
	err := r.work.work(ctx, d/8, nil)
	if err == nil {
		err = r.work.work(ctx, d-d/8, h)
	}
	close(stop)
	wild.Wait()
	return tallies, errors.Join(append(failed, err)...)
}

// tally is what one hostile process came to, in all its lives.
type tally struct {
	hostile.Tally
	killed int64
}

// burn is the kind of process that does nothing but burn the processor.
const burn = "burn"

// wild runs one process of a kind until stop is closed. One of the kind that is stopped is started again when killed.
func (r *hostileRun) wild(kind string, seed uint64, stop <-chan struct{}, t *tally) error {
	for {
		killed, err := r.life(kind, seed, stop, t)
		if err != nil || !killed {
			return err
		}
		t.killed++
	}
}

// life is that of one process. It ends by stop, with a word on what it came to, or is killed.
func (r *hostileRun) life(kind string, seed uint64, stop <-chan struct{}, t *tally) (killed bool, err error) {
	var out bytes.Buffer
	c := newChild(r.o.Self, "bench", KindHostile, "--child", kind, "--socket", r.socket, "--seed", fmt.Sprint(seed), "--others", strings.Join(workers, ","))
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	c.Stdout = &out
	in, err := c.StdinPipe()
	if err != nil {
		return false, err
	}
	if err := c.start(); err != nil {
		return false, err
	}
	defer in.Close()
	if kind == "stop" && harass(c, stop) {
		<-c.ended
		return true, nil
	}
	select {
	case <-stop:
	case <-c.ended:
	}
	in.Close()
	select {
	case <-c.ended:
	case <-time.After(2 * grace):
		_ = c.Process.Kill()
		<-c.ended
	}
	if err := c.failure(); err != nil || kind == burn {
		return false, err
	}
	return false, t.add(out.Bytes())
}

// add reckons in what a process says of itself at its end.
func (t *tally) add(said []byte) error {
	var one hostile.Tally
	if err := json.Unmarshal(said, &one); err != nil {
		return fmt.Errorf("bench: what a hostile process says of itself: %w: %q", err, said)
	}
	t.Attached += one.Attached
	t.Refused += one.Refused
	t.ThrownOut += one.ThrownOut
	t.Acts += one.Acts
	t.Broken = one.Broken
	return nil
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

// HostileChild is what a process started by RunHostile does, until ctx ends.
func HostileChild(ctx context.Context, kind, socket string, seed uint64, others []string, out io.Writer) error {
	if kind != echo {
		level()
	}
	switch kind {
	case burn:
		for ctx.Err() == nil {
		}
		return nil
	case echo:
		return runEcho(ctx, socket, others)
	}
	var t hostile.Tally
	if err := hostile.Act(ctx, kind, socket, seed, others, &t); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(t)
}
