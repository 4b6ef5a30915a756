package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// accept takes clients until the socket is closed.
func (d *Daemon) accept() { d.acceptFrom(d.listener) }

// acceptFrom takes clients of one socket until it is closed.
func (d *Daemon) acceptFrom(l *ctl.Listener) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // too many open files, or a client that went at once
			d.log.Warn("client not accepted", "pid", 0, "error", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		known, err := d.admit(c)
		if err != nil {
			d.log.Warn("client refused", "pid", c.Peer.PID, "uid", c.Peer.UID, "error", err)
			d.turnAway(c, err)
			continue
		}
		go d.serve(known)
	}
}

// turnAway tells a client why it is not served. If too many clients are being told already, it
// only closes the connection.
func (d *Daemon) turnAway(c *ctl.Client, why error) {
	select {
	case d.turning <- struct{}{}:
		go func() {
			_ = c.TurnAway(why)
			<-d.turning
		}()
	default:
		_ = c.Close()
	}
}

// admit checks the user of a client, and enters the client.
func (d *Daemon) admit(c *ctl.Client) (*client, error) {
	if err := d.mayConnect(c); err != nil {
		return nil, err
	}
	return d.enter(c)
}

// mayConnect returns an error if the user of a client may not connect.
func (d *Daemon) mayConnect(c *ctl.Client) error {
	if d.welcomes(c) {
		return nil
	}
	return fmt.Errorf("%w: user %d; expected the daemon's user, root, or one of allow_uids or allow_gids",
		ctl.ErrRefused, c.Peer.UID)
}

// welcomes reports whether the user of a client may connect.
func (d *Daemon) welcomes(c *ctl.Client) bool { return d.allowed(c) || d.jobs.admits(c.Peer.UID) }

// allowed reports whether the configuration lets the user of a client attach under any name.
func (d *Daemon) allowed(c *ctl.Client) bool {
	l := d.live.Load()
	return d.owner(c) || slices.Contains(l.allowUIDs, c.Peer.UID) ||
		slices.ContainsFunc(c.Peer.GIDs, func(g int) bool { return slices.Contains(l.allowGIDs, g) })
}

// owner reports whether a client is the daemon's own user or root.
func (d *Daemon) owner(c *ctl.Client) bool { return c.Peer.UID == os.Getuid() || c.Peer.UID == 0 }

// serve answers one client until its connection ends. If the client has attached, it is a
// process, and that process ends with the connection.
func (d *Daemon) serve(k *client) {
	defer d.served.Done()
	var s *session
	for {
		r, err := k.conn.Receive()
		if err == nil {
			err = d.answerInTurn(k, &s, r)
			k.conn.LetGo()
		}
		if errors.Is(err, errAwaitsEnd) {
			return
		}
		if err != nil {
			d.letGo(k.conn)
			d.gone(k, s, err)
			return
		}
	}
}

// letGo closes the descriptors that a client held when its connection was lost. The client keeps
// the slot of its process until they are closed, so at most as many threads as there are slots
// wait for slow file systems. The end of the daemon does not wait for letGo.
func (d *Daemon) letGo(c *ctl.Client) {
	if !c.Holds() {
		return
	}
	_ = c.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.LetGo()
	}()
	select {
	case <-done:
	case <-d.ctx.Done():
	}
}

// answerInTurn answers one request when it is its caller's turn. It returns an error if the
// client can no longer be told.
func (d *Daemon) answerInTurn(k *client, s **session, r *ctl.Request) error {
	d.begin(k)
	defer k.end()
	of, err := d.linkOf(*s, r)
	if err == nil {
		err = of.answer(k, s, r)
	}
	if err != nil && !errors.Is(err, errAwaitsEnd) {
		return k.conn.Refuse(err)
	}
	return err
}

// linkOf returns the link that a request of s names. s may be nil: a client that is not a process
// may name any link.
func (d *Daemon) linkOf(s *session, r *ctl.Request) (*Daemon, error) {
	of, err := d.called(r.Link)
	if err == nil && s != nil && s.d != of {
		return nil, fmt.Errorf("%w: %q of link %s by %v, a process of link %s", ctl.ErrBadRequest, r.Op,
			of.settings.linkName(), s.name, s.d.settings.linkName())
	}
	return of, err
}

// gone cleans up after a client.
func (d *Daemon) gone(k *client, s *session, why error) {
	d.exit(k)
	c := k.conn
	err := c.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if s != nil {
		if d.jobs.has(s.name) { // the end of any other process is told at once
			d.awaitDeath(c.Peer.PID)
		}
		err = errors.Join(err, s.d.leave(s))
	}
	if why != nil && !errors.Is(why, io.EOF) && !errors.Is(why, net.ErrClosed) {
		d.log.Warn("client lost", "pid", c.Peer.PID, "error", why)
	}
	if err != nil {
		d.log.Error("cleaning up behind a client", "pid", c.Peer.PID, "error", err)
	}
}

