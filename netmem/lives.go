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

// A client's pages are of no use to others, so a server keeps them for as long as the client lives:
//
//	opens ─► lives ─┬─ its process has ended, or its NIC ──────────────────────► its pages go
//	           ▲    ├─ another client of its name opens, in another process ──► likewise, once this one is silent
//	           │    ├─ it leaves, since it is closed or the server is removed ─► likewise, at once
//	  a request│    ├─ another client opens in its process ───────────────────► likewise, at once
//	           └────┴─ silence for as long as ServerConfig.Keep ──────────────► likewise
//
// A client that lives asks each of its servers at least every askAtLeast whether it is there. Each life has an epoch of its own, which its requests bear. So
// one that was only cut off for long, and whose pages have gone, finds its server restarted: it reads nothing stale, and takes nothing for zeros.

// KeepUsual and KeepLeast are how long a server keeps the pages of a client that is silent: unless its configuration says otherwise, and at least.
const (
	KeepUsual = 10 * time.Minute
	KeepLeast = time.Minute
)

const (
	askAtLeast = 10 * time.Second

	// silentFor is after what silence another process may be the client of a name: a name moves when the fabric knows that its process has gone, and a
	// partition may have two of a name for a moment.
	silentFor = 5 * time.Second
)

// life is a client as a server knows it.
type life struct {
	at    hsn.Host
	begun uint64 // tells it from others of its process: they grow
	epoch uint64
	heard clock.Time
	cut   bool // its NIC is silent
}

// lifeOf is the life that a request is of; nil if it is of none, or of one that has ended.
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

// opens is the life that a request to open is of; nil if the one that the name has, before, may not have ended: its client asks again.
func (s *Server) opens(q *request, before *life) *life {
	if before != nil && before.at == q.from && before.begun == q.version {
		return before
	}
	s.heedAll() // the events so far are of lives before this one: it must not be ended by them
	before = s.lives[q.owner]
	switch {
	case s.hasEnded(q):
		return nil
	case before == nil:
	case before.at == q.from && before.begun > q.version, before.at != q.from && !before.cut && s.port.now().Sub(before.heard) < silentFor:
		return nil
	default:
		s.end(q.owner)
	}
	l := &life{at: q.from, begun: q.version, epoch: s.epoch + s.begun}
	s.begun++
	s.lives[q.owner] = l
	return l
}

// ending says of the clients of a process, up to one that began then, that they have ended.
type ending struct {
	at    hsn.Host
	begun uint64
}

// maxEndings is how many endings a server remembers: a request to open that comes late, or twice, would make a life that nothing ends but its silence.
const maxEndings = 1024

// remember notes an ending, in place of the oldest if there are too many.
func (s *Server) remember(e ending) {
	if len(s.endings) == maxEndings {
		s.endings = append(s.endings[:0], s.endings[1:]...)
	}
	s.endings = append(s.endings, e)
}

// hasEnded reports whether a request to open is of a client that is known to have ended.
func (s *Server) hasEnded(q *request) bool {
	return slices.ContainsFunc(s.endings, func(e ending) bool { return e.at == q.from && q.version <= e.begun })
}

// end forgets a client and what it has.
func (s *Server) end(owner weft.Name) {
	delete(s.lives, owner)
	s.store.moveOut(owner)
	s.stats.Ended++
	s.sweepAll()
}

const (
	sweepEvery = 10 * time.Millisecond
	sweepMany  = 16 // times swept
)

// sweepAll takes out the pages of clients that have ended, some at a time, whether other pages come or not: until then they take room in memory and in the
// spill file. The port's lock is held.
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

// endThose ends the clients of which f says so.
func (s *Server) endThose(f func(l *life) bool) {
	var names []weft.Name
	for owner, l := range s.lives {
		if f(l) {
			names = append(names, owner)
		}
	}
	slices.SortFunc(names, func(a, b weft.Name) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Index, b.Index)) }) // in an order that a simulation repeats
	for _, owner := range names {
		s.end(owner)
	}
}

// since is the moment from which a process counts when its clients begin. It counts by a clock that only goes forward, so that of two clients the later one
// has the larger number though the time of day was set back between them.
var since = time.Now()

// moment is such a number. In a simulation, it is the time of day.
func moment(now time.Time) uint64 { return uint64(since.Add(now.Sub(since)).UnixNano()) }

const (
	// takenFor is for how long a client asks a server again that knows another of its name: longer than it takes the server to find that one silent.
	takenFor   = silentFor + 3*time.Second
	takenPause = 100 * time.Millisecond
)

// open asks a server whether it is there, and for its epoch.
func (c *Client) open(ctx context.Context, s *server) error {
	for until, taken := c.p.Runtime().Now().Add(takenFor), false; ; taken = true {
		err := c.opens(ctx, s)
		if taken && ctx.Err() != nil {
			return errTaken
		}
		if !errors.Is(err, errTaken) || c.p.Runtime().Now().After(until) || c.p.Runtime().Sleep(ctx, takenPause) != nil {
			return err
		}
	}
}

// errTaken is what a client is refused with as long as another of its name may be alive.
var errTaken = errors.New(statusTaken.String())

// lifeTag is the tag of the message by which a client makes itself known to a server, reliably, for a process is told that another has ended if messages
// went between them; of datagrams the NICs keep no account. There is nothing in it.
const lifeTag weft.Tag = 1

// introduced takes in these messages.
func (s *Server) introduced() {
	for {
		if _, err := s.port.own.Recv(s.port.ctx, weft.AnyProcess, lifeTag, nil); err != nil && !errors.Is(err, weft.ErrTruncated) {
			return
		}
	}
}

// introduce makes the client known to a server that has opened it, and again each askAtLeast: the server's NIC forgets which processes have sent
// messages when its session with the client's ends, as it does in a partition that is long enough. If the message cannot go now, or is lost, another follows; until
// one has come, the server finds out by the client's silence. The port's lock is held.
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

// mourn ends clients whose processes or NICs have ended. It has a watcher of its own, which only wakes it: an event that it had taken out before it has
// the lock would be heeded behind a request that came after the event.
func (s *Server) mourn() {
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

// over is a context that has ended: a watcher returns what is there, and does not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// heedAll heeds the events that are there. The port's lock is held.
func (s *Server) heedAll() {
	for {
		e, err := s.events.Next(over)
		if err != nil {
			return
		}
		s.heed(&e)
	}
}

// heed does what an event says of clients. One that is missed is made up for by their silence.
func (s *Server) heed(e *weft.Event) {
	nic := func(l *life) bool { return l.at.NIC == uint64(e.Addr.NIC) }
	switch e.Kind {
	case weft.EventProcessGone:
		at := hsn.Host{NIC: uint64(e.Addr.NIC), Slot: e.Addr.Slot, Gen: e.Addr.Generation}
		s.remember(ending{at, math.MaxUint64}) // whether it has a life or not: what it has sent may come yet
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

// forget ends clients that have been silent for too long.
func (s *Server) forget() {
	for s.port.p.Runtime().Sleep(s.port.ctx, s.cfg.Keep/4) == nil {
		s.port.mu.Lock()
		now := s.port.now()
		s.endThose(func(l *life) bool { return now.Sub(l.heard) > s.cfg.Keep })
		s.port.mu.Unlock()
	}
}
