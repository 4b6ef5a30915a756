package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection to a daemon. Its methods are safe for concurrent use; requests go one
// after the other.
type Conn struct {
	c      *net.UnixConn
	socket string // for error texts, like daemon
	daemon Peer
	link   string // the link of the requests; empty: the first

	mu sync.Mutex
	p  *packets
	// owed is a request whose caller has given up. Its reply comes before any other.
	owed   *Request
	broken error // why the connection is unusable

	abandoned atomic.Bool // by GiveUp of the attachment
	lost      func()      // GiveUp, if a process has attached on it
}

// Dial connects to the daemon that listens at socket. If socket is empty, it is the first of
// Sockets that has a daemon. A # and the name of a link may follow the socket. The error is
// ErrNoDaemon if there is no daemon, and ErrNotTrusted unless root, this user or the owner of the
// socket's place has started it.
func Dial(ctx context.Context, socket string) (*Conn, error) { return DialLink(ctx, socket, "") }

// DialLink is like Dial, for one of the daemon's links. If link is empty, it is that of the
// socket or, if no socket is named, that of $WEFT_LINK. The daemon refuses requests for a link
// that it does not have with ErrNoLink.
func DialLink(ctx context.Context, socket, link string) (*Conn, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("a NIC daemon needs Linux, this is " + runtime.GOOS +
			"; open the NIC inside the process instead (weft.Open)")
	}
	socket, link = chooseLink(socket, link)
	c, err := dialOrFind(ctx, socket)
	if err == nil {
		c.link = link
	}
	return c, err
}

func dialOrFind(ctx context.Context, socket string) (*Conn, error) {
	if socket != "" {
		return dialAt(ctx, socket)
	}
	return find(ctx, Sockets())
}

// find connects to the first daemon at one of the places. If one cannot be used or trusted, find
// tries the next. Otherwise a stranger could keep this user from the host's daemon by being first
// at a place.
func find(ctx context.Context, places []string) (*Conn, error) {
	var errs []error
	for _, socket := range places {
		c, err := dialAt(ctx, socket)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil || len(places) == 1 && !errors.Is(err, ErrNoDaemon) {
			return nil, err
		}
		if !errors.Is(err, ErrNoDaemon) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w that serves this user listens at %s: %w", ErrNoDaemon,
			strings.Join(places, " or "), errors.Join(errs...))
	}
	return nil, fmt.Errorf("%w listens at %s; `weft nic` starts one", ErrNoDaemon, strings.Join(places, " or "))
}

// dialAt connects to the daemon at one place.
func dialAt(ctx context.Context, socket string) (*Conn, error) {
	if Private(socket) {
		if _, err := os.Lstat(filepath.Dir(socket)); err == nil {
			if err := checkPrivate(filepath.Dir(socket)); err != nil {
				return nil, err
			}
		}
	}
	c, err := connect(ctx, socket)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w listens at %s; `weft nic --socket %s` starts one", ErrNoDaemon, socket, socket)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("dial %s: %w: a daemon serves its own user and root; `allow_uids` or `allow_gids` in "+
			"its configuration let others attach",
			socket, syscall.EACCES)
	case err != nil:
		return nil, fmt.Errorf("dial %s: %w", socket, err)
	}
	u := c.(*net.UnixConn)
	daemon, err := vouched(u, socket)
	if err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return &Conn{c: u, socket: socket, daemon: daemon, p: newPackets(u, MaxMessage, maxDescriptors)}, nil
}

func connect(ctx context.Context, socket string) (net.Conn, error) {
	name, done, err := Reach(socket)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, network, name)
}

// Another opens a second connection to the same daemon, for requests that must not wait for those
// of this connection.
func (c *Conn) Another(ctx context.Context) (*Conn, error) {
	other, err := dialAt(ctx, c.socket)
	if err == nil {
		other.link = c.link
	}
	return other, err
}

// DaemonPID returns the process id of the daemon, as the kernel reports it.
func (c *Conn) DaemonPID() int { return c.daemon.PID }

// Close ends the connection. If a process attached on it, the daemon ends the process.
func (c *Conn) Close() error { return c.c.Close() }

