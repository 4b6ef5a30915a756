package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/testbed"
)

// `weft testbed exec` is two processes:
//
//	exec ──► supervise ──► CMD on host 0 ──► whatever CMD starts
//	             │  └────► CMD on host 1 ──► …
//	             └ process 1 of a process namespace; holds the hosts
//
// Daemons that a CMD starts outlive it, and no signal and no process group reaches them all. A
// process namespace does: when its process 1 ends, the kernel kills everything in it. So
// supervise is that process 1 and does all the work, and exec only watches.
//
// A lifeline, a pair of sockets, joins the two. On it supervise says that it is ready for
// signals: before that, the kernel would not deliver them to a process 1. If exec is killed,
// supervise reads the end of the lifeline and cleans up. If supervise is killed, exec removes
// the directory of sockets. Only a kill of both at once leaves that directory behind, and
// nothing else.

// lifeline is the file descriptor of supervise's end.
const lifeline = 3

// ownBinaryFirst puts this binary first in CMD's PATH as weft, whatever its name. The directory
// into which Go installs programs is seldom in root's PATH.
func ownBinaryFirst(dir string) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this binary: %w", err)
	}
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Symlink(own, filepath.Join(bin, "weft"))); err != nil {
		return fmt.Errorf("putting this binary on the PATH of the hosts: %w", err)
	}
	return os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// oneFabric gives the hosts a fabric key that lives as long as they do, unless the environment
// names one. Otherwise each daemon would make its own, as on hosts that share nothing.
func oneFabric(dir string) error {
	if os.Getenv(fabric.FileVariable) != "" {
		return nil
	}
	path := filepath.Join(dir, fabric.FileName)
	if _, err := fabric.Init(path); err != nil {
		return err
	}
	return os.Setenv(fabric.FileVariable, path)
}

// runTestbedExec runs the outer half.
func runTestbedExec(c *cobra.Command, o *execOptions) error {
	lock, err := makeTestbedDir(o)
	if err != nil {
		return err
	}
	defer lock.Close()
	defer os.RemoveAll(o.dir)
	if err := errors.Join(ownBinaryFirst(o.dir), oneFabric(o.dir)); err != nil {
		return err
	}
	if _, err := exec.LookPath(o.argv[0]); err != nil {
		return notStarted(err)
	}
	if err := testbed.Check(); err != nil {
		return err
	}
	o.foreground = o.on >= 0 && hasTerminal()
	return watch(c, o, []*os.File{lock}, (*exec.Cmd).Start)
}

// watch starts the inner half, which gets more files after the lifeline. It passes signals on to
// the inner half, and waits for its end.
func watch(c *cobra.Command, o *execOptions, files []*os.File, start func(*exec.Cmd) error) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("making the lifeline: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "lifeline"), os.NewFile(uintptr(pair[1]), "lifeline")
	defer ours.Close()
	inner := supervisor(c, o, append([]*os.File{theirs}, files...))
	signals := make(chan os.Signal, 16)
	notifyOfEnd(signals)
	defer signal.Stop(signals)
	err = start(inner)
	theirs.Close()
	if err != nil {
		return fmt.Errorf("starting the supervisor in its namespaces: %w", err)
	}
	_, _ = ours.Read(make([]byte, 1)) // it is ready, or has ended
	ended := make(chan error, 1)
	go func() { ended <- inner.Wait() }()
	for {
		select {
		case s := <-signals:
			// It only fails if supervise has ended.
			_ = inner.Process.Signal(s)
		case err := <-ended:
			return passOn(err)
		}
	}
}

// notifyOfEnd sends the signals that end a command to a channel.
func notifyOfEnd(signals chan<- os.Signal) {
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	if hangsUp() {
		signal.Notify(signals, unix.SIGHUP)
	}
}

// supervisor returns the command that runs the inner half.
func supervisor(c *cobra.Command, o *execOptions, files []*os.File) *exec.Cmd {
	args := append([]string{"testbed", "supervise"}, o.flags()...)
	args = append(append(args, "--"), o.argv...)
	inner := exec.Command("/proc/self/exe", args...)
	inner.Args[0] = "weft"
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, stdoutOf(c), c.ErrOrStderr()
	inner.ExtraFiles = files
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Setpgid:    true, // exec passes on the terminal's signals, once
	}
	return inner
}

// passOn turns the end of a process into the end of weft. The process has printed its own
// errors.
func passOn(err error) error {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return &exitError{status: exitStatus(e.ProcessState)}
	}
	return err
}

// exitStatus returns the status of an ended process in a shell's form.
func exitStatus(p *os.ProcessState) int {
	if w := p.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal())
	}
	return p.ExitCode()
}

// notStarted gives a command that cannot be started the status that a shell would.
func notStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &exitError{127, err}
	}
	return &exitError{126, err}
}

// hasTerminal reports whether standard input is a terminal in whose foreground this process is,
// so that CMD can have it.
func hasTerminal() bool {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
