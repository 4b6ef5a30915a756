package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// InsideWord is the first argument of a program that runs in its own process space.
const InsideWord = "inside"

// InOwnSpace runs this program again, as process 1 of a process namespace, with InsideWord
// before its arguments, and returns its exit status. When launchers such as Open MPI's are
// killed, they leave processes behind in other sessions and groups. No process of a namespace
// outlives process 1. All processes in the space get the nice value nice, if the kernel permits
// it. Below 0, other programs disturb them less. InOwnSpace fails with ErrNoSpace if there can
// be no namespace.
func InOwnSpace(args []string, nice int) (status int, err error) {
	inner := exec.Command("/proc/self/exe", append([]string{InsideWord}, args...)...)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true, // this process passes on the terminal's signals, once
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(signals)
	// the kernel takes the end of this thread for the end of the parent
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// for this thread; its children inherit it
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice)
	if err := inner.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	// If sessions are scheduled as groups, a nice value counts only within its session. This
	// sets the value of the session.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", inner.Process.Pid), []byte(strconv.Itoa(nice)), 0)
	go func() {
		for s := range signals {
			_ = inner.Process.Signal(s) // it may have ended
		}
	}()
	err = inner.Wait()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return e.ExitCode(), nil
	}
	return 0, err
}

// ErrNoSpace is wrapped by errors that say that this user cannot have a process namespace.
var ErrNoSpace = errors.New("no process namespace")

// sharedFiles is the directory of shared memory of programs. Its names are made of process
// numbers, which restart in each space.
const sharedFiles = "/dev/shm"

// ownFiles says that sharedFiles belongs to this space alone.
var ownFiles bool

// Enter prepares process 1 of a process space: it mounts a /proc that shows the space, and an
// empty directory for shared memory. Some containers forbid both.
func Enter() {
	if os.Getpid() != 1 || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil {
		return
	}
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	ownFiles = unix.Mount("tmpfs", sharedFiles, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "") == nil
}

// Sweep ends all processes of the space but this one, and removes the shared memory of killed
// processes. All programs must have been waited for. It works only in a process that InOwnSpace
// has started. Elsewhere it does nothing, since other processes run there.
func Sweep(ctx context.Context) {
	if os.Getpid() != 1 || len(os.Args) < 2 || os.Args[1] != InsideWord {
		return
	}
	for ctx.Err() == nil {
		_ = unix.Kill(-1, unix.SIGKILL) // fails if there are none
		if !reap() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if ownFiles {
		files, _ := filepath.Glob(sharedFiles + "/*")
		for _, f := range files {
			_ = os.RemoveAll(f) // the mount ends with the space in any case
		}
	}
}

// reap collects the children that have ended, and reports whether there are others.
func reap() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		}
	}
}
