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
	seed  uint64 // of its name
	addr  weft.Address
	up    bool
	gone  bool // being removed: no page is put there any more
	left  bool // removed: no page is there any more
	since int  // the round of repair that was the last to begin before it was being removed
	asked bool // whether it is there: an answer is awaited
	epoch uint64
	heard clock.Time
	quota bool   // what it had no room for last was beyond the client's quota there
	room  uint64 // that it had for this client when it was opened

	hello weft.Op    // by which it knows when the client ends
	knows uint64     // the epoch in which it was sent last; 0: it never was
	met   clock.Time // when that was

	owed []owed // what it is to drop
	pays bool   // it is being told

	window        window
	gathered      []*call       // see depart
	usual, spread time.Duration // what it takes to answer, and by how much that differs
}

// took notes how long an answer took, from when it was first asked for: too long rather than too short, where a request was repeated.
func (s *server) took(d time.Duration) {
	if s.usual == 0 {
		s.usual, s.spread = d, d/2
		return
	}
	s.spread += ((d - s.usual).Abs() - s.spread) / 4
	s.usual += (d - s.usual) / 8
}

// patience is after what time an answer is late: the mean and four times the mean deviation, as TCP has it, and no percentile, which would take
// many more answers to follow a server that has become slower. It is no sooner than least, and no later than most. A server that is slow is not asked again
// before it can have answered, which would make it slower.
func (s *server) patience(least, most time.Duration) time.Duration {
	return max(least, min(s.usual+4*s.spread, most))
}

func (s *server) host() hsn.Host {
	return hsn.Host{NIC: uint64(s.addr.NIC), Slot: s.addr.Slot, Gen: s.addr.Generation}
}

// AddServer lets the client use another server. Pages are put there from now on, and those that are there already stay where they
// are. It waits until the server has answered, and fails if it does not, or refuses, or is being removed.
func (c *Client) AddServer(ctx context.Context, ref ServerRef) error {
	if ref.Weight == 0 {
		ref.Weight = 1
	}
	if !(ref.Weight > 0) || math.IsInf(ref.Weight, 1) { // not a number is not more than 0 either
		return fmt.Errorf("netmem: server %v has a weight of %v; expected a number above 0, or 0 for 1", ref.Name, ref.Weight)
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("netmem: server %v: %w", ref.Name, err)
	}
	h := fnv.New64a()
	fmt.Fprint(h, ref.Name)
	s := &server{ServerRef: ref, seed: h.Sum64()}
	if c.join(s, false) {
		return fmt.Errorf("netmem: server %v is used already", ref.Name)
	}
	if err := c.open(ctx, s); err != nil {
		return fmt.Errorf("netmem: server %v: %w", ref.Name, err)
	}
	if c.join(s, true) { // by another call, meanwhile: it would have two copies of a page, and both would die with it
		return fmt.Errorf("netmem: server %v is used already", ref.Name)
	}
	return nil
}

// join reports whether a server of this name is used already, or is being removed. If it is not, and that is wanted, this one is used from now on.
func (c *Client) join(s *server, use bool) (known bool) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	known = slices.ContainsFunc(c.servers, func(o *server) bool { return o.Name == s.Name })
	if use && !known {
		c.servers = append(c.servers, s)
	}
	return known
}

// RemoveServer has the client's pages leave a server: they get other copies first. It returns when they have; the server has their room back soon. A server that is dead
// can be removed as well; pages that only it has hold that up until it comes back. It fails with ErrFew if too few other servers are up, and
// with ErrFull if they have no room, and with ErrLost of a page that no server has any more. When it fails, or ctx ends, the server is used as before; until then no other call can add it or remove it.
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

// removing has no page put on a server any more, if there are enough without it.
func (c *Client) removing(name weft.Name) (*server, error) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if c.port.err != nil {
		return nil, c.port.err
	}
	i := slices.IndexFunc(c.servers, func(s *server) bool { return s.Name == name })
	if i < 0 {
		return nil, errors.New("it is not used")
	}
	s := c.servers[i]
	if s.gone {
		return nil, errors.New("it is being removed already")
	}
	s.gone = true
	if len(c.live()) < c.code.servers() {
		s.gone = false
		return nil, ErrFew
	}
	s.since = c.look.round
	return s, nil
}

// lost is ErrLost if a page cannot be read since no server has it any more.
func (c *Client) lost(ctx context.Context, number uint64) error {
	if err := c.ReadPage(ctx, number, make([]byte, c.cfg.PageBytes)); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// removed is how many pages lack a copy without a server that is being removed, or have one there that was not taken back yet, and whether the others have no room
// for one. Of some, no server may have one that is good: reading them tells. If there are none, the server is not used any more.
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

// opens asks a server once whether it is there, and for its epoch.
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

// live are the servers that pages are put on. The port's lock is held.
func (c *Client) live() (l []*server) {
	for _, s := range c.servers {
		if s.up && !s.gone {
			l = append(l, s)
		}
	}
	return l
}

// ranked are the live servers in the order in which a page prefers them: weighted rendezvous hashing, so that a server which comes or
// goes moves no page but its own. The port's lock is held.
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

// suspect looks at how a call to a server has failed: one that is silent is taken for dead, one with another epoch for restarted.
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

// dead notes that a server is silent, unless it has been heard since that was found. The port's lock is held.
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

// rest is how long a call waits for servers to come back before it looks again. It fails when ctx ends, or the client.
func (c *Client) rest(ctx context.Context) error {
	if err := c.p.Runtime().Sleep(ctx, attendEvery); err != nil {
		return err
	}
	return c.Err()
}

// attend looks after servers that are down, or have not been heard for a while, and after pages that lack copies.
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
		if !c.repairing { // beside this loop: a repair may wait for a server that only the loop opens again
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

// greet asks a server whether it is there.
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
