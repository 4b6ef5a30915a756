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

// InsideWord is the first argument of a program that runs in a process space of its own.
const InsideWord = "inside"

// InOwnSpace runs this program again, as process 1 of a process namespace, with InsideWord before its arguments, and returns
// its exit status. Launchers such as Open MPI's leave processes behind when they are killed, in sessions and groups of their
// own; of a namespace, none outlives process 1. All in it are as nice as that says, if the kernel lets us: below 0, those outside
// disturb them less. It fails with ErrNoSpace where there can be none.
func InOwnSpace(args []string, nice int) (status int, err error) {
	inner := exec.Command("/proc/self/exe", append([]string{InsideWord}, args...)...)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true, // the terminal's signals come by way of this process, once
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(signals)
	runtime.LockOSThread() // whose end the kernel would take for the parent's
	defer runtime.UnlockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice) // of this thread; what it starts has it from there
	if err := inner.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	// Where sessions are scheduled as groups, a process is nice within its session only, and the session by this.
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

// ErrNoSpace is wrapped by errors that say that this user can have no process namespace.
var ErrNoSpace = errors.New("no process namespace")

// sharedFiles is where programs keep memory that they share, by names made of process numbers, which begin anew in each space.
const sharedFiles = "/dev/shm"

// ownFiles says that what is in sharedFiles is this space's alone.
var ownFiles bool

// Enter prepares process 1 of a process space: it mounts a /proc that shows that space, and shared memory that is empty.
// Some containers forbid both.
func Enter() {
	if os.Getpid() != 1 || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil {
		return
	}
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	ownFiles = unix.Mount("tmpfs", sharedFiles, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "") == nil
}

// Sweep ends all processes of an own space but this one, and removes the shared memory of those that were killed. All programs must
// have been waited for. It is only for a process that InOwnSpace started, and does nothing elsewhere, where the processes of others are.
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
			_ = os.RemoveAll(f) // the mount goes with the space in any case
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
