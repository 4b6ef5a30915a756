package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/testbed"
)

// grace is how long a program that was asked to end has to do so. Its NIC may linger, for a peer whose last word was lost,
// and a busy machine takes its time with the rest.
const grace = 10 * limits.LingerAtClose

// child is a weft of ours in a process of its own. What it says on standard error is kept for errors.
type child struct {
	*exec.Cmd
	launch func() error
	stderr bytes.Buffer
	ended  chan struct{} // closed when it has ended; then err is how
	err    error
}

func newChild(self string, args ...string) *child {
	cmd := exec.Command(self, args...)
	bind(cmd)
	return watched(cmd, cmd.Start)
}

// with has c started with share i of n of the processors.
func (c *child) with(i, n int) *child {
	launch := c.launch
	c.launch = func() error { return testbed.Apart(i, n, launch) }
	return c
}

// newChildOn is newChild on a host of a testbed. It is killed when the testbed ends.
func newChildOn(h *testbed.Host, self string, args ...string) *child {
	cmd := h.Command(context.Background(), self, args...)
	return watched(cmd.Cmd, cmd.Start)
}

// childAt is a child on a host of a testbed; without one, on this host with that half of its processors.
func childAt(bed *testbed.Testbed, half int, self string, args ...string) *child {
	if bed != nil {
		return newChildOn(bed.Host(half), self, args...)
	}
	return newChild(self, args...).with(half, 2)
}

func watched(cmd *exec.Cmd, launch func() error) *child {
	c := &child{Cmd: cmd, launch: launch, ended: make(chan struct{})}
	c.Stderr = &c.stderr
	c.WaitDelay = grace
	return c
}

// start starts the child. It is started by a thread that lives as long as it does, since Linux takes the end of that
// thread for the end of the parent.
func (c *child) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.launch()
		started <- err
		if err == nil {
			c.err = c.Wait()
			close(c.ended)
		}
	}()
	return <-started
}

// end asks the child to end, insists after a while, and says what went wrong if something did.
func (c *child) end() error {
	_ = c.Process.Signal(syscall.SIGTERM) // fails if it has ended already
	select {
	case <-c.ended:
	case <-time.After(grace):
		_ = c.Process.Kill()
		<-c.ended
	}
	return c.failure()
}

// failure says how the child has ended, in its own words, and once: the caller that takes it down need not say it again.
func (c *child) failure() error {
	err := c.err
	if err == nil {
		return nil
	}
	c.err = nil
	words := strings.TrimSpace(c.stderr.String())
	if said := lastSaid(words); said != "" && c.Args[1] == "bench" && c.ProcessState.Exited() {
		return errors.New(said) // the same bench in another process: a reader does not care in which
	}
	if words == "" {
		words = "without a word"
	}
	return fmt.Errorf("%s %s: %w: %s", filepath.Base(c.Path), c.Args[1], err, words)
}

// lastSaid is the error that a weft ended with by what it said, without its name; empty if it did not come to say one.
func lastSaid(words string) string {
	const name = "weft: "
	at := strings.LastIndex("\n"+words, "\n"+name)
	if at < 0 || strings.HasPrefix(words[at:], name+"warning: ") {
		return ""
	}
	return words[at+len(name):]
}
