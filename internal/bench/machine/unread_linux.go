package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// UnreadOptions say how much input a rank gets that never reads.
type UnreadOptions struct {
	Self  string // path of the weft binary
	Bytes int
	Time  time.Duration // how long the input is offered
}

// UnreadRow says what happened to the input.
type UnreadRow struct {
	Bench    string `json:"bench"`
	Offered  int    `json:"offered_bytes"`
	Taken    int64  `json:"taken_bytes"` // by the launcher, before the rank ended
	Launcher int64  `json:"launcher_bytes"`
	// of the launcher and the keeper, compared with the same job without input
	Growth int64 `json:"growth_bytes"`
	Ended  int64 `json:"ended_ns"` // from SIGTERM until the launcher ended
}

// UnreadBound bounds the additional memory of launcher and keeper, compared with a job without
// input, in bytes. The garbage collector makes the memory of a process vary by several MiB from
// run to run.
const UnreadBound = 16 << 20

// RunUnread offers input to a rank that never reads, and compares the memory of the launcher and
// the keeper with that of the same job without input. It returns an error if the memory grows,
// or if the launcher does not end.
func RunUnread(ctx context.Context, o UnreadOptions) (r UnreadRow, err error) {
	r = UnreadRow{Bench: KindUnread, Offered: o.Bytes}
	without, err := r.offer(ctx, o, 0)
	if err != nil {
		return r, err
	}
	with, err := r.offer(ctx, o, o.Bytes)
	if err != nil {
		return r, err
	}
	r.Growth = max(0, with-without)
	if r.Growth > UnreadBound {
		return r, fmt.Errorf("launcher and keeper have %d bytes more with %d bytes of unread input; at most %d",
			r.Growth, r.Taken, UnreadBound)
	}
	return r, nil
}

// offer runs one job and returns the memory of launcher and keeper.
func (r *UnreadRow) offer(ctx context.Context, o UnreadOptions, n int) (memory int64, err error) {
	dir, err := os.MkdirTemp("", "weft-unread-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	c := exec.CommandContext(ctx, o.Self, "run", "-n", "1", "--", o.Self, "victim", dieExit, dir)
	var words lastWords
	c.Stderr = &words
	in, err := c.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	if err := awaitFile(ctx, filepath.Join(dir, "rank.0"), &words); err != nil {
		return 0, err
	}
	var taken atomic.Int64
	go func() {
		defer in.Close()
		for block := make([]byte, 64<<10); int(taken.Load()) < n; {
			k, err := in.Write(block)
			taken.Add(int64(k))
			if err != nil {
				return
			}
		}
	}()
	time.Sleep(o.Time)
	r.Taken = taken.Load()
	memory, err = memoryOf(c.Process.Pid)
	if err != nil {
		return 0, err
	}
	r.Launcher, err = residentBytes(c.Process.Pid)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	timer := time.AfterFunc(settleWithin, func() { _ = c.Process.Kill() })
	werr := c.Wait()
	if r.Ended = int64(time.Since(began)); !timer.Stop() {
		return 0, fmt.Errorf("the launcher did not end within %v of SIGTERM: %s", settleWithin, words.line())
	}
	if exit := (*exec.ExitError)(nil); werr != nil && !errors.As(werr, &exit) && !errors.Is(werr, io.ErrClosedPipe) {
		return 0, werr
	}
	return memory, nil
}

// awaitFile waits until a file exists.
func awaitFile(ctx context.Context, path string, words *lastWords) error {
	for end := time.Now().Add(settleWithin); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("no rank has started: %s", words.line())
		}
	}
}

// memoryOf returns the resident bytes of a launcher and of its descendants other than ranks.
func memoryOf(pid int) (sum int64, err error) {
	if sum, err = residentBytes(pid); err != nil {
		return 0, err
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		more, _ := os.ReadFile(task)
		children = append(append(children, ' '), more...)
	}
	seen := map[string]bool{}
	for _, child := range strings.Fields(string(children)) {
		args, _ := os.ReadFile("/proc/" + child + "/cmdline")
		if seen[child] || strings.Contains(string(args), "victim") {
			continue
		}
		seen[child] = true
		var n int
		if _, err := fmt.Sscan(child, &n); err == nil {
			bytes, _ := residentBytes(n)
			sum += bytes
		}
	}
	return sum, nil
}

// residentBytes returns the anonymous memory of a process, without shared memory.
func residentBytes(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kib int64
			_, err := fmt.Sscan(rest, &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no RssAnon", pid)
}
