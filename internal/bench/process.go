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

// grace is how long a program has to end after it was asked to. Its NIC may linger, for a peer
// whose last frame was lost, and a busy machine needs time for the rest.
const grace = 10 * limits.LingerAtClose

// child is a weft process that the bench has started. Its standard error is kept for errors.
type child struct {
	*exec.Cmd
	launch func() error
	stderr bytes.Buffer
	ended  chan struct{} // closed when it has ended; err is then the result
	err    error
}

func newChild(self string, args ...string) *child {
	cmd := exec.Command(self, args...)
	bind(cmd)
	return watched(cmd, cmd.Start)
}

// with makes start run c with share i of n of the processors.
func (c *child) with(i, n int) *child {
	launch := c.launch
	c.launch = func() error { return testbed.Apart(i, n, launch) }
	return c
}

// newChildOn is newChild on a host of a testbed. The child is killed when the testbed ends.
func newChildOn(h *testbed.Host, self string, args ...string) *child {
	cmd := h.Command(context.Background(), self, args...)
	return watched(cmd.Cmd, cmd.Start)
}

// childAt returns a child on a host of a testbed. Without a testbed, it returns one on this host
// with that half of its processors.
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

// start starts the child from a thread that lives as long as the child, since Linux takes the
// end of that thread for the end of the parent.
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

// end asks the child to end, kills it after grace, and returns the error of the child, if any.
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

// failure returns the error with which the child ended, in the child's own words. It returns the
// error only once, so the caller that ends the child does not repeat it.
func (c *child) failure() error {
	err := c.err
	if err == nil {
		return nil
	}
	c.err = nil
	words := strings.TrimSpace(c.stderr.String())
	if said := lastSaid(words); said != "" && c.Args[1] == "bench" && c.ProcessState.Exited() {
		// the same bench in another process; the reader does not care in which
		return errors.New(said)
	}
	if words == "" {
		words = "without a word"
	}
	return fmt.Errorf("%s %s: %w: %s", filepath.Base(c.Path), c.Args[1], err, words)
}

// lastSaid returns the error with which a weft ended, without the name weft, from its output;
// empty if it printed none.
func lastSaid(words string) string {
	const name = "weft: "
	at := strings.LastIndex("\n"+words, "\n"+name)
	if at < 0 || strings.HasPrefix(words[at:], name+"warning: ") {
		return ""
	}
	return words[at+len(name):]
}
