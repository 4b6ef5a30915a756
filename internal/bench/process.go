package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/testbed"
)

// grace is how long a program that was asked to end has to do so. Its NIC may linger, for a peer whose last word was lost,
// and a busy machine takes its time with the rest.
const grace = 10 * limits.LingerAtClose

// place is where a process is to be: its name, and the NIC that serves it.
type place struct {
	self       string // the weft binary
	deployment string
	link       string
	name       weft.Name
	listen     string
	nodes      []weft.Node
	config     string // of a daemon: more lines of its configuration
	apart      bool   // of a daemon: it has the second half of the processors
}

// open makes a process and the NIC that serves it, and returns the address of the NIC's link.
func (u *undo) open(ctx context.Context, at place) (*weft.Process, string, error) {
	if at.deployment == DeployedEmbedded {
		listen := at.listen
		if at.link == LinkXDP {
			listen = "xdp:" + listen
		}
		link, err := weft.ParseLink(listen)
		if err != nil {
			return nil, "", err
		}
		p, err := weft.Open(ctx, weft.Config{Name: at.name, Link: link, Nodes: at.nodes})
		if err != nil {
			return nil, "", err
		}
		u.add(p.Close)
		return p, p.NIC().Addr(), nil
	}
	// With one processor, which is what half of two gives, each yield of a waiter would be the Go scheduler's affair, too. The roles of limits
	// have as many.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	socket, addr := at.listen, at.listen
	if at.deployment != DeployedShared { // there it is that of a daemon which is there already
		var err error
		if socket, addr, err = u.startDaemon(ctx, at); err != nil {
			return nil, "", err
		}
	}
	p, err := u.attach(ctx, socket, at.name)
	return p, addr, err
}

// arguments are those of a side that is a process of its own, and more.
func (o *Options) arguments(more ...string) []string {
	args := []string{"bench", o.Kind, "--child", "--deployment", o.Deployment}
	if o.Link != LinkNone {
		args = append(args, "--link", o.Link)
	}
	return append(args, more...)
}

// anyAddress is where a NIC on this host may listen.
func (o *Options) anyAddress() string {
	if o.Link == LinkShm {
		return "shm:"
	}
	return "127.0.0.1:0"
}

// meetingPlace is where the server on this host is to listen: at an address that it chooses, or at the socket of the daemon that it shares with
// the client, which is started for that.
func (u *undo) meetingPlace(ctx context.Context, o *Options) (listen string, err error) {
	if listen = o.anyAddress(); o.Deployment == DeployedShared {
		listen, _, err = u.startDaemon(ctx, place{self: o.Self, listen: listen, apart: o.Apart})
	}
	return listen, err
}

// startDaemon starts a NIC daemon of its own, in a directory of its own, and waits until it answers.
func (u *undo) startDaemon(ctx context.Context, at place) (socket, addr string, err error) {
	if _, socket, addr, err = u.runDaemon(ctx, at); err != nil {
		err = fmt.Errorf("bench: starting a NIC daemon: %w", err)
	}
	return socket, addr, err
}

// runDaemon is startDaemon for a caller that looks after the daemon itself.
func (u *undo) runDaemon(ctx context.Context, at place) (c *child, socket, addr string, err error) {
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return nil, "", "", err
	}
	u.add(func() error { return os.RemoveAll(dir) })
	socket = filepath.Join(dir, "nic.sock")
	var config strings.Builder
	if at.link != "" {
		fmt.Fprintf(&config, "link = %q\n", at.link)
	}
	fmt.Fprintf(&config, "socket = %q\nstate_dir = %q\nlisten = %q\nlog = \"warn\"\n%s", socket, dir, at.listen, at.config)
	for _, n := range at.nodes {
		fmt.Fprintf(&config, "[[node]]\naddress = %q\n", n.Addr)
	}
	file := filepath.Join(dir, "nic.toml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, "", "", err
	}
	if c = newChild(at.self, "nic", "--config", file); at.apart {
		c.with(1, 2)
	}
	if err := c.start(); err != nil {
		return nil, "", "", err
	}
	u.add(c.end)
	addr, err = c.whenUp(ctx, socket)
	return c, socket, addr, err
}

// whenUp waits until the daemon at socket answers, and returns the address of its link.
func (c *child) whenUp(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := ctl.Dial(ctx, socket)
		if err == nil {
			defer conn.Close()
			info, _, unmap, err := conn.Stat(ctx)
			if err != nil {
				return "", err
			}
			return info.Address, unmap()
		}
		if !errors.Is(err, ctl.ErrNoDaemon) {
			return "", err
		}
		select {
		case <-c.ended:
			return "", fmt.Errorf("it ended at once: %w", c.failure())
		case <-ctx.Done():
			return "", fmt.Errorf("it does not answer: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

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

// EndWithInput returns a context that ends when r does: how a child notices that its parent has died.
func EndWithInput(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		cancel()
	}()
	return ctx
}
