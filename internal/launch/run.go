package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/pmi"
)

// ever is longer than any job.
const ever = 100 * 365 * 24 * time.Hour

// Run runs a job and waits for its end. The process p has the name LauncherName(o.Job). control may
// be nil. If ctx ends, the job is ended as by Control.End.
//
// If a host refuses, no rank starts, and the Result holds the refusals of all hosts. Run fails
// only if o is invalid; every other end is a Result. The caller closes p after Run, also because
// a keeper that Run has not reached ends when p does.
//
// If the console does not return from Output or Input, Run returns without them: no later call
// follows.
func Run(ctx context.Context, p *weft.Process, d Desk, o Options, c Console, control *Control) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if control == nil {
		control = NewControl(p.Runtime())
	}
	l := &launcher{p: p, rt: p.Runtime(), born: p.Runtime().Now(), desk: d, o: o, console: c, control: control}
	l.ctx, l.cancel = l.rt.WithTimeout(context.Background(), ever)
	defer l.cancel()
	l.hungry = l.rt.NewGate()
	a := newAttempt(l, 0)
	l.use(a)
	l.rt.Go(l.receive)
	l.rt.Go(l.watch)
	l.rt.Go(l.feed)
	l.rt.Go(l.obey)
	l.rt.Go(func() { l.follow(ctx) })
	if o.Timeout > 0 {
		l.rt.Go(l.awaitTimeout)
	}
	if o.Notices != nil {
		defer o.Notices.Datagrams.Close()
		l.rt.Go(l.hearNotices)
	}
	return l.run(a), nil
}

// launcher is one call of Run. It makes an attempt for the start of the job and for each restart.
// Its goroutines pass events to the current attempt:
//
//	receive       messages of the keepers; it also writes output
//	watch         events about the keepers' ends
//	feed          input for the ranks that read
//	obey          the user's signals and wishes
//	follow        the end of the caller's context
//	awaitTimeout  the timeout
//	hearNotices   notices of the keepers, which do not use the NICs
type launcher struct {
	p       *weft.Process
	rt      weft.Runtime
	born    time.Time // when its clock began
	desk    Desk
	o       Options
	console Console
	control *Control
	ctx     context.Context // ends with Run
	cancel  context.CancelFunc
	hungry  *weft.Gate // wakes feed

	deaf bool // the console takes no output any more; only receive uses it

	noting sync.Mutex // one Note at once

	mu        sync.Mutex
	current   *attempt
	stopped   *ending // the wish that forbids a restart
	strangers int
}

// run makes attempts until one needs no restart. If a restart is refused, the job has the result
// of the attempt before it.
func (l *launcher) run(a *attempt) (r *Result) {
	for last := (*Result)(nil); ; last = r {
		r = a.run()
		if last != nil && len(r.Refusals) > 0 && !a.begun {
			last.Cause = fmt.Sprintf("%s; restart %d was refused: %s", last.Cause, a.number, r.Cause)
			r = last
			break
		}
		r.Restarts = a.number
		cause := a.retriable()
		if cause == nil || a.number >= l.o.OnDeath.Restarts {
			break
		}
		if a = newAttempt(l, a.number+1); l.use(a) != nil {
			break
		}
		l.note(Note{Kind: NoteRestart, Text: fmt.Sprintf("restart %d of %d: %s", a.number,
			l.o.OnDeath.Restarts, cause.cause)})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Strangers = l.strangers
	return r
}

// use makes an attempt the current one, and returns the wish that forbids it, or nil.
func (l *launcher) use(a *attempt) *ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = a
	return l.stopped
}

// addStrangers counts messages and datagrams from outside the job.
func (l *launcher) addStrangers(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strangers += n
}

func (l *launcher) attempt() *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// stop ends the job for a reason that forbids a restart.
func (l *launcher) stop(e *ending) {
	l.mu.Lock()
	l.stopped = e
	a := l.current
	l.mu.Unlock()
	a.stop(e)
}

// obey passes the user's signals and wishes to the attempt.
func (l *launcher) obey() {
	for {
		signals, end, err := l.control.next(l.ctx)
		if err != nil {
			return
		}
		for _, s := range signals {
			l.attempt().signal(int(s))
		}
		if end != nil {
			l.stop(end)
		}
	}
}

// follow ends the job when the caller's context ends. It looks once a second whether Run has ended.
func (l *launcher) follow(ctx context.Context) {
	for l.ctx.Err() == nil {
		if err := l.rt.Sleep(ctx, time.Second); err != nil {
			l.stop(&ending{status: StatusFailed, cause: fmt.Sprintf("the launcher was given up: %v", err)})
			return
		}
	}
}

func (l *launcher) awaitTimeout() {
	if l.rt.Sleep(l.ctx, l.o.Timeout) != nil {
		return
	}
	text := fmt.Sprintf("the job did not end within its timeout of %v", l.o.Timeout)
	l.note(Note{Kind: NoteTimeout, Text: text})
	if l.o.AtTimeout != nil {
		ctx, cancel := l.rt.WithTimeout(l.ctx, 3*time.Second)
		l.o.AtTimeout(ctx)
		cancel()
	}
	l.stop(&ending{status: StatusTimeout, cause: text})
}

func (l *launcher) note(n Note) {
	l.noting.Lock()
	defer l.noting.Unlock()
	l.console.Note(n)
}

