package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/secure"
)

// runHost is this host's NIC as weft run uses it: the daemon's, or its own.
type runHost struct {
	conn *ctl.Conn
	name string // of this host
	own  *ownNIC
}

// openHost connects to this host's daemon. If there is none, and the job needs no other host, it
// starts a NIC in this process. That NIC does not limit slots.
func openHost(ctx context.Context, o *runOptions, job string, errs io.Writer) (*runHost, error) {
	h := &runHost{}
	h.name, _ = os.Hostname()
	h.name = cmp.Or(h.name, "localhost")
	conn, err := ctl.DialLink(ctx, o.socket, o.link)
	if err == nil && o.machine != "" && o.link == "" {
		conn, err = ofMachine(ctx, conn, o)
	}
	if errors.Is(err, ctl.ErrNoDaemon) && o.socket == "" && o.machine == "" && len(o.nodes) == 0 && o.link == "" {
		if h.own, err = startOwnNIC(job, o.ranks, errs); err != nil {
			return nil, err
		}
		if conn, err = ctl.Dial(ctx, h.own.daemon.Socket()); err != nil {
			return nil, errors.Join(err, h.own.close())
		}
	}
	if err != nil {
		return nil, err
	}
	h.conn = conn
	return h, nil
}

// ofMachine returns a connection to the link that the machine of the job names, if it names one.
func ofMachine(ctx context.Context, conn *ctl.Conn, o *runOptions) (*ctl.Conn, error) {
	m, err := findMachine(ctx, conn, o.machine)
	if err == nil && m.Link == "" {
		return conn, nil
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	o.link = m.Link
	return ctl.DialLink(ctx, o.socket, o.link)
}

// socket returns the socket of this host's NIC.
func (h *runHost) socket(o *runOptions) string {
	if h.own != nil {
		return h.own.daemon.Socket()
	}
	return o.socket
}

func (h *runHost) close() error {
	err := h.conn.Close()
	if h.own != nil {
		err = errors.Join(err, h.own.close())
	}
	return err
}

// Reserve asks a host's daemon for places. Each request has its own connection: hosts are asked
// concurrently.
func (h *runHost) Reserve(ctx context.Context, nic fabric.NICID, r *ctl.Reserve) (*ctl.JobReply, error) {
	return askNIC(ctx, h.conn, registry.NICID(nic), &ctl.Job{What: ctl.JobReserve, Reserve: r})
}

// Kill asks a host's daemon to end the job's ranks there at once.
func (h *runHost) Kill(ctx context.Context, nic fabric.NICID, id string) error {
	_, err := askNIC(ctx, h.conn, registry.NICID(nic), &ctl.Job{What: ctl.JobKill, ID: id, Grace: 1})
	return err
}

var _ launch.Killer = (*runHost)(nil)

// ownNIC is a NIC daemon inside weft run, for a job on this host alone.
type ownNIC struct {
	daemon *daemon.Daemon
	dir    string
	stop   context.CancelFunc
	ended  chan error
}

// ownNICProcesses is the number of processes of a job that attach besides its ranks: weft run,
// the keeper, and tools.
const ownNICProcesses = 4

// ownNICDirectory begins the name of the directory of an ownNIC. If weft run is killed, the
// keeper removes the directory.
const ownNICDirectory = "weft-run-"

// startOwnNIC starts a NIC for the given number of ranks. It hears nothing from other hosts.
func startOwnNIC(job string, ranks int, log io.Writer) (*ownNIC, error) {
	dir, err := privateDirectory()
	if err != nil {
		return nil, err
	}
	unlimited := limits.SlotsPerHost
	conf := daemon.Config{
		Socket: filepath.Join(dir, "nic.sock"), StateDir: dir, Listen: "127.0.0.1:0", Static: true, Plain: true,
		Log:          "error",
		MaxProcesses: min(max(limits.DefaultProcesses, ranks+ownNICProcesses), limits.MaxProcesses),
		// others are made as ranks attach: many never attach
		VNI:       &daemon.VNIs{Prepared: 1},
		Slots:     &unlimited,
		Subreaper: true,
		Expect:    job,
	}
	d, err := daemon.New(conf, log)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &ownNIC{daemon: d, dir: dir, stop: stop, ended: make(chan error, 1)}
	go func() { n.ended <- d.Run(ctx) }()
	return n, nil
}

// close ends the NIC and removes its files.
func (n *ownNIC) close() error {
	n.stop()
	return errors.Join(<-n.ended, os.RemoveAll(n.dir))
}

// privateDirectory makes a directory that only this user can enter. It is in memory if possible,
// since a NIC syncs its files.
func privateDirectory() (dir string, err error) {
	for _, parent := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"} {
		if parent == "" {
			continue
		}
		if dir, err := os.MkdirTemp(parent, ownNICDirectory); err == nil { // mode 0700
			return dir, nil
		}
	}
	if dir, err = os.MkdirTemp("", ownNICDirectory); err != nil {
		return "", fmt.Errorf("creating a directory for the job's NIC: %w", err)
	}
	return dir, nil
}

// newJobName draws the name of a job.
func newJobName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "job-" + hex.EncodeToString(b[:])
}