// call sends r with the given descriptors, which stay the caller's. It receives the reply with
// wanted descriptors, which then belong to the caller. If ctx ends first and the request forgoes
// its reply, the reply is left for the next call to read. Any other request leaves the connection
// unusable, since it is not known what the daemon has given or taken. For a process that has
// attached on the connection, the daemon is then gone.
func (c *Conn) call(ctx context.Context, r *Request, wanted int, given ...int) (*Reply, []int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abandoned.Load() {
		return nil, nil, ErrNICGone
	} else if c.broken != nil {
		return nil, nil, c.broken
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	restore := c.until(ctx)
	reply, fds, err := c.exchange(r, given)
	restore()
	var refused *Error
	switch {
	case errors.As(err, &refused):
	case err != nil:
		closeAll(fds)
		why := c.explain(ctx, began, err)
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.owed == r && !r.forgoes() {
			c.broken = why
			if c.lost != nil {
				c.lost()
			}
		}
		return nil, nil, why
	case len(fds) != wanted:
		err = fmt.Errorf("the reply to %q came with %d descriptors, expected %d", r.Op, len(fds), wanted)
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return reply, fds, nil
}

// until makes the end of ctx end any operation on the connection, by a deadline in the past.
// restore removes that deadline, so that it does not end later operations.
func (c *Conn) until(ctx context.Context) (restore func()) {
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.c.SetDeadline(time.Unix(1, 0))
		close(set)
	})
	return func() {
		if !stop() {
			<-set
			_ = c.c.SetDeadline(time.Time{})
		}
	}
}

// exchange sends one request and receives its reply. A refusal of the daemon is an *Error. A
// packet is sent whole or not at all. So an interruption leaves at most one reply owed, which the
// next request reads first.
func (c *Conn) exchange(r *Request, given []int) (*Reply, []int, error) {
	if c.owed != nil {
		_, fds, err := c.p.receive()
		closeAll(fds)
		if err != nil {
			return nil, nil, err
		}
		c.owed = nil
	}
	r.Version, r.Link = Version, c.link
	if err := c.p.send(r, given...); err != nil {
		return nil, nil, err
	}
	b, fds, err := c.p.receive()
	if err != nil {
		c.owed = r
		return nil, fds, err
	}
	var reply Reply
	if err := decode(b, &reply); err != nil {
		return nil, fds, fmt.Errorf("the daemon's reply: %w", err)
	}
	if reply.Error != nil {
		return nil, fds, reply.Error
	}
	return &reply, fds, nil
}

// explain turns an error of the socket into its meaning, for a call that began at began.
func (c *Conn) explain(ctx context.Context, began time.Time, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the daemon at %s (process %d) has not answered for %v: %w", c.socket, c.daemon.PID,
			time.Since(began).Round(time.Millisecond), ctx.Err())
	case errors.Is(err, net.ErrClosed) && !c.abandoned.Load():
		return ErrClosed
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ECONNRESET):
		return ErrNICGone
	}
	return err
}

// NIC is a view of one NIC through the daemon.
type NIC struct {
	c  *Conn
	id uint64
}

// NIC returns a view of the NIC with an id, as the daemon reaches it; 0 is the daemon's own. Its
// requests fail with ErrNoNIC if the daemon does not know the NIC, and with ErrNoAnswer if the
// NIC does not answer in time.
func (c *Conn) NIC(id uint64) NIC { return NIC{c, id} }

// Nodes lists the NICs that the NIC knows.
func (n NIC) Nodes(ctx context.Context) ([]Node, error) {
	return list(ctx, n, OpNodes, func(r *Reply) []Node { return r.Nodes })
}

// Names lists the processes of the whole fabric.
func (n NIC) Names(ctx context.Context) ([]Name, error) {
	return list(ctx, n, OpNames, func(r *Reply) []Name { return r.Names })
}

// Groups lists the members of the groups of the whole fabric.
func (n NIC) Groups(ctx context.Context) ([]Member, error) {
	return list(ctx, n, OpGroups, func(r *Reply) []Member { return r.Groups })
}

// Processes lists the NIC's own processes.
func (n NIC) Processes(ctx context.Context) ([]Process, error) {
	return list(ctx, n, OpProcesses, func(r *Reply) []Process { return r.Processes })
}

