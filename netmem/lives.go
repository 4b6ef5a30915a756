package netmem

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
)

// A server keeps the pages of a client while the client lives. After that, no other process can use
// the pages:
//
//	opens ─► lives ─┬─ its process or its NIC ends ─────────────────────────► pages are dropped
//	           ▲    ├─ a process of its name opens, and this one is silent ─► the same
//	           │    ├─ it leaves: it is closed, or the server is removed ───► the same
//	  a request│    ├─ a new client opens in its process ───────────────────► the same
//	           └────┴─ it is silent for ServerConfig.Keep ──────────────────► the same
//
// A live client contacts each of its servers at least once every askAtLeast. Each life has its own
// epoch, and each request of the life contains this epoch. A client may be cut off from a server
// for so long that the server drops its pages. The server then looks to the client like a restarted
// server, so the client reads no stale page and does not read a missing page as zeros.

// The default and the smallest value of ServerConfig.Keep, the time for which a server keeps the
// pages of a silent client.
const (
	// KeepUsual is the default of ServerConfig.Keep: 10 minutes.
	KeepUsual = 10 * time.Minute

	// KeepLeast is the smallest value of ServerConfig.Keep: 1 minute.
	KeepLeast = time.Minute
)

const (
	askAtLeast = 10 * time.Second

	// silentFor is the time of silence after which another process may become the client with a
	// name. A name moves to another process when the fabric knows that its process has ended.
	// During a partition, two processes may briefly have the same name.
	silentFor = 5 * time.Second
)

// life is what a server knows of a client.
type life struct {
	at    hsn.Host
	begun uint64 // tells it from other lives of its process: later ones have larger numbers
	epoch uint64
	heard clock.Time
	cut   bool // its NIC is silent

	shelves map[shelfID]bool // that it has used
}

// lifeOf returns the life that a request belongs to, or nil if there is no such life or it has
// ended.
func (s *Server) lifeOf(q *request) *life {
	l := s.lives[q.owner]
	if q.op == opOpen {
		l = s.opens(q, l)
	} else if l != nil && (l.at != q.from || l.epoch != q.epoch) {
		return nil
	}
	if l != nil {
		l.heard, l.cut = s.port.now(), false
	}
	return l
}

// opens returns the life that a request to open belongs to. It returns nil if the previous life
// with this name may not have ended. The client then asks again.
func (s *Server) opens(q *request, before *life) *life {
	if before != nil && before.at == q.from && before.begun == q.version {
		return before
	}
	s.heedAll() // queued events concern earlier lives and must not end this one
	before = s.lives[q.owner]
	switch {
	case s.hasEnded(q):
		return nil
	case before == nil:
	case before.at == q.from && before.begun > q.version,
		before.at != q.from && !before.cut && s.port.now().Sub(before.heard) < silentFor:
		return nil
	default:
		s.end(q.owner)
	}
	l := &life{at: q.from, begun: q.version, epoch: s.epoch + s.begun}
	s.begun++
	s.lives[q.owner] = l
	return l
}

// ending records that all clients of a process that began no later than begun have ended.
type ending struct {
	at    hsn.Host
	begun uint64
}

// maxEndings is the number of endings that a server remembers. With them, the server rejects late
// and duplicate requests to open. Such a request would begin a life that ends only by silence.
const maxEndings = 1024

// remember records an ending. If there are maxEndings already, it replaces the oldest.
func (s *Server) remember(e ending) {
	if len(s.endings) == maxEndings {
		s.endings = append(s.endings[:0], s.endings[1:]...)
	}
	s.endings = append(s.endings, e)
}

// hasEnded reports whether a request to open comes from a client that has already ended.
func (s *Server) hasEnded(q *request) bool {
	return slices.ContainsFunc(s.endings, func(e ending) bool { return e.at == q.from && q.version <= e.begun })
}

// end forgets a client and drops its pages.
func (s *Server) end(owner weft.Name) {
	s.leavesShelves(s.lives[owner])
	delete(s.lives, owner)
	s.store.moveOut(owner)
	s.stats.Ended++
	s.sweepAll()
}

const (
	sweepEvery = 10 * time.Millisecond
	sweepMany  = 16 // sweeps each time
)

// sweepAll drops the pages of ended clients in steps, even if no requests arrive. Pages that are
// not yet dropped take room in memory and in the spill file. The port's lock is held.
func (s *Server) sweepAll() {
	if s.sweeping || len(s.store.out) == 0 {
		return
	}
	s.sweeping = true
	s.port.p.Runtime().Go(func() {
		for more := true; more && s.port.p.Runtime().Sleep(s.port.ctx, sweepEvery) == nil; {
			s.port.mu.Lock()
			for n := sweepMany; s.store.sweepLess(&n); {
			}
			more = len(s.store.out) > 0
			s.sweeping = more
			s.port.mu.Unlock()
		}
	})
}

