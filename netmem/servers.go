package netmem

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
)

// server is what a client knows of a page server.
type server struct {
	ServerRef
	seed    uint64 // hash of its name
	addr    weft.Address
	up      bool
	gone    bool // being removed: it gets no more pages
	left    bool // removed: it has no more pages
	since   int  // last round of repair that began before its removal
	asked   bool // greet waits for its answer
	epoch   uint64
	heard   clock.Time
	refusal status // its last refusal of a page
	room    uint64 // room for this client when it was opened

	hello weft.Op    // sends the message of introduce
	knows uint64     // epoch in which hello was sent last; 0: never
	met   clock.Time // when hello was sent last

	owed []owed // pages that it must drop
	pays bool   // pay runs

	window        window
	gathered      []*call       // see depart
	usual, spread time.Duration // mean answer time and mean deviation
}

// took records the answer time of a request, measured from its first transmission. For a
// retransmitted request, the recorded time may be too long but not too short.
func (s *server) took(d time.Duration) {
	if s.usual == 0 {
		s.usual, s.spread = d, d/2
		return
	}
	s.spread += ((d - s.usual).Abs() - s.spread) / 4
	s.usual += (d - s.usual) / 8
}

// patience is the answer timeout: mean + 4 deviations as in TCP, but not below least and not above
// most. A percentile would need many more answers to follow a server that becomes slower. A request
// is not retransmitted before a slow server can have answered it: retransmissions would slow the
// server further.
func (s *server) patience(least, most time.Duration) time.Duration {
	return max(least, min(s.usual+4*s.spread, most))
}

func (s *server) host() hsn.Host {
	return hsn.Host{NIC: uint64(s.addr.NIC), Slot: s.addr.Slot, Gen: s.addr.Generation}
}

// AddServer adds a server to the client and waits until the server has answered. After that, the
// client also places new pages on this server. The client does not move existing pages to the
// server. AddServer fails if the server is silent or refuses the client. AddServer fails with
// [weft.ErrBadArgument] if the client already uses the server or is removing it. AddServer also
// fails with weft.ErrBadArgument if the weight of the server is negative or not finite.
func (c *Client) AddServer(ctx context.Context, ref ServerRef) error {
	s, err := newServer(ref)
	if err != nil {
		return err
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("netmem: server %v: %w", ref.Name, err)
	}
	if c.join(s, false) {
		return badArgument("netmem: server %v is used already", ref.Name)
	}
	if err := c.open(ctx, s); err != nil {
		return fmt.Errorf("netmem: server %v: %w", ref.Name, err)
	}
	// Another call was faster. If the list had the server twice, the server would hold two copies
	// of a page.
	if c.join(s, true) {
		return badArgument("netmem: server %v is used already", ref.Name)
	}
	return nil
}

// newServer returns a server that the client does not use yet.
func newServer(ref ServerRef) (*server, error) {
	if ref.Weight == 0 {
		ref.Weight = 1
	}
	if !(ref.Weight > 0) || math.IsInf(ref.Weight, 1) { // also refuses NaN
		return nil, badArgument("netmem: server %v has a weight of %v; expected a number above 0, or 0 for 1",
			ref.Name, ref.Weight)
	}
	h := fnv.New64a()
	fmt.Fprint(h, ref.Name)
	return &server{ServerRef: ref, seed: h.Sum64()}, nil
}

// join reports whether the client already uses a server with this name. If the client does not use
// it and use is true, join adds the server.
func (c *Client) join(s *server, use bool) (known bool) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	known = slices.ContainsFunc(c.servers, func(o *server) bool { return o.Name == s.Name })
	if use && !known {
		c.servers = append(c.servers, s)
	}
	return known
}

// RemoveServer moves the client's pages from a server to other servers, and then stops using the
// server. When RemoveServer returns nil, no page depends on the server, and the server soon frees
// the room of the pages. RemoveServer can also remove a dead server. If a dead server has the only
// copy of a page, RemoveServer waits until the server is up again.
//
// RemoveServer fails with [ErrFew] if too few other servers are up. RemoveServer fails with
// [ErrFull] if the other servers have no room for the pages. RemoveServer fails with [ErrLost] if a
// page is no longer on any server. RemoveServer fails with [weft.ErrBadArgument] if the client does
// not use the server or is already removing it. If RemoveServer fails or ctx ends, the client
// continues to use the server. Until RemoveServer has returned, no other call can add or remove the
// same server.
func (c *Client) RemoveServer(ctx context.Context, name weft.Name) error {
	s, err := c.removing(name)
	for err == nil {
		left, full, doubtful := c.removed(s)
		if left == 0 {
			return nil
		}
		if err = c.Err(); err == nil && full {
			err = ErrFull
		}
		if err == nil && len(doubtful) > 0 {
			err = c.lost(ctx, slices.Min(doubtful))
		}
		if err == nil {
			err = c.p.Runtime().Sleep(ctx, attendEvery)
		}
	}
	if s != nil {
		c.port.mu.Lock()
		s.gone = false
		c.port.mu.Unlock()
	}
	return fmt.Errorf("netmem: remove server %v: %w", name, err)
}

// removing stops the placement of pages on a server. It fails if there are not enough servers
// without it.
func (c *Client) removing(name weft.Name) (*server, error) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if c.port.err != nil {
		return nil, c.port.err
	}
	i := slices.IndexFunc(c.servers, func(s *server) bool { return s.Name == name })
	if i < 0 {
		return nil, badArgument("it is not used")
	}
	s := c.servers[i]
	if s.gone {
		return nil, badArgument("it is being removed already")
	}
	s.gone = true
	if len(c.live()) < c.code.servers() {
		s.gone = false
		return nil, ErrFew
	}
	s.since = c.look.round
	return s, nil
}

