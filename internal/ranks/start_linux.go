package ranks

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Set is the processes of one job on one host.
type Set struct {
	cfg   Config
	ranks []*rank // fixed after Start
	byNum map[int]*rank

	// mu orders signals and reaping: a pid that a signal uses under mu is not reaped, and so not
	// reused.
	mu     sync.Mutex
	byPID  map[int]*rank
	stops  int // counts SIGTSTP and SIGCONT, so that a later one cancels an earlier one
	memory *memory

	obituary *obituary // of the ranks

	gone  chan struct{}  // closed when no child is left
	ended sync.WaitGroup // ranks whose Ended has not returned
}

// rank is one process of the job, with its files.
type rank struct {
	num, pid int
	out, err *output
	in       *input // nil without stdin

	// Guarded by Set.mu.
	reaped  bool
	stopped bool
	killed  bool // the keeper itself has sent SIGKILL
	given   bool // up as unkillable
	exit    Exit
	pidfd   int // -1: none

	over    chan struct{} // closed when exit is final but for Died
	noted   chan struct{} // closed when exit.Died is final
	changed chan struct{} // holds one token while stopped differs from the last report
}

// running holds true while the process has a Set with live processes.
var running atomic.Bool

// Start starts all ranks, or none. If a rank cannot be started, the started ones are killed, and
// the error names the rank.
func Start(cfg Config) (*Set, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if !running.CompareAndSwap(false, true) {
		return nil, ErrBusy
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		running.Store(false)
		return nil, fmt.Errorf("ranks: adopt orphans: %w", err)
	}
	s := &Set{
		cfg: cfg, byNum: make(map[int]*rank), byPID: make(map[int]*rank),
		gone: make(chan struct{}), memory: watchMemory(cfg.Cgroup),
		obituary: cfg.openObituary(),
	}
	failed := make(chan error)
	go s.note()
	go s.fork(failed)
	err := <-failed
	go s.reap()
	if err != nil {
		s.kill()
		for _, r := range s.ranks {
			r.close()
		}
		return nil, err
	}
	for _, r := range s.ranks {
		s.ended.Add(1)
		go s.attend(r)
	}
	return s, nil
}

// check returns the error in a configuration.
func (c *Config) check() error {
	switch {
	case len(c.Argv) == 0:
		return errors.New("ranks: no program; expected its path in Argv[0]")
	case len(c.Ranks) == 0:
		return errors.New("ranks: no rank; expected one at least")
	case c.Output == nil:
		return errors.New("ranks: no Output; expected a function")
	case len(c.Stdin) > 0 && c.Want == nil:
		return errors.New("ranks: stdin without Want; expected a function")
	}
	sorted := slices.Sorted(slices.Values(c.Ranks))
	for i, r := range sorted {
		if r < 0 || i > 0 && sorted[i-1] == r {
			return fmt.Errorf("ranks: rank %d; expected numbers of 0 and more, each once", r)
		}
	}
	return nil
}

// PIDs returns the process ids of the ranks, in the order of Config.Ranks.
func (s *Set) PIDs() []int {
	pids := make([]int, len(s.ranks))
	for i, r := range s.ranks {
		pids[i] = r.pid
	}
	return pids
}

// Wait waits until every rank has ended and its Ended has returned. Other processes of the job may
// still run; End ends them.
func (s *Set) Wait() { s.ended.Wait() }
