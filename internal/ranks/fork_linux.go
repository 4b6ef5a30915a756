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
	"syscall"

	"golang.org/x/sys/unix"
)

// fork starts the ranks from one thread, and keeps the thread until no child is left: Linux ends
// the ranks when the thread that forked them ends. The goroutine never unlocks, so no other one
// runs on the thread.
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

// keepFiles keeps the files of this process from its ranks. Files that Go has opened are kept
// anyway; those that the keeper has inherited, such as the connection to its daemon, would live on
// in the ranks.
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
		return "", fmt.Errorf("ranks: program %q is not in PATH %q; expected an executable file there, or a path", p,
			path)
	}
	return "", fmt.Errorf("ranks: program %q: the environment has no PATH; expected a path with a slash", p)
}

// forkOne starts one rank. It closes the child's files in any case.
func (s *Set) forkOne(num int, program string, attr *syscall.SysProcAttr) error {
	r := &rank{
		num: num, pidfd: -1, over: make(chan struct{}), noted: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	files, err := s.open(r)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		r.close()
		return err
	}
	env := s.cfg.Env
	if s.cfg.EnvOf != nil {
		env = append(slices.Clip(env), s.cfg.EnvOf(num)...)
	}
	if s.cfg.PMI != nil {
		env = append(slices.Clip(env), fmt.Sprintf("PMI_FD=%d", pmiFD))
	}
	pid, err := syscall.ForkExec(program, s.cfg.Argv, &syscall.ProcAttr{
		Dir: s.cfg.Dir, Env: lastOfEach(env), Files: descriptors(files), Sys: attr,
	})
	if err != nil {
		r.close()
		return explainFork(program, s.cfg.Dir, err)
	}
	s.add(r, pid)
	return nil
}

// open opens the files of a rank. It returns those of the child, also if it fails.
func (s *Set) open(r *rank) (child []*os.File, err error) {
	f, err := s.openInput(r)
	if err != nil {
		return nil, err
	}
	child = append(child, f)
	for i, to := range []**output{&r.out, &r.err} {
		if *to, f, err = s.openOutput(r.num, Stdout+i); err != nil {
			return child, err
		}
		child = append(child, f)
	}
	if s.cfg.PMI != nil {
		if f, err = s.cfg.PMI(r.num); err != nil {
			return child, fmt.Errorf("PMI: %w", err)
		}
		child = append(child, f)
	}
	return child, nil
}

// add enters a rank that has started.
func (s *Set) add(r *rank, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pid = pid
	r.exit = Exit{Rank: r.num, PID: pid}
	s.ranks = append(s.ranks, r)
	r.pidfd = s.obituary.add(pid, len(s.ranks)-1)
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
