package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
)

// commander is a host, of a testbed of this process or of another's.
type commander interface {
	Command(ctx context.Context, name string, args ...string) *testbed.Cmd
}

// supervision is one run of the inner half of `weft testbed exec`.
type supervision struct {
	o       *execOptions
	hosts   []commander
	addrs   []string // of the hosts
	out     *lines
	running []*testbed.Cmd // in the order of hosts
}

// lockFile is the file descriptor of the testbed's lock, after the lifeline.
const lockFile = lifeline + 1

// runTestbedSupervise runs the inner half.
func runTestbedSupervise(c *cobra.Command, o *execOptions) error {
	if (os.Getpid() != 1 && o.join == "") || o.dir == "" {
		return errors.New("testbed supervise is for weft testbed exec to start")
	}
	signals := make(chan os.Signal, 16)
	notifyOfEnd(signals)
	abandoned := holdLifeline()
	if o.join != "" {
		return runTestbedSuperviseJoined(c, o, signals, abandoned)
	}
	unix.CloseOnExec(lockFile)
	defer os.RemoveAll(o.dir)
	ownProc()

	tb, err := testbed.New(o.config)
	if err != nil {
		return err
	}
	defer tb.Close()
	door, err := openDoor(o, tb)
	if err != nil {
		return err
	}
	s := &supervision{o: o, out: newLines(c.OutOrStdout(), c.ErrOrStderr())}
	for i := range tb.Hosts() {
		s.hosts, s.addrs = append(s.hosts, tb.Host(i)), append(s.addrs, tb.Host(i).Addr().String())
	}
	if err := s.start(); err != nil {
		door.close()
		killAll(0, door)
		return err
	}
	status, patient := s.wait(signals, abandoned)
	door.close()
	if patient {
		killAll(o.grace, door)
	} else {
		killAll(0, door)
	}
	s.out.wait()
	if status != 0 {
		return &exitError{status: status}
	}
	return nil
}

// holdLifeline tells exec that this process is ready, and returns a channel that is closed when
// exec has gone.
func holdLifeline() <-chan struct{} {
	unix.CloseOnExec(lifeline)
	exec := os.NewFile(lifeline, "lifeline")
	_, _ = exec.Write([]byte{0}) // if exec has gone, the read reports it
	abandoned := make(chan struct{})
	go func() {
		_, _ = exec.Read(make([]byte, 1)) // it never writes
		close(abandoned)
	}()
	return abandoned
}

// ownProc mounts a /proc that shows this process namespace. Some containers forbid it. Then ps
// shows the processes outside, and everything else works.
func ownProc() {
	if unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") == nil {
		_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
}

// start starts CMD on its hosts.
func (s *supervision) start() error {
	for i, host := range s.hosts {
		if s.o.on >= 0 && s.o.on != i {
			continue
		}
		cmd := host.Command(context.Background(), s.o.argv[0], s.o.argv[1:]...)
		cmd.Env = s.environment(i)
		cmd.SysProcAttr.Setpgid = true
		if err := s.startOne(cmd, i); err != nil {
			return notStarted(err)
		}
		s.running = append(s.running, cmd)
	}
	return nil
}

func (s *supervision) startOne(cmd *testbed.Cmd, host int) error {
	if s.o.on >= 0 {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, unprinted(s.out.stdout), s.out.stderr
		cmd.SysProcAttr.Foreground = s.o.foreground // standard input is the terminal
		return cmd.Start()
	}
	// These are our own pipes: those of exec would make Wait wait for every process that has
	// inherited them.
	stdout, err := s.out.pipe(host, false)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := s.out.pipe(host, true)
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd.Start()
}

// environment returns the environment of CMD on a host.
func (s *supervision) environment(host int) []string {
	return append(os.Environ(),
		"WEFT_TESTBED="+strings.TrimPrefix(filepath.Base(s.o.dir), testbedDirPrefix),
		"WEFT_HOST="+strconv.Itoa(host),
		"WEFT_HOSTS="+strconv.Itoa(len(s.addrs)),
		"WEFT_ADDR="+s.addrs[host],
		"WEFT_ADDRS="+strings.Join(s.addrs, ","),
		"WEFT_SOCKET="+filepath.Join(s.o.dir, fmt.Sprintf("host%d.sock", host)))
}

// wait waits for every CMD and passes signals on. A grace after the first signal, or when exec
// has gone, it kills and sets patient to false. It returns the exit status for all.
func (s *supervision) wait(signals <-chan os.Signal, abandoned <-chan struct{}) (status int, patient bool) {
	type end struct{ which, status int }
	ended := make(chan end, len(s.running))
	for i, cmd := range s.running {
		go func() {
			_ = cmd.Wait() // ProcessState has the result
			ended <- end{i, exitStatus(cmd.ProcessState)}
		}()
	}
	statuses := make([]int, len(s.running))
	patient = true
	var late <-chan time.Time
	for left := len(s.running); left > 0; {
		select {
		case e := <-ended:
			statuses[e.which] = e.status
			left--
		case sig := <-signals:
			for _, cmd := range s.running {
				_ = unix.Kill(-cmd.Process.Pid, sig.(syscall.Signal)) // the group may have ended
			}
			if late == nil {
				late = time.After(s.o.grace)
			}
		case <-late:
			s.kill()
			patient = false
		case <-abandoned:
			s.kill()
			abandoned, patient = nil, false
		}
	}
	failed := slices.IndexFunc(statuses, func(status int) bool { return status != 0 })
	if failed >= 0 {
		status = statuses[failed]
	}
	return status, patient
}

func (s *supervision) kill() {
	for _, cmd := range s.running {
		_ = cmd.Process.Kill() // it may have ended
	}
}

// killAll ends all processes of the namespace but this one, and returns when none is left. If
// there is a grace, it sends SIGTERM first. All commands must have been waited for. Commands
// that have joined are no children of this process: when it ends, the kernel kills them and
// their descendants.
func killAll(grace time.Duration, d *door) {
	if grace > 0 {
		_ = unix.Kill(-1, unix.SIGTERM)
		for deadline := time.Now().Add(grace); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if !reap(unix.WNOHANG) && d.empty() {
				return
			}
		}
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	for reap(0) {
	}
}

// reap collects the children that have ended and reports whether there are others. Orphans are
// children of process 1.
func reap(options int) bool {
	for {
		pid, err := unix.Wait4(-1, nil, options, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false // no child is left
		case pid == 0:
			return true // none has ended
		}
	}
}