// places returns the hosts that a job may use, in the order in which it fills them. It does not
// ask a single host for its slots: the answer to the reservation tells them.
func (h *runHost) places(ctx context.Context, o *runOptions, self fabric.NICID) (*ctl.Machine, []runPlace, error) {
	m := &ctl.Machine{Link: o.link}
	var err error
	switch {
	case o.machine != "":
		if m, err = findMachine(ctx, h.conn, o.machine); err != nil {
			return nil, nil, err
		}
		m.Link = cmp.Or(o.link, m.Link)
	case len(o.nodes) > 0:
		if m.Nodes, err = h.resolve(ctx, o.nodes, self); err != nil {
			return nil, nil, err
		}
	default:
		if h.own == nil {
			own, err := h.conn.NIC(0).Job(ctx, &ctl.Job{What: ctl.JobSlots})
			if err != nil {
				return nil, nil, err
			}
			h.name = cmp.Or(own.Name, h.name)
		}
		return m, []runPlace{{name: h.name, nic: self, free: max(o.ranks, o.perNode)}}, nil
	}
	places := make([]runPlace, len(m.Nodes))
	for i, n := range m.Nodes {
		places[i] = runPlace{name: nodeText(n), nic: fabric.NICID(n.NIC), slots: m.Slots, free: m.Slots}
	}
	if o.perNode == 0 && len(places) > 1 {
		h.askSlots(ctx, m, places, self)
	} else if o.perNode == 0 {
		places[0].free = o.ranks
	}
	return m, places, nil
}

// askSlots asks every host how many slots are free. The machine's own limit counts, too.
func (h *runHost) askSlots(ctx context.Context, m *ctl.Machine, places []runPlace, self fabric.NICID) {
	var wg sync.WaitGroup
	for i := range places {
		p := &places[i]
		wg.Go(func() {
			r, err := askNIC(ctx, h.conn, registry.NICID(p.nic), &ctl.Job{What: ctl.JobSlots})
			if err != nil {
				p.slots, p.free, p.why = 0, 0, slotsErrorText(err, self)
				return
			}
			if m.Slots == 0 {
				p.slots, p.free = r.Slots, r.Free
			} else {
				p.free = min(r.Free, m.Slots)
			}
		})
	}
	wg.Wait()
}

// slotsErrorText explains why the slots of a host are not known. A NIC with the role observe would
// get an answer, but could start no ranks.
func slotsErrorText(err error, self fabric.NICID) string {
	switch {
	case errors.Is(err, ctl.ErrRefused):
		user := secure.UserName(os.Getuid())
		return fmt.Sprintf("it refuses to report its slots: NIC %v may not start processes of user %s there; "+
			"run `weft fabric grant %v run=%s --config FILE` on that host",
			self, user, self, user)
	case errors.Is(err, ctl.ErrNoAnswer):
		_, detail, _ := strings.Cut(hostErrorText(err), ": ")
		return strings.TrimSuffix("no answer: "+detail, ": ")
	}
	return hostErrorText(err)
}

// resolve finds the NICs of a list of hosts. This host is also known by its hostname and as
// localhost.
func (h *runHost) resolve(ctx context.Context, list []string, self fabric.NICID) ([]ctl.MachineNode, error) {
	nodes, err := machineNodes(list)
	if err != nil {
		return nil, err
	}
	known, err := h.conn.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	own, err := h.conn.NIC(0).Job(ctx, &ctl.Job{What: ctl.JobSlots})
	if err != nil {
		return nil, err
	}
	var unknown, silent []string
	for i := range nodes {
		n := &nodes[i]
		if n.NIC != 0 {
			continue
		}
		id, err := nicNamed(known, n.Name)
		switch {
		case err == nil:
			n.NIC = id
		case slices.Contains([]string{own.Name, h.name, "localhost"}, n.Name):
			n.NIC = registry.NICID(self)
		case slices.ContainsFunc(known, func(k ctl.Node) bool { return strings.EqualFold(k.Name, n.Name) }):
			silent = append(silent, fmt.Sprintf("--nodes: %s: %v", n.Name, err))
		default:
			unknown = append(unknown, n.Name)
		}
	}
	if len(unknown) > 0 {
		silent = append(silent, fmt.Sprintf(
			"--nodes: this host's NIC knows no host %s; it knows %s; expected names or ids that weft nodes prints",
			strings.Join(unknown, ", "), ctl.KnownHosts(cmp.Or(own.Name, h.name), known)))
	}
	if len(silent) > 0 {
		return nil, refusedError{errors.New(strings.Join(silent, "\n  "))}
	}
	return nodes, nil
}

// launchOptions returns what the launcher needs to know of a job.
func (o *runOptions) launchOptions(job, program, hash string, m *ctl.Machine, hosts []launch.Host) launch.Options {
	return launch.Options{
		Job: job, Machine: m.Name, Hosts: hosts, Program: program, SHA256: hash, Argv: o.argv, Env: o.environment(),
		Dir:     o.dir,
		Version: runVersion(), Grace: o.grace, Timeout: o.timeout, OnDeath: o.onDeath, Stdin: o.stdin,
		Unbuffered: o.ranks == 1, PMI: true,
		Oversubscribe: o.oversubscribe, MemoryBytes: o.memory, Link: m.Link,
	}
}