// lost returns ErrLost if no server has a page any more, or nil.
func (c *Client) lost(ctx context.Context, number uint64) error {
	if err := c.ReadPage(ctx, number, make([]byte, c.cfg.PageBytes)); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// removed finishes the removal of the server s if no page depends on s. Otherwise left is the
// number of pages that lack a copy on another server or still have a copy on s. full reports
// whether the other servers have no room for such a page. doubtful lists the pages that may have no
// good copy on any server. Only a read shows whether they have one.
func (c *Client) removed(s *server) (left int, full bool, doubtful []uint64) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	for number, p := range c.pages {
		k := p.on(s)
		if k == nil || !c.stands(k) {
			continue
		}
		lacks := c.kept(p) < c.code.servers()
		if lacks || s.up && c.spares(p) {
			left++
		}
		full = full || lacks && c.look.stuck > s.since && c.look.refuses(number)
		if lacks && c.isDoubtful(p) {
			doubtful = append(doubtful, number)
		}
	}
	if left > 0 {
		return left, full, doubtful
	}
	s.left = true
	c.leaveServer(s)
	for _, p := range c.pages {
		p.forget(s)
	}
	c.servers = slices.DeleteFunc(c.servers, func(o *server) bool { return o == s })
	return 0, false, nil
}

// opens asks a server once whether it is up, and for its epoch.
func (c *Client) opens(ctx context.Context, s *server) error {
	addr, err := c.p.WaitName(ctx, s.Name)
	if err != nil {
		return err
	}
	c.port.mu.Lock()
	s.addr = addr
	begun := c.begunAt(s)
	c.port.mu.Unlock()
	k := c.ask(ctx, s, record{op: opOpen, version: begun}, nil)
	defer c.end(k)
	if err := k.answered(); err != nil {
		return err
	}
	if k.answer.status != statusOK {
		c.port.mu.Lock()
		s.up = false
		c.port.mu.Unlock()
		if k.answer.status == statusTaken {
			return errTaken
		}
		return errors.New(k.answer.status.String())
	}
	c.port.mu.Lock()
	if s.epoch != 0 && s.epoch != k.answer.epoch {
		c.stats.Restarts++
		s.owed = nil
	}
	s.epoch, s.up, s.room = k.answer.epoch, true, k.answer.room
	c.introduce(s)
	c.port.mu.Unlock()
	return nil
}

// live returns the servers that the client writes pages to. The port's lock is held.
func (c *Client) live() (l []*server) {
	for _, s := range c.servers {
		if s.up && !s.gone {
			l = append(l, s)
		}
	}
	return l
}

// ranked returns the live servers in the order of preference of a page. The order comes from
// weighted rendezvous hashing. If a server comes or goes, only the pages on that server move. The
// port's lock is held.
func (c *Client) ranked(number uint64) []*server {
	l := c.live()
	score := func(s *server) float64 {
		x := mix(number ^ mix(s.seed^c.cfg.Volume))
		u := (float64(x>>11) + 0.5) / (1 << 53)
		return -s.Weight / math.Log(u)
	}
	slices.SortFunc(l, func(a, b *server) int {
		switch x, y := score(a), score(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return l
}

// mix spreads the bits of a number.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// suspect examines a failed call. If the server was silent, it counts as dead. If the server has
// another epoch, it counts as restarted.
func (c *Client) suspect(k *call) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	switch {
	case errors.Is(k.failed, errSilent):
		c.dead(k.to)
	case k.answered() == nil && k.answer.status == statusEpoch && k.to.epoch == k.record.epoch:
		k.to.up = false // attend asks for its new epoch
	}
}

// dead marks a server as down, unless a message from it has arrived meanwhile. The port's lock is
// held.
func (c *Client) dead(s *server) {
	if c.port.now().Sub(s.heard) < c.cfg.Dead {
		return
	}
	if s.up {
		c.stats.Deaths++
	}
	s.up = false
}

const attendEvery = 10 * time.Millisecond

// rest waits before a call checks again whether servers are back. It fails when ctx or the client
// ends.
func (c *Client) rest(ctx context.Context) error {
	if err := c.p.Runtime().Sleep(ctx, attendEvery); err != nil {
		return err
	}
	return c.Err()
}

// attend watches servers that are down or silent, and pages that lack copies.
func (c *Client) attend() {
	ctx := c.port.ctx
	for c.p.Runtime().Sleep(ctx, attendEvery) == nil && c.Err() == nil && !c.closed.Load() {
		c.port.stir()
		c.port.mu.Lock()
		for _, s := range c.servers {
			if s.up {
				c.introduce(s)
			}
			if s.up && len(s.owed) > 0 && !s.pays {
				s.pays = true
				c.p.Runtime().Go(func() { c.pay(ctx, s) })
			}
			if !s.asked && (!s.up || c.port.now().Sub(s.heard) > min(c.cfg.Dead/2, askAtLeast)) {
				s.asked = true
				c.p.Runtime().Go(func() { c.greet(ctx, s) })
			}
		}
		// The repair runs in a goroutine, because it may wait for a server that only this loop
		// opens again.
		if !c.repairing {
			c.repairing = true
			c.p.Runtime().Go(func() {
				c.repair(ctx)
				c.port.mu.Lock()
				c.repairing = false
				c.port.mu.Unlock()
			})
		}
		c.port.mu.Unlock()
	}
}

// greet asks a server whether it is up.
func (c *Client) greet(ctx context.Context, s *server) {
	within, cancel := c.p.Runtime().WithTimeout(ctx, c.cfg.Dead)
	defer cancel()
	err := c.open(within, s)
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	s.asked = false
	if err != nil && ctx.Err() == nil {
		c.dead(s)
	}
}
