package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/cgroup"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// keeper is the process that starts and ends the ranks of one job on this host. It runs as the
// job's user, so the daemon believes it about its own job only.
type keeper struct {
	cmd   *exec.Cmd
	link  *ctl.KeeperLink
	began uint64 // its start, in clock ticks since boot: leftovers are younger

	answer chan *ctl.FromKeeper // the keeper's first packet; closed at its end
	gone   chan struct{}        // closed when the process was reaped
	said   atomic.Value         // a string: the last line of its standard error
	mute   chan struct{}        // closed when its standard error has ended

	mu      sync.Mutex
	started []int // pids of the ranks; nil: the keeper waits for the launcher
	ending  bool
	limit   *time.Timer                    // kills the keeper
	latest  time.Time                      // when limit fires
	report  []ctl.RankInfo                 // received parts of the current report
	waiting map[chan<- []ctl.RankInfo]bool // askers that wait for the report
}

// startKeeper starts the keeper of a job as its user, in the job's control group if that has
// version 2. The keeper has its first packet when it starts, so it knows what to remove even if
// the daemon dies now.
func (j *jobs) startKeeper(b *job, first *ctl.ToKeeper) (*keeper, error) {
	command := j.d.settings.config.keeper()
	a, group := b.account, b.group
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket pair: %w", explainFiles(err))
	}
	theirs := os.NewFile(uintptr(pair[1]), "keeper's end")
	defer theirs.Close()
	link, err := ctl.NewKeeperLink(os.NewFile(uintptr(pair[0]), "keeper link"))
	if err != nil {
		return nil, err
	}
	if err := link.Tell(first); err != nil {
		return nil, errors.Join(err, link.Close())
	}
	said, says, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(explainFiles(err), link.Close())
	}
	defer says.Close()
	k := &keeper{link: link, answer: make(chan *ctl.FromKeeper, 1), gone: make(chan struct{}),
		mute: make(chan struct{}), waiting: make(map[chan<- []ctl.RankInfo]bool)}
	k.cmd = &exec.Cmd{Path: command[0], Args: append([]string{"weft"}, command[1:]...), Dir: "/", Env: a.environment(),
		Stderr: says, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: a.credential()}}
	inside := func() {}
	// In version 1, a thread of the daemon would have to enter the group, and to end.
	if group != nil && group.Unified != "" {
		if inside, err = (&cgroup.Group{Unified: group.Unified}).EnterKeeper(k.cmd.SysProcAttr); err != nil {
			return nil, errors.Join(err, said.Close(), link.Close())
		}
	}
	err = j.family.start(k.cmd)
	inside()
	if err != nil {
		return nil, errors.Join(err, said.Close(), link.Close())
	}
	k.began = startOf(k.cmd.Process.Pid)
	go k.logLines(said, b.log)
	go k.listen()
	return k, nil
}

// logLines logs the standard error of a keeper, line by line. It discards lines beyond the bound.
// Ranks do not inherit this pipe; if one does, it delays only this goroutine.
func (k *keeper) logLines(f *os.File, log *slog.Logger) {
	defer close(k.mute)
	defer f.Close()
	r := bufio.NewReaderSize(f, limits.KeeperLineBytes)
	for lines := 0; ; {
		line, cut, err := r.ReadLine()
		if err != nil {
			return
		}
		if lines++; lines <= limits.KeeperLines {
			log.Warn("keeper", "says", string(line), "cut", cut)
			k.said.Store(string(line))
		}
		for cut && err == nil {
			_, cut, err = r.ReadLine()
		}
	}
}

// lastWords returns the last line that an ended keeper wrote to its standard error, after a
// colon. The line may come after the keeper's end. lastWords waits at most lastWordsWithin, since
// another process may have inherited the standard error.
func (k *keeper) lastWords() string {
	select {
	case <-k.mute:
	case <-time.After(lastWordsWithin):
	}
	if s, ok := k.said.Load().(string); ok {
		return ": " + s
	}
	return ""
}

const lastWordsWithin = time.Second

// listen receives the keeper's packets until its end.
func (k *keeper) listen() {
	defer close(k.answer)
	answered := false
	for {
		m, err := k.link.Answered()
		if err != nil {
			if !errors.Is(err, io.EOF) { // the packet was malformed
				k.kill()
			}
			return
		}
		if !answered && (m.Ready || len(m.Refusals) > 0) {
			answered = true
			k.answer <- m
			continue
		}
		k.take(m)
	}
}

// take notes the keeper's message about its ranks.
func (k *keeper) take(m *ctl.FromKeeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.started == nil && len(m.Started) > 0 {
		k.started = m.Started
	}
	k.ending = k.ending || m.Ending
	if len(k.report)+len(m.Ranks) <= limits.RanksPerHost {
		k.report = append(k.report, m.Ranks...)
	}
	if m.Report {
		for c := range k.waiting {
			c <- slices.Clone(k.report) // each asker marks its own copy
		}
		clear(k.waiting)
		k.report = nil
	}
}

// ranks asks the keeper for its ranks. It returns nil if the keeper does not answer within
// limits.ReportWithin.
func (k *keeper) ranks() []ctl.RankInfo {
	c := make(chan []ctl.RankInfo, 1)
	k.mu.Lock()
	first := len(k.waiting) == 0
	k.waiting[c] = true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiting, c)
	}()
	if first && k.link.Tell(&ctl.ToKeeper{Report: true}) != nil {
		return nil
	}
	select {
	case r := <-c:
		return r
	case <-k.gone:
	case <-time.After(limits.ReportWithin):
	}
	return nil
}

// state returns the keeper's part of a JobInfo.
func (k *keeper) state() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ending:
		return ctl.JobEnding
	case k.started == nil:
		return ctl.JobReserved
	}
	return ctl.JobRunning
}

// end asks the keeper to end its ranks on behalf of a user. It kills the keeper if that takes
// limits.KeeperExtra longer than the grace.
func (k *keeper) end(grace time.Duration, by string) {
	k.mu.Lock()
	k.ending = true
	k.mu.Unlock()
	if k.link.Tell(&ctl.ToKeeper{Kill: &ctl.KeeperKill{Grace: int64(grace), By: by}}) != nil {
		grace = 0
	}
	k.killWithin(grace + limits.KeeperExtra)
}

// killWithin kills the keeper after a time, unless it ends before. The earliest time asked for
// counts, so one timer is enough, however often a user asks.
func (k *keeper) killWithin(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end := time.Now().Add(d)
	switch {
	case k.limit == nil:
		k.limit = time.AfterFunc(d, k.kill)
	case end.Before(k.latest):
		k.limit.Reset(d)
	default:
		return
	}
	k.latest = end
}

// ended notes that the keeper has ended, and stops its timer.
func (k *keeper) ended() {
	close(k.gone)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.limit != nil {
		k.limit.Stop()
	}
}

func (k *keeper) kill() { _ = k.cmd.Process.Kill() }
