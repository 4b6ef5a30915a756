package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/testbed"
)

// `weft testbed exec --join` is two processes, too:
//
//	exec --join ──► supervise --join ──► CMD on host 0 ──► …
//	                      └────────────► CMD on host 1 ──► …
//
// The inner one is in the process namespace of the testbed, so the kernel ends it and each CMD
// with the testbed. It holds a connection to the testbed's door, which shows that the command
// has not ended, and a lifeline to the outer one.

const (
	// doorFile and firstHostFile are file descriptors of supervise --join, after the lifeline.
	doorFile      = lifeline + 1
	firstHostFile = doorFile + 1

	// startPatience bounds the time between the directory of a testbed and its door.
	startPatience = time.Minute

	// largestInvitation bounds an invitation, in bytes.
	largestInvitation = 64 << 10
)

// testbedGone returns the error for a testbed that does not run.
func testbedGone(name string) error {
	_, err := os.Lstat(testbedDir(name))
	problem := fmt.Sprintf("no testbed %s runs", name)
	if err == nil {
		problem = fmt.Sprintf("testbed %s is gone: its processes were killed", name)
	}
	others := runningTestbeds()
	if len(others) == 0 {
		return fmt.Errorf("%s, nor any other of this user in %s: start one with weft testbed exec --name %s",
			problem, os.TempDir(), name)
	}
	return fmt.Errorf("%s: expected one of %s", problem, strings.Join(others, ", "))
}

// knock connects to the door of a testbed. If the testbed is being built, it waits.
func knock(name string) (*net.UnixConn, error) {
	for deadline := time.Now().Add(startPatience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Lstat(testbedDir(name)); err != nil {
			return nil, testbedGone(name)
		}
		if err := checkOwner(name); err != nil {
			return nil, err
		}
		conn, err := dialDoor(name)
		switch {
		case err == nil:
			return conn, nil
		case !testbedRuns(name):
			return nil, testbedGone(name)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("testbed %s is not ready after %v: %w", name, startPatience, err)
		}
	}
}

func dialDoor(name string) (*net.UnixConn, error) {
	dir, err := os.Open(testbedDir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.DialUnix("unixpacket", nil, doorAddress(dir))
}

// accepted is an invitation with its files.
type accepted struct {
	invitation
	processes, mounts *os.File
	hosts             []*os.File
}

func readInvitation(name string, conn *net.UnixConn) (*accepted, error) {
	bad := func(err error) (*accepted, error) {
		return nil, fmt.Errorf("joining testbed %s: %w", name, err)
	}
	text, rights := make([]byte, largestInvitation), make([]byte, unix.CmsgSpace(4*(testbed.MaxHosts+2)))
	n, rightsLen, _, _, err := conn.ReadMsgUnix(text, rights)
	if err == nil && n == 0 {
		err = errors.New("it refused the command: it is ending, or belongs to another user")
	}
	if err != nil {
		return bad(err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rightsLen])
	if err != nil {
		return bad(err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return bad(err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "namespace of a testbed"))
		}
	}
	a := &accepted{}
	if err := json.Unmarshal(text[:n], &a.invitation); err != nil {
		return bad(err)
	}
	if len(files) != len(a.Addrs)+2 {
		return bad(fmt.Errorf("%d namespaces came for %d hosts: expected two more than hosts",
			len(files), len(a.Addrs)))
	}
	a.processes, a.mounts, a.hosts = files[0], files[1], files[2:]
	return a, nil
}

