package limit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
)

// Ground is the place where limits are measured: this host, or two hosts of a testbed for limits
// over a network.
type Ground struct {
	self  string
	mtu   int
	bed   *testbed.Testbed // nil: over loopback
	hosts [2]host
}

// loopbackMTU is the MTU of loopback, in bytes.
const loopbackMTU = 65536

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// NewGround prepares to measure with processes of the weft binary self: over loopback, or, if
// veth is set, over a cable of that MTU between two hosts of a testbed.
func NewGround(self string, mtu int, veth bool) (g *Ground, err error) {
	g = &Ground{self: self, mtu: loopbackMTU, hosts: [2]host{{Addr: loopback}, {Addr: loopback}}}
	if !veth {
		return g, nil
	}
	g.mtu = mtu
	if g.bed, err = testbed.New(testbed.Config{Hosts: 2, MTU: mtu}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for i := range g.hosts {
		h := g.bed.Host(i)
		err := h.Do(func() error {
			l, err := net.InterfaceByName(testbed.Interface)
			if err == nil {
				g.hosts[i] = host{h.Addr(), l.HardwareAddr}
			}
			return err
		})
		if err != nil {
			return nil, errors.Join(err, g.bed.Close())
		}
	}
	return g, nil
}

// Close removes the hosts.
func (g *Ground) Close() error {
	if g.bed == nil {
		return nil
	}
	return g.bed.Close()
}

// patience is how long the roles have to start, and to end after the time of the measurement.
const patience = 30 * time.Second

// Measure measures a limit for the time d, with messages of size bytes. A size of 0 is measured
// as 1.
func (g *Ground) Measure(ctx context.Context, name string, size int, d time.Duration) (r Result, err error) {
	p := find(name)
	if p == nil {
		return r, fmt.Errorf("limit: %q: no such limit", name)
	}
	ctx, cancel := context.WithTimeout(ctx, d+patience)
	defer cancel()
	shared, err := shares()
	defer func() {
		for _, f := range shared {
			f.Close()
		}
	}()
	if err != nil {
		return r, err
	}
	var c cast
	line, err := c.play(ctx, g, p, job{Limit: name, Size: max(size, 1), Time: d, MTU: g.mtu, Hosts: g.hosts}, shared)
	said := c.end()
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	switch {
	case err == nil:
		return r, nil
	case said != "":
		err = errors.New(said)
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	}
	return r, fmt.Errorf("limit: %s: %w", name, err)
}

// cast holds the processes of a limit.
type cast []*role

// play starts the roles, the last first, and returns the final line of role 0.
func (c *cast) play(ctx context.Context, g *Ground, p *program, j job, shared []*os.File) (line string, err error) {
	for j.Role = len(p.roles) - 1; j.Role >= 0; j.Role-- {
		r, err := g.start(ctx, p, j, shared)
		if err != nil {
			return "", err
		}
		*c = append(*c, r)
		if line, err = bufio.NewReader(r.out).ReadString('\n'); err != nil || j.Role == 0 {
			return line, err
		}
		if j.Port, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			return "", err
		}
	}
	return line, nil
}

// end ends all roles, and returns the error text of one of them.
func (c *cast) end() (said string) {
	for _, r := range *c {
		r.end()
		if words := strings.TrimSpace(r.stderr.String()); words != "" && said == "" {
			said = strings.TrimPrefix(words, "weft: ")
		}
	}
	return said
}

// memoryBytes is the size of the memory file: four of the longest messages, and some room.
// Untouched pages take no memory.
const memoryBytes = 4*MaxSize + 1<<20

// shares makes the files that the roles inherit: see memoryFd and eventFd.
func shares() (files []*os.File, err error) {
	keep := func(fd int, name string) {
		files = append(files, os.NewFile(uintptr(fd), name))
	}
	fd, err := unix.MemfdCreate("weft-limit", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("limit: memory file: %w", err)
	}
	keep(fd, "memory")
	err = unix.Ftruncate(fd, memoryBytes)
	for range 2 {
		var e error
		if fd, e = unix.Eventfd(0, unix.EFD_CLOEXEC); e != nil {
			err = errors.Join(err, e)
			continue
		}
		keep(fd, "event")
	}
	return files, err
}

// role is a process that Ground has started.
type role struct {
	*exec.Cmd
	in     io.Closer
	out    io.Reader
	stderr bytes.Buffer
	ended  chan struct{}
}

// gentle is how long a role has to end after its input has ended.
const gentle = 100 * time.Millisecond

// start starts a role, on its host if there are two.
func (g *Ground) start(ctx context.Context, p *program, j job, shared []*os.File) (*role, error) {
	told, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	r := &role{ended: make(chan struct{})}
	args := []string{"bench", "limits", "--child", string(told)}
	start := func() error { return r.Start() }
	if g.bed != nil && p.Veth {
		c := g.bed.Host(j.Role*2/len(p.roles)).Command(ctx, g.self, args...)
		r.Cmd, start = c.Cmd, c.Start
	} else {
		r.Cmd = exec.CommandContext(ctx, g.self, args...)
		r.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	r.SysProcAttr.Setpgid = true // a signal from the terminal is for the measuring program
	r.ExtraFiles, r.Stderr = shared, &r.stderr
	if r.in, err = r.StdinPipe(); err != nil {
		return nil, err
	}
	if r.out, err = r.StdoutPipe(); err != nil {
		return nil, err
	}
	return r, r.launch(start)
}

// launch starts the process from a thread that lives as long as the process, since Linux takes
// the end of that thread for the end of the parent.
func (r *role) launch(start func() error) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := start()
		started <- err
		if err == nil {
			<-r.ended
		}
	}()
	return <-started
}

// end ends the role and waits until it has ended. A role that has printed an error is about to
// end by itself.
func (r *role) end() {
	r.in.Close()
	insist := time.AfterFunc(gentle, func() { _ = r.Process.Kill() })
	_ = r.Wait() // the role has printed its error itself
	insist.Stop()
	close(r.ended)
}