// Memory returns the NIC's memory map.
func (n NIC) Memory(ctx context.Context) (*Memory, error) {
	r, _, err := n.c.call(ctx, &Request{Op: OpMemory, NIC: n.id}, 0)
	if err != nil {
		return nil, err
	}
	if r.Memory == nil {
		return nil, errors.New("the reply to \"memory\" lacks the memory map")
	}
	return r.Memory, nil
}

// Counters returns the NIC's info, and its present counters by name. id must not be 0: use
// Conn.Stat for the daemon's own NIC.
func (n NIC) Counters(ctx context.Context) (*Info, map[string]uint64, error) {
	r, _, err := n.c.call(ctx, &Request{Op: OpStat, NIC: n.id}, 0)
	if err != nil {
		return nil, nil, err
	}
	if r.Info == nil {
		return nil, nil, errors.New("the reply to \"stat\" lacks the NIC's info")
	}
	return r.Info, r.Counters, nil
}

// Nodes lists the NICs that the daemon's NIC knows.
func (c *Conn) Nodes(ctx context.Context) ([]Node, error) { return c.NIC(0).Nodes(ctx) }

// Names lists the processes of the whole fabric.
func (c *Conn) Names(ctx context.Context) ([]Name, error) { return c.NIC(0).Names(ctx) }

// Processes lists the processes of the daemon's own NIC.
func (c *Conn) Processes(ctx context.Context) ([]Process, error) { return c.NIC(0).Processes(ctx) }

// Thrown lists the processes that the NIC has thrown out lately, the latest last. Only the
// daemon's own NIC answers it.
func (n NIC) Thrown(ctx context.Context) ([]Thrown, error) {
	return list(ctx, n, OpThrown, func(r *Reply) []Thrown { return r.Thrown })
}

// Check makes the NIC check the path to every NIC that it knows, with frames of two sizes
// (USNIC-61). It takes as long as the daemon waits for answers, a few seconds at most. Only the
// daemon's own NIC does that: other NICs only answer questions.
func (n NIC) Check(ctx context.Context) ([]Check, error) {
	return list(ctx, n, OpCheck, func(r *Reply) []Check { return r.Checks })
}

// list collects a list that comes in several replies.
func list[T any](ctx context.Context, n NIC, op string, of func(*Reply) []T) (all []T, err error) {
	for from := 0; ; {
		r, _, err := n.c.call(ctx, &Request{Op: op, From: from, NIC: n.id}, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, of(r)...)
		if r.Next <= from {
			return all, nil
		}
		from = r.Next
	}
}

// Shutdown asks the daemon to end as on SIGTERM. It returns when the daemon has agreed; Ended
// waits until the daemon has ended.
func (c *Conn) Shutdown(ctx context.Context) error {
	_, _, err := c.call(ctx, &Request{Op: OpShutdown}, 0)
	return err
}

// Ended waits, after Shutdown, until the daemon has released everything. Its link, socket and
// state are then free for the next daemon.
func (c *Conn) Ended(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := time.Now()
	defer c.until(ctx)()
	_, fds, err := c.p.receive()
	closeAll(fds)
	c.broken = ErrNICGone
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the daemon at %s (process %d) has not ended for %v: %w", c.socket, c.daemon.PID,
			time.Since(began).Round(time.Millisecond), ctx.Err())
	case err == nil:
		return fmt.Errorf("the daemon at %s has answered what was not asked", c.socket)
	}
	return nil // the daemon has closed the connection or died
}

// Stat returns the daemon's info and its counters. The counters are mapped read-only: reading
// them does not disturb the daemon. unmap unmaps them.
func (c *Conn) Stat(ctx context.Context) (info *Info, counters []byte, unmap func() error, err error) {
	r, fds, err := c.call(ctx, &Request{Op: OpStat}, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	defer closeAll(fds)
	if r.Info == nil {
		return nil, nil, nil, errors.New("the daemon's reply to \"stat\" lacks its info")
	}
	b, err := mapMemory(fds[0], false)
	if err != nil {
		return nil, nil, nil, err
	}
	return r.Info, b, func() error { return unmapMemory(b) }, nil
}