// runTestbedJoin runs the outer half of --join.
func runTestbedJoin(c *cobra.Command, o *execOptions) error {
	if err := testbed.Check(); err != nil {
		return err
	}
	conn, err := knock(o.join)
	if err != nil {
		return err
	}
	defer conn.Close()
	a, err := readInvitation(o.join, conn)
	if err != nil {
		return err
	}
	if o.on >= len(a.Addrs) {
		return usagef("--on is %d: expected a host from 0 to %d, since testbed %s has %d",
			o.on, len(a.Addrs)-1, o.join, len(a.Addrs))
	}
	o.dir, o.addrs = testbedDir(o.join), strings.Join(a.Addrs, ",")
	if err := joinEnvironment(o.dir, a); err != nil {
		return err
	}
	if _, err := exec.LookPath(o.argv[0]); err != nil {
		return notStarted(err)
	}
	o.foreground = o.on >= 0 && hasTerminal()
	door, err := conn.File()
	if err != nil {
		return err
	}
	conn.Close() // the inner half alone holds it
	err = watch(c, o, append([]*os.File{door}, a.hosts...), func(inner *exec.Cmd) error {
		defer door.Close()
		return startInside(inner, a)
	})
	if e := (*exitError)(nil); errors.As(err, &e) && e.status == 128+int(unix.SIGKILL) && e.err == nil &&
		!runsSoon(o.join) {
		e.err = testbedEnded(o.join)
	}
	return err
}

// joinEnvironment gives CMD the environment that the commands of the testbed have.
func joinEnvironment(dir string, a *accepted) error {
	path := filepath.Join(dir, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")
	err := os.Setenv("PATH", path)
	if os.Getenv(fabric.FileVariable) == "" {
		err = errors.Join(err, os.Setenv(fabric.FileVariable, a.FabricFile))
	}
	return err
}

// startInside starts the inner half in the namespaces of the testbed. The thread that entered
// them ends.
func startInside(inner *exec.Cmd, a *accepted) error {
	defer a.processes.Close()
	defer a.mounts.Close()
	var err error
	if inner.Dir, err = os.Getwd(); err != nil {
		return err
	}
	inner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // it stays locked, so the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The first thread of a process cannot end. This goroutine keeps it, so the other
			// one runs on another thread.
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread()
				started <- enterAndStart(inner, a)
			}()
			<-done
			runtime.UnlockOSThread()
			return
		}
		started <- enterAndStart(inner, a)
	}()
	return <-started
}

func enterAndStart(inner *exec.Cmd, a *accepted) error {
	for _, step := range []func() error{
		func() error { return unix.Unshare(unix.CLONE_FS) }, // otherwise the mounts are closed
		func() error { return unix.Setns(int(a.mounts.Fd()), unix.CLONE_NEWNS) },
		func() error { return unix.Setns(int(a.processes.Fd()), unix.CLONE_NEWPID) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("entering the namespaces of the testbed: "+
				"%w (needs CAP_SYS_ADMIN and CAP_SYS_CHROOT in the user namespace of the testbed)",
				err)
		}
	}
	return inner.Start()
}

// runsSoon reports whether a testbed still runs. The kernel kills joined commands before the
// process that built the testbed has noticed that its supervisor has ended.
func runsSoon(name string) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !testbedRuns(name) {
			return false
		}
	}
	return true
}

func testbedEnded(name string) error {
	return fmt.Errorf("testbed %s has ended, and ended CMD", name)
}

// runTestbedSuperviseJoined runs the inner half of --join.
func runTestbedSuperviseJoined(
	c *cobra.Command, o *execOptions, signals <-chan os.Signal, abandoned <-chan struct{},
) error {
	unix.CloseOnExec(doorFile)
	s := &supervision{o: o, addrs: strings.Split(o.addrs, ","), out: newLines(c.OutOrStdout(), c.ErrOrStderr())}
	for i := range s.addrs {
		unix.CloseOnExec(firstHostFile + i)
		place, err := testbed.NewPlace(os.NewFile(uintptr(firstHostFile+i), "namespace of a host"))
		if err != nil {
			return err
		}
		defer place.Close()
		s.hosts = append(s.hosts, place)
	}
	if err := s.start(); err != nil {
		return err
	}
	status, patient := s.wait(signals, abandoned)
	if patient {
		s.out.waitFor(o.grace) // a process that CMD has left may hold a pipe
	}
	if status == 0 {
		return nil
	}
	// The testbed announces its end before it ends CMD.
	if n, _, err := unix.Recvfrom(doorFile, make([]byte, 1), unix.MSG_DONTWAIT); err == nil && n == 1 {
		return &exitError{status, testbedEnded(o.join)}
	}
	return &exitError{status: status}
}