// size returns the number of ranks.
func (o *Options) size() (n int) {
	for _, h := range o.Hosts {
		n += len(h.Ranks)
	}
	return n
}

// readers returns the ranks that read the launcher's input.
func (o *Options) readers() ([]int, error) {
	switch o.Stdin {
	case "none":
		return nil, nil
	case "all":
		all := make([]int, o.size())
		for i := range all {
			all[i] = i
		}
		return all, nil
	case "":
		return []int{0}, nil
	}
	n, err := strconv.Atoi(o.Stdin)
	if err != nil || n < 0 || n >= o.size() {
		return nil, fmt.Errorf("launch: stdin %q; expected all, none, or a rank from 0 to %d", o.Stdin, o.size()-1)
	}
	return []int{n}, nil
}

// check returns an error for options that no host could accept.
func (o *Options) check() error {
	switch {
	case len(o.Hosts) == 0 || len(o.Hosts) > limits.JobHosts:
		return fmt.Errorf("launch: %d hosts; expected 1 to %d", len(o.Hosts), limits.JobHosts)
	case o.size() > limits.JobSize:
		return fmt.Errorf("launch: %d ranks; expected at most %d", o.size(), limits.JobSize)
	case len(o.Argv) == 0 || o.Program == "" || o.Dir == "":
		return errors.New("launch: no program, arguments or directory; expected each of them")
	case o.Grace < 0 || o.Grace > MaxGrace:
		return fmt.Errorf("launch: grace %v; expected 0 to %v", o.Grace, MaxGrace)
	case o.Notices != nil && !o.Notices.check():
		return fmt.Errorf("launch: notices at port %d with a key of %d bytes; expected a port and %d bytes",
			o.Notices.Port, len(o.Notices.Key), noticeKeyBytes)
	case o.Timeout < 0:
		return fmt.Errorf("launch: timeout %v; expected more than 0, or 0 for none", o.Timeout)
	}
	next := 0
	seen := make(map[weft.NICID]string)
	for _, h := range o.Hosts {
		if len(h.Ranks) == 0 || len(h.Ranks) > limits.RanksPerHost {
			return fmt.Errorf("launch: %d ranks on host %s; expected 1 to %d", len(h.Ranks), h.Name,
				limits.RanksPerHost)
		}
		if other, twice := seen[h.NIC]; twice {
			return fmt.Errorf("launch: hosts %s and %s have the NIC %v; expected each host once", other, h.Name, h.NIC)
		}
		seen[h.NIC] = h.Name
		for _, r := range h.Ranks {
			if r != next {
				return fmt.Errorf("launch: rank %d on host %s; expected rank %d", r, h.Name, next)
			}
			next++
		}
	}
	if o.Stage != nil {
		if n := len(o.Stage.Manifest(0)); n > maxPiece {
			return fmt.Errorf("launch: a manifest of %d bytes; expected at most %d", n, maxPiece)
		}
	}
	if _, err := o.readers(); err != nil {
		return err
	}
	largest := slices.MaxFunc(o.Hosts, func(a, b Host) int { return len(a.Ranks) - len(b.Ranks) })
	if n := len(marshal(o.start(0, &largest, nil))); n > MaxStartBytes {
		return fmt.Errorf("launch: arguments and environment take %d bytes; expected at most %d", n, MaxStartBytes)
	}
	return nil
}

// grace returns the time between TERM and KILL.
func (o *Options) grace() time.Duration {
	if o.Grace == 0 {
		return DefaultGrace
	}
	return o.Grace
}

// start returns what the keeper of a host needs to start its ranks.
func (o *Options) start(restart int, h *Host, readers []int) *Start {
	s := &Start{
		Job: o.Job, Restart: restart, Argv: o.Argv, Env: o.Env, Program: o.Program, Dir: o.Dir, Machine: o.Machine,
		Ranks: h.Ranks, Size: o.size(), Grace: int64(o.grace()), OnDeath: o.OnDeath.String(), Unbuffered: o.Unbuffered,
		MemoryBytes: o.MemoryBytes, Link: o.Link, PMI: o.PMI, Key: o.Key,
	}
	if o.Notices != nil {
		s.Notices = &o.Notices.NoticePort
	}
	if o.PMI {
		s.Mapping = o.mapping()
	}
	for _, r := range readers {
		if slices.Contains(h.Ranks, r) {
			s.Stdin = append(s.Stdin, r)
		}
	}
	return s
}

// mapping returns the ranks that share a host, in the form of PMI-1.
func (o *Options) mapping() string {
	var hosts []int
	for i := range o.Hosts {
		hosts = append(hosts, slices.Repeat([]int{i}, len(o.Hosts[i].Ranks))...)
	}
	return pmi.Mapping(hosts)
}

// reserve returns the reservation for a host.
func (o *Options) reserve(restart, index int, launcher weft.Address) *ctl.Reserve {
	h := &o.Hosts[index]
	return &ctl.Reserve{
		Job: o.Job, Restart: restart, Host: index, First: h.Ranks[0], Ranks: len(h.Ranks), Size: o.size(),
		Machine:  o.Machine,
		Launcher: ctl.Address{NIC: nicID(launcher.NIC), Slot: launcher.Slot, Generation: launcher.Generation},
		Program:  o.Program, SHA256: o.SHA256, Staged: o.Stage != nil, Dir: o.Dir, Version: o.Version,
		Oversubscribe: o.Oversubscribe, Link: o.Link, MemoryBytes: o.MemoryBytes,
	}
}
