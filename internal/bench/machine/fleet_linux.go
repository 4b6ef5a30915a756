package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

// fleet is a number of hosts of a testbed, each with a NIC daemon, and a machine that has all of
// them.
type fleet struct {
	self  string // the weft binary
	dir   string
	tb    *testbed.Testbed
	hosts []*host
	peers string // the addresses of all hosts
}

// host is one host of a fleet.
type host struct {
	*testbed.Host
	f      *fleet
	socket string
	id     string // of its NIC
	space  string // its network namespace, as /proc names it
	daemon *testbed.Cmd
	log    bytes.Buffer
	holds  holdings // of the daemon, before any job
}

// machineName is the name of the fleet's machine.
const machineName = "all"

// settleWithin bounds every wait for something that must happen.
const settleWithin = time.Minute

// newFleet starts hosts, daemons and the machine. close ends them.
func newFleet(ctx context.Context, self string, hosts, slots int) (f *fleet, err error) {
	f = &fleet{self: self}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
			f = nil
		}
	}()
	if f.dir, err = os.MkdirTemp("", "weft-machine-"); err != nil {
		return f, err
	}
	if f.tb, err = testbed.New(testbed.Config{Hosts: hosts, Lossy: true}); err != nil {
		return f, err
	}
	var addrs []string
	for i := range hosts {
		addrs = append(addrs, f.tb.Host(i).Addr().String())
	}
	f.peers = strings.Join(addrs, ",")
	if err := f.weft("fabric", "init"); err != nil {
		return f, err
	}
	for i := range hosts {
		h := &host{Host: f.tb.Host(i), f: f, socket: filepath.Join(f.dir, fmt.Sprintf("h%d.sock", i))}
		f.hosts = append(f.hosts, h)
		if err := h.identify(); err != nil {
			return f, err
		}
	}
	for _, h := range f.hosts {
		if err := h.start(ctx, slots); err != nil {
			return f, err
		}
	}
	return f, f.assemble(ctx, slots)
}

// environment returns the environment of every command of the fleet.
func (f *fleet) environment(socket string) []string {
	return append(os.Environ(), "WEFT_FABRIC_FILE="+filepath.Join(f.dir, "fabric.key"), "WEFT_SOCKET="+socket)
}

// weft runs the binary on the real machine.
func (f *fleet) weft(args ...string) error {
	c := exec.Command(f.self, args...)
	c.Env = f.environment("")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("weft %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// identify sets the id of the host's NIC, and the name of the host's network namespace in /proc.
func (h *host) identify() error {
	c := exec.Command(h.f.self, "fabric", "key", "--state-dir", h.state())
	c.Env = h.f.environment("")
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("weft fabric key: %w", err)
	}
	if fields := strings.Fields(string(out)); len(fields) == 2 {
		h.id = fields[1]
	} else {
		return fmt.Errorf("weft fabric key printed %q; expected a key and an id", out)
	}
	return h.Do(func() (err error) {
		h.space, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
}

// state returns the directory of the daemon's key.
func (h *host) state() string { return strings.TrimSuffix(h.socket, ".sock") + ".state" }

// command returns a command that runs the weft binary on the host.
func (h *host) command(ctx context.Context, args ...string) *testbed.Cmd {
	c := h.Command(ctx, h.f.self, args...)
	c.Env = h.f.environment(h.socket)
	return c
}

// start starts the daemon of the host and waits until it answers.
func (h *host) start(ctx context.Context, slots int) error {
	config := filepath.Join(h.f.dir, fmt.Sprintf("h%d.toml", h.Index()))
	text := fmt.Appendf(nil, "slots = %d\nstate_dir = %q\n[grants]\n", slots, h.state())
	for _, one := range h.f.hosts { // the daemon of root grants no roles by itself
		text = fmt.Appendf(text, "%q = [\"observe\", \"run=root\"]\n", one.id)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	h.daemon = h.command(ctx, "nic", "--config", config, "--listen", net.JoinHostPort(h.Addr().String(), "7700"),
		"--node", h.f.peers)
	h.log.Reset()
	h.daemon.Stderr = &h.log
	h.daemon.Stdout = &h.log
	if err := h.daemon.Start(); err != nil {
		return err
	}
	err := h.until(ctx, "its daemon answers", func() bool {
		return h.command(ctx, "stat", "--json").Run() == nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, h.log.String())
	}
	return nil
}

// until waits for a condition on the host.
func (h *host) until(ctx context.Context, what string, done func() bool) error {
	for end := time.Now().Add(settleWithin); !done(); {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("host %d: waited %v until %s", h.Index(), settleWithin, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// up waits until the host's NIC has a session with the NIC of each other host.
func (h *host) up(ctx context.Context) error {
	return h.until(ctx, "its NIC knows the others", func() bool {
		out, err := h.command(ctx, "nodes", "--json").Output()
		return err == nil && strings.Count(string(out), `"state":"up"`) >= len(h.f.hosts)-1
	})
}

// assemble waits until all NICs know one another, and makes the machine on the first host.
func (f *fleet) assemble(ctx context.Context, slots int) error {
	var ids []string
	for _, h := range f.hosts {
		if err := h.up(ctx); err != nil {
			return err
		}
		ids = append(ids, h.id)
	}
	out, err := f.hosts[0].command(ctx, "machine", "create", machineName, "--nodes", strings.Join(ids, ","), "--slots",
		fmt.Sprint(slots)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("weft machine create: %w: %s", err, out)
	}
	return f.settle()
}

// settle records what each daemon holds while no job runs.
func (f *fleet) settle() (err error) {
	for _, h := range f.hosts {
		if h.holds, err = holdingsOf(h.daemon.Process.Pid); err != nil {
			return err
		}
	}
	return nil
}

// close ends the daemons and removes the hosts.
func (f *fleet) close() error {
	var errs []error
	for _, h := range f.hosts {
		if h.daemon != nil && h.daemon.Process != nil {
			_ = h.daemon.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, h := range f.hosts {
		if h.daemon != nil && h.daemon.Process != nil {
			timer := time.AfterFunc(10*time.Second, func() { _ = h.daemon.Process.Kill() })
			_ = h.daemon.Wait()
			timer.Stop()
		}
	}
	if f.tb != nil {
		errs = append(errs, f.tb.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
