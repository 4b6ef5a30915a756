package ranks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Set is the processes of one job on one host.
type Set struct {
	cfg   Config
	ranks []*rank // fixed after Start
	byNum map[int]*rank

	// mu orders signals and reaping: a pid that a signal uses under mu is not reaped, and so not reused.
	mu     sync.Mutex
	byPID  map[int]*rank
	stops  int // counts SIGTSTP and SIGCONT, so that a later one cancels an earlier one
	memory *memory

	gone  chan struct{}  // closed when no child is left
	ended sync.WaitGroup // ranks whose Ended has not returned
}

// rank is one process of the job, and what the keeper has of it.
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

	over    chan struct{} // closed when exit is final
	changed chan struct{} // holds one token while stopped differs from the last report
}

// running holds true while the process has a Set with live processes.
var running atomic.Bool

// Start starts all ranks, or none. If a rank cannot be started, the started ones are killed, and the error
// names the rank.
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
	}
	failed := make(chan error)
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

// fork starts the ranks from one thread, and keeps the thread until no child is left: Linux ends the ranks
// when the thread that forked them ends. The goroutine never unlocks, so no other one runs on the thread.
func (s *Set) fork(failed chan<- error) {
	runtime.LockOSThread()
	failed <- s.forkAll()
	<-s.gone
}

func (s *Set) forkAll() error {
	program, err := s.cfg.program()
	if err != nil {
		return err
	}
	if err := keepFiles(); err != nil {
		return fmt.Errorf("ranks: %w", err)
	}
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if s.cfg.Cgroup != nil {
		leave, err := s.cfg.Cgroup.Enter(attr)
		if err != nil {
			return fmt.Errorf("ranks: %w", err)
		}
		defer leave()
	}
	for _, num := range s.cfg.Ranks {
		if err := s.forkOne(num, program, attr); err != nil {
			return fmt.Errorf("ranks: rank %d: %w", num, err)
		}
	}
	return nil
}

// keepFiles keeps the files of this process from its ranks. Files that Go has opened are kept anyway; those
// that the keeper has inherited, such as the connection to its daemon, would live on in the ranks.
func keepFiles() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > Stderr {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// program returns the path to execute.
func (c *Config) program() (string, error) {
	p := c.Program
	if p == "" {
		p = c.Argv[0]
	}
	if strings.Contains(p, "/") {
		return p, nil
	}
	for _, v := range slices.Backward(c.Env) {
		path, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join("/", dir, p)); err == nil && filepath.IsAbs(dir) {
				return found, nil
			}
		}
		return "", fmt.Errorf("ranks: program %q is not in PATH %q; expected an executable file there, or a path", p, path)
	}
	return "", fmt.Errorf("ranks: program %q: the environment has no PATH; expected a path with a slash", p)
}

// forkOne starts one rank. The files of the child are closed here in every case.
func (s *Set) forkOne(num int, program string, attr *syscall.SysProcAttr) (err error) {
	r := &rank{num: num, over: make(chan struct{}), changed: make(chan struct{}, 1)}
	var child []*os.File
	defer func() {
		for _, f := range child {
			_ = f.Close()
		}
		if err != nil {
			r.close()
		}
	}()
	stdin, err := s.openInput(r)
	if err != nil {
		return err
	}
	child = append(child, stdin)
	for _, stream := range []struct {
		to **output
		fd int
	}{{&r.out, Stdout}, {&r.err, Stderr}} {
		o, end, err := s.openOutput(num, stream.fd)
		if err != nil {
			return err
		}
		*stream.to, child = o, append(child, end)
	}
	env := s.cfg.Env
	if s.cfg.EnvOf != nil {
		env = append(slices.Clip(env), s.cfg.EnvOf(num)...)
	}
	if s.cfg.PMI != nil {
		f, err := s.cfg.PMI(num)
		if err != nil {
			return fmt.Errorf("PMI: %w", err)
		}
		child, env = append(child, f), append(slices.Clip(env), fmt.Sprintf("PMI_FD=%d", pmiFD))
	}
	pid, err := syscall.ForkExec(program, s.cfg.Argv, &syscall.ProcAttr{
		Dir: s.cfg.Dir, Env: lastOfEach(env), Files: descriptors(child), Sys: attr,
	})
	runtime.KeepAlive(child)
	if err != nil {
		return explainFork(program, s.cfg.Dir, err)
	}
	s.add(r, pid)
	return nil
}

// add enters a rank that has started.
func (s *Set) add(r *rank, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pid = pid
	r.exit = Exit{Rank: r.num, PID: pid}
	s.ranks = append(s.ranks, r)
	s.byNum[r.num], s.byPID[pid] = r, r
}

// close closes the keeper's files of a rank.
func (r *rank) close() {
	for _, o := range []*output{r.out, r.err} {
		if o != nil {
			_ = o.from.Close()
		}
	}
	if r.in != nil {
		r.in.end()
	}
}

func descriptors(files []*os.File) (fds []uintptr) {
	for _, f := range files {
		fds = append(fds, f.Fd())
	}
	return fds
}

// lastOfEach drops the variables that later ones replace.
func lastOfEach(env []string) (kept []string) {
	seen := make(map[string]bool)
	for _, v := range slices.Backward(env) {
		name, _, _ := strings.Cut(v, "=")
		if !seen[name] {
			seen[name] = true
			kept = append(kept, v)
		}
	}
	slices.Reverse(kept)
	return kept
}

// explainFork returns the error of a fork or an exec, with its likely cure.
func explainFork(program, dir string, err error) error {
	switch {
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("fork: %w: the user or the cgroup has too many processes; see ulimit -u and pids.max", err)
	case errors.Is(err, unix.ENOENT) && dir != "":
		if _, serr := os.Stat(dir); serr != nil {
			return fmt.Errorf("directory %s: %w", dir, errors.Unwrap(serr))
		}
	}
	return fmt.Errorf("start %s: %w", program, err)
}

// PIDs returns the process ids of the ranks, in the order of Config.Ranks.
func (s *Set) PIDs() []int {
	pids := make([]int, len(s.ranks))
	for i, r := range s.ranks {
		pids[i] = r.pid
	}
	return pids
}

// Wait waits until every rank has ended and its Ended has returned. Other processes of the job may still
// run; End ends them.
func (s *Set) Wait() { s.ended.Wait() }