// endThose ends each client for which the function f returns true.
func (s *Server) endThose(f func(l *life) bool) {
	var names []weft.Name
	for owner, l := range s.lives {
		if f(l) {
			names = append(names, owner)
		}
	}
	// a fixed order, for simulations
	slices.SortFunc(names, func(a, b weft.Name) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Index, b.Index))
	})
	for _, owner := range names {
		s.end(owner)
	}
}

// since is the time from which a process numbers its clients. The numbers use the monotonic clock,
// so a later client has a larger number even if the wall clock is set back.
var since = time.Now()

// moment returns the number of a client that begins now. In a simulation, the number is the wall
// clock time.
func moment(now time.Time) uint64 { return uint64(since.Add(now.Sub(since)).UnixNano()) }

const (
	// takenFor is the time for which a client retries if the server still knows another client with
	// its name. It is longer than the time after which the server considers that client silent.
	takenFor   = silentFor + 3*time.Second
	takenPause = 100 * time.Millisecond
)

// open asks a server whether it is up, and for its epoch.
func (c *Client) open(ctx context.Context, s *server) error {
	for until, taken := c.p.Runtime().Now().Add(takenFor), false; ; taken = true {
		err := c.opens(ctx, s)
		if taken && ctx.Err() != nil {
			return errTaken
		}
		if !errors.Is(err, errTaken) || c.p.Runtime().Now().After(until) ||
			c.p.Runtime().Sleep(ctx, takenPause) != nil {
			return err
		}
	}
}

// errTaken refuses a client while another client with its name may be alive.
var errTaken = errors.New(statusTaken.String())

// lifeTag is the tag of the empty message by which a client introduces itself to a server. The
// message is reliable: the fabric reports the end of a process only to processes that exchanged
// messages with it, and datagrams do not count.
const lifeTag weft.Tag = 1

// introduced receives the messages with lifeTag.
func (s *Server) introduced() {
	for {
		if _, err := s.port.own.Recv(s.port.ctx, weft.AnyProcess, lifeTag, nil); err != nil &&
			!errors.Is(err, weft.ErrTruncated) {
			return
		}
	}
}

// introduce sends the message with lifeTag to a server, and repeats it every askAtLeast. The
// server's NIC forgets the senders of messages when its session with the client's NIC ends, for
// example in a long partition. If the message is lost or cannot be sent now, introduce sends
// another one later. Until a message arrives, the server notices the client's end only by its
// silence. The port's lock is held.
func (c *Client) introduce(s *server) {
	_, done, err := s.hello.Test()
	switch now := c.port.now(); {
	case s.knows != 0 && !done:
		return
	case s.knows == s.epoch && err == nil && now.Sub(s.met) < askAtLeast:
		return
	case c.port.own.Peer(s.Name).StartSend(&s.hello, lifeTag, nil) == nil:
		s.knows, s.met = s.epoch, now
	}
}

// mourn ends clients whose processes or NICs have ended. Its watcher only wakes it. If mourn took
// the event from its own watcher before it had the lock, the server could serve a later request
// before the event. mourn ends with the server, also if the server's process was closed instead
// of the server.
func (s *Server) mourn() {
	defer s.letGo()
	defer s.bell.Close()
	for {
		if _, err := s.bell.Next(s.port.ctx); err != nil {
			return
		}
		s.port.mu.Lock()
		s.heedAll()
		s.port.mu.Unlock()
	}
}

// over is a context that has ended. With it, a watcher returns a queued event or fails at once.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// heedAll applies the queued events. The port's lock is held.
func (s *Server) heedAll() {
	for {
		e, err := s.events.Next(over)
		if err != nil {
			return
		}
		s.heed(&e)
	}
}

// heed ends the clients that an event concerns. If an event is lost, these clients end by their
// silence.
func (s *Server) heed(e *weft.Event) {
	nic := func(l *life) bool { return l.at.NIC == uint64(e.Addr.NIC) }
	switch e.Kind {
	case weft.EventProcessGone:
		at := hsn.Host{NIC: uint64(e.Addr.NIC), Slot: e.Addr.Slot, Gen: e.Addr.Generation}
		s.remember(ending{at, math.MaxUint64}) // even without a life: its requests may still arrive
		s.endThose(func(l *life) bool { return l.at == at })
	case weft.EventClosed, weft.EventRestarted:
		for _, l := range s.lives {
			if nic(l) {
				s.remember(ending{l.at, l.begun})
			}
		}
		s.endThose(nic)
	case weft.EventUnreachable:
		for _, l := range s.lives {
			l.cut = l.cut || nic(l)
		}
	}
}

// forget ends clients that have been silent for too long, and drops shelves that were unused for
// too long.
func (s *Server) forget() {
	for s.port.p.Runtime().Sleep(s.port.ctx, s.forgetEvery()) == nil {
		s.port.mu.Lock()
		now := s.port.now()
		s.endThose(func(l *life) bool { return now.Sub(l.heard) > s.cfg.Keep })
		s.unshelveUnused()
		s.port.mu.Unlock()
	}
}