// answer serves one request. If it returns an error, that error is the answer.
func (d *Daemon) answer(k *client, s **session, r *ctl.Request) error {
	c := k.conn
	switch r.Op {
	case ctl.OpAttach:
		return d.answerAttach(k, s, r.Attach)
	case ctl.OpAlloc, ctl.OpRegister, ctl.OpPart, ctl.OpFree, ctl.OpShare, ctl.OpUnshare, ctl.OpLeave:
		return d.answerProcess(c, s, r)
	case ctl.OpCheck:
		page, next := ctl.Page(d.check(r.From == 0), r.From)
		return c.Reply(&ctl.Reply{Checks: page, Next: next})
	case ctl.OpThrown:
		page, next := ctl.Page(d.thrownOut(), r.From)
		return c.Reply(&ctl.Reply{Thrown: page, Next: next})
	case ctl.OpSegments:
		page, next := ctl.Page(d.listSegments(), r.From)
		return c.Reply(&ctl.Reply{Segments: page, Next: next})
	case ctl.OpSegment:
		return d.answerSegment(c, r.Tool)
	case ctl.OpLinks:
		return c.Reply(&ctl.Reply{Links: d.list()})
	case ctl.OpShutdown:
		return d.answerShutdown(k, *s)
	case ctl.OpReload:
		return d.answerReload(c, r.Reload)
	case ctl.OpNode:
		return d.answerNode(c, r.Node)
	}
	if r.Op == ctl.OpStat && r.NIC == 0 {
		return c.Reply(&ctl.Reply{Info: d.info()}, d.counters.fd)
	}
	asker := localAsker(c.Peer.UID)
	switch r.Op { // this NIC vouches for its users: a client's own word does not count
	case ctl.OpProgram:
		r.Program.User = asker.User
	case ctl.OpJob:
		r.Job.User = asker.User
	}
	reply, err := d.inform(d.ctx, asker, r)
	if err != nil {
		return err
	}
	return c.Reply(reply)
}

// errAwaitsEnd ends the service of a connection that stays open until the daemon has ended.
var errAwaitsEnd = errors.New("the client waits for the end of the daemon")

// answerShutdown begins the end of the daemon. A tool's connection is closed last, when another
// daemon may take this one's place; so the tool sees when that is. A process's connection is
// closed as usual.
func (d *Daemon) answerShutdown(k *client, s *session) error {
	c := k.conn
	if !d.owner(c) {
		return fmt.Errorf("%w: user %d may not end this daemon", ctl.ErrRefused, c.Peer.UID)
	}
	d.log.Info("shutdown asked for", "pid", c.Peer.PID)
	defer d.stop()
	if err := c.Reply(&ctl.Reply{}); err != nil || s != nil {
		return err
	}
	d.exit(k)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaiting = append(d.awaiting, c)
	return errAwaitsEnd
}

func (d *Daemon) answerAttach(k *client, into **session, a *ctl.Attach) error {
	if *into != nil {
		return fmt.Errorf("%w: this connection is %v already", ctl.ErrBadRequest, (*into).name)
	}
	// A reload may have removed the user after admit and before letIn could know the connection.
	err := d.links[0].mayConnect(k.conn)
	var s *session
	if err == nil {
		s, err = d.attach(k.conn, a)
	}
	if err != nil {
		d.notAttached(k.conn, a, err)
		return err
	}
	*into = s // so that it ends with the connection, whatever happens next
	k.conn.TakeMemory()
	d.attached(k, s)
	if s.expelled.Load() { // before its connection was known
		return ctl.ErrNICGone
	}
	d.log.Info("process attached", "process", s.name, "slot", s.slot, "pid", s.pid)
	return s.tell(k.conn)
}

// notAttached logs that a process could not attach. The process's program may not report it, and
// the shortage may be the daemon's. If the daemon is ending, the log says so already.
func (d *Daemon) notAttached(c *ctl.Client, a *ctl.Attach, why error) {
	if d.ctx.Err() == nil {
		d.log.Warn("process not attached", "process", a.Name, "pid", c.Peer.PID, "uid", c.Peer.UID, "error", why)
	}
}

// answerProcess serves the requests that only a process may make.
func (d *Daemon) answerProcess(c *ctl.Client, of **session, r *ctl.Request) error {
	s := *of
	if s == nil {
		return fmt.Errorf("%w: %q before \"attach\"", ctl.ErrBadRequest, r.Op)
	}
	switch r.Op {
	case ctl.OpAlloc:
		return s.alloc(c, r.Alloc)
	case ctl.OpRegister:
		return s.take(c, r.Given)
	case ctl.OpPart:
		return s.part(c, r.Part)
	case ctl.OpFree:
		return s.free(c, r.Free)
	case ctl.OpShare:
		return s.share(c, r.Segment)
	case ctl.OpUnshare:
		return s.unshare(c, r.Segment)
	}
	*of = nil
	err := d.leave(s)
	if err == nil {
		err = c.Reply(&ctl.Reply{})
	} else {
		err = c.Refuse(err)
	}
	// The connection was the process's. Left open, it would not count as a stranger's.
	return errors.Join(err, c.Close())
}

// leave ends a process.
func (d *Daemon) leave(s *session) error {
	d.log.Info("process is gone", "process", s.name, "slot", s.slot, "pid", s.pid)
	return s.end()
}
