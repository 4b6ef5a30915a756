package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
)

// place says where a process is: its name, and the NIC that serves it.
type place struct {
	self       string // the weft binary
	deployment string
	link       string
	name       weft.Name
	listen     string
	nodes      []weft.Node
	config     string // more lines for a daemon's configuration
	sealing    Sealing
	apart      bool // a daemon has the second half of the processors
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
		p, err := weft.Open(ctx, at.sealing.over(weft.Config{Name: at.name, Link: link, Nodes: at.nodes}))
		if err != nil {
			return nil, "", err
		}
		u.add(p.Close)
		return p, p.NIC().Addr(), nil
	}
	// Half of two processors is one. With one, each yield of a waiter would also go through the
	// Go scheduler. The roles of limits have two as well.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	socket, addr := at.listen, at.listen
	// the shared daemon runs already
	if at.deployment != DeployedShared {
		d, err := u.startDaemon(ctx, at)
		if err != nil {
			return nil, "", err
		}
		socket, addr = d.socket, d.addr
	}
	p, err := u.attach(ctx, socket, at.name)
	return p, addr, err
}

// arguments returns the command line of a side that is a separate process, followed by more.
func (o *Options) arguments(more ...string) []string {
	args := []string{"bench", o.Kind, "--child", "--deployment", o.Deployment}
	if o.Link != LinkNone {
		args = append(args, "--link", o.Link)
	}
	return append(append(args, o.Sealing.arguments()...), more...)
}

// anyAddress returns an address at which a NIC on this host may listen.
func (o *Options) anyAddress() string {
	if o.Link == LinkShm {
		return "shm:"
	}
	return "127.0.0.1:0"
}

// meetingPlace returns where the server on this host listens. That is an address that the server
// chooses, or the socket of the daemon that it shares with the client. meetingPlace starts that
// daemon.
func (u *undo) meetingPlace(ctx context.Context, o *Options) (listen string, err error) {
	if o.Deployment != DeployedShared {
		return o.anyAddress(), nil
	}
	d, err := u.startDaemon(ctx, place{self: o.Self, listen: o.anyAddress(), apart: o.Apart, sealing: o.Sealing})
	if err != nil {
		return "", err
	}
	return d.socket, nil
}

// daemon is a NIC daemon that the bench has started.
type daemon struct {
	*child
	socket string
	addr   string // of its link
}

// startDaemon starts a NIC daemon in its own directory, and waits until it answers.
func (u *undo) startDaemon(ctx context.Context, at place) (d *daemon, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bench: starting a NIC daemon: %w", err)
		}
	}()
	links, err := at.sealing.daemon()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return nil, err
	}
	u.add(func() error { return os.RemoveAll(dir) })
	d = &daemon{socket: filepath.Join(dir, "nic.sock")}
	var config strings.Builder
	if at.link != "" {
		fmt.Fprintf(&config, "link = %q\n", at.link)
	}
	fmt.Fprintf(&config, "socket = %q\nstate_dir = %q\nlisten = %q\nlog = \"warn\"\n%s%s",
		d.socket, dir, at.listen, links, at.config)
	for _, n := range at.nodes {
		fmt.Fprintf(&config, "[[node]]\naddress = %q\n", n.Addr)
	}
	file := filepath.Join(dir, "nic.toml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	if d.child = newChild(at.self, "nic", "--config", file); at.apart {
		d.with(1, 2)
	}
	if err := d.start(); err != nil {
		return nil, err
	}
	u.add(d.end)
	return d, d.whenUp(ctx)
}

// whenUp waits until the daemon answers, and asks it for the address of its link.
func (d *daemon) whenUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		info, _, err := d.stat(ctx)
		if err == nil {
			d.addr = info.Address
		}
		if !errors.Is(err, ctl.ErrNoDaemon) {
			return err
		}
		select {
		case <-d.ended:
			return fmt.Errorf("it ended at once: %w", d.failure())
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// stat asks the daemon for information about itself, and for its counters.
func (d *daemon) stat(ctx context.Context) (info *ctl.Info, counters map[string]uint64, err error) {
	conn, err := ctl.Dial(ctx, d.socket)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	info, mem, unmap, err := conn.Stat(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, unmap()) }()
	page, err := vni.OpenCounterPage(mem)
	if err != nil {
		return nil, nil, err
	}
	counters = make(map[string]uint64)
	for i, name := range vni.Names() {
		counters[name] = page.Load(vni.Counter(i))
	}
	return info, counters, nil
}

// alive returns an error if the daemon has ended.
func (d *daemon) alive() error {
	select {
	case <-d.ended:
		return fmt.Errorf("the daemon has ended: %w", errors.Join(d.failure(), errors.New(d.stderr.String())))
	default:
		return nil
	}
}

// attach makes a process of the daemon at socket.
func (u *undo) attach(ctx context.Context, socket string, name weft.Name) (*weft.Process, error) {
	p, err := weft.Attach(ctx, weft.AttachConfig{Socket: socket, Name: name})
	if err != nil {
		return nil, err
	}
	u.add(p.Close)
	return p, nil
}
