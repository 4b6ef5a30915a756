package netmem

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft"
)

// ShelfConfig configures a Shelf. Only Servers and Key are required. Copies, Compress, PageBytes,
// Retry, Hedge and Dead are those of a client. Coding and Volume must be zero.
type ShelfConfig struct {
	ClientConfig

	// Key names the shelf. All clients with the same Key and the same PageBytes use the same
	// objects, and no other client can read or change them. Key has 16 to 256 bytes. If other
	// processes of the fabric are not trusted, choose it at random.
	Key string
}

// The limits of ShelfConfig.Key, in bytes.
const (
	// ShelfKeyLeast is the shortest length of ShelfConfig.Key: 16 bytes.
	ShelfKeyLeast = 16

	// ShelfKeyMost is the longest length of ShelfConfig.Key: 256 bytes.
	ShelfKeyMost = 256
)

// Shelf stores objects in network memory. In contrast to the pages of a client, the objects outlive
// the processes that wrote them, and every process that knows the key can read and change them. A
// Shelf is a store for checkpoints of package parallel.
//
// Only servers with ServerConfig.Shelve store shelves. They keep a shelf while a client that has
// used it lives, and for the time ServerConfig.Shelve after that. They keep it in memory and in
// their spill files, so a server that ends loses its part. A write returns when Copies servers have
// each page. An acknowledged page stays readable if fewer than Copies servers are lost after it was
// written. No process replaces a lost copy before the page is written again.
//
// Several goroutines and several clients may use a shelf concurrently. They must not write the same
// page of an object concurrently.
type Shelf struct {
	c    *Client
	key  string
	id   shelfID
	page int64
	wait time.Duration // for servers that are down
}

const (
	// shelfDepth is the largest number of pages that one call may have in flight.
	shelfDepth = 32

	// shelfPatience is the time for which a call waits for servers that are down, as a multiple of
	// ClientConfig.Dead.
	shelfPatience = 10
)

// OpenShelf starts a client on the process p and returns the shelf with the key cfg.Key. A shelf
// needs no other preparation: it is empty until a client writes an object. At most Copies−1
// servers may be silent for ten times cfg.Dead. The shelf uses such a server as soon as the
// server answers.
//
// OpenShelf fails if more servers are silent, if a server refuses the client or stores no shelves,
// or if ctx ends. OpenShelf fails with [weft.ErrBadArgument] if cfg is not valid, and with
// [weft.ErrPortInUse] if p has a client or a server.
func OpenShelf(ctx context.Context, p *weft.Process, cfg ShelfConfig) (*Shelf, error) {
	switch n := len(cfg.Key); {
	case n < ShelfKeyLeast || n > ShelfKeyMost:
		return nil, badArgument("netmem: a shelf with a key of %d bytes; expected %d to %d",
			n, ShelfKeyLeast, ShelfKeyMost)
	case cfg.Coding != Code{}:
		return nil, badArgument("netmem: a shelf with Coding; expected Copies")
	case cfg.Volume != 0:
		return nil, badArgument("netmem: a shelf with Volume %d; expected 0, because Key names the shelf", cfg.Volume)
	}
	absent := max(cfg.Copies, 1) - 1
	add := func(c *Client, ctx context.Context, ref ServerRef) error { return c.addOrAwait(ctx, ref, &absent) }
	c, err := newClient(ctx, p, cfg.ClientConfig, add)
	if err != nil {
		return nil, err
	}
	s := &Shelf{c: c, key: cfg.Key, page: int64(c.cfg.PageBytes), wait: shelfPatience * c.cfg.Dead}
	s.id = shelfID(s.hash("shelf", ""))
	if err := s.offered(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// addOrAwait adds a server. If the server is silent, addOrAwait decrements absent if it is above 0,
// and the client waits for the server in the background.
func (c *Client) addOrAwait(ctx context.Context, ref ServerRef, absent *int) error {
	within, cancel := c.p.Runtime().WithTimeout(ctx, shelfPatience*c.cfg.Dead)
	_, err := c.p.WaitName(within, ref.Name)
	silent := err != nil && within.Err() != nil && ctx.Err() == nil
	cancel()
	if err == nil {
		err = c.AddServer(ctx, ref)
		silent = errors.Is(err, errSilent)
	}
	if !silent {
		return err
	}
	if *absent == 0 {
		return fmt.Errorf("netmem: server %v: %w; expected at most Copies−1 silent servers", ref.Name, errSilent)
	}
	*absent--
	s, err := newServer(ref)
	if err == nil && c.join(s, true) {
		err = badArgument("netmem: server %v is used already", ref.Name)
	}
	return err
}

// hash returns the number of the shelf or of an object of it. The kind tells numbers of different
// use apart.
func (s *Shelf) hash(kind, object string) uint64 {
	h := sha256.New()
	fmt.Fprintf(h, "weft %s %d %q %q", kind, s.page, s.key, object)
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// offered returns an error if a server that is up stores no shelves.
func (s *Shelf) offered(ctx context.Context) error {
	for _, to := range s.up() {
		k := s.c.ask(ctx, to, s.request(opPageIn, s.hash("offered", ""), 0), nil)
		err := k.answered()
		if err == nil && k.answer.status == statusUnshelved {
			err = errors.New(statusUnshelved.String())
		}
		s.c.suspect(k)
		s.c.end(k)
		if err != nil && !errors.Is(err, errSilent) && !errors.Is(err, errDown) {
			return fmt.Errorf("netmem: server %v: %w", to.Name, err)
		}
	}
	return nil
}

func (s *Shelf) request(o op, object, page uint64) record {
	return record{op: o, volume: object, page: page, room: uint64(s.id), shelved: true}
}

// up returns the servers that are up.
func (s *Shelf) up() []*server {
	s.c.port.mu.Lock()
	defer s.c.port.mu.Unlock()
	return s.c.live()
}

// down returns the number of servers that are down, and a text that names them.
func (s *Shelf) down() (n int, text string) {
	s.c.port.mu.Lock()
	defer s.c.port.mu.Unlock()
	var names []string
	for _, o := range s.c.servers {
		if !o.up {
			names = append(names, o.Name.String())
		}
	}
	if len(names) == 0 {
		return 0, "no server is down"
	}
	return len(names), "down: " + strings.Join(names, ", ")
}

// Align returns the size of a page in bytes. Two clients may write an object concurrently if no
// page has bytes of both. A page begins at a multiple of its size.
func (s *Shelf) Align() int { return int(s.page) }

// Stats returns the state and the counters of the shelf's client.
func (s *Shelf) Stats() ClientStats { return s.c.Stats() }

// Close ends the client. The objects stay on the servers.
func (s *Shelf) Close() { s.c.Close() }

// Clear removes all objects of the shelf from the servers that are up. A server that is down drops
// them when the time ServerConfig.Shelve has passed.
func (s *Shelf) Clear(ctx context.Context) error {
	var failed error
	for _, to := range s.up() {
		k := s.c.ask(ctx, to, s.request(opLeave, 0, 0), nil)
		if err := k.answered(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("netmem: clear a shelf: server %v: %w", to.Name, err))
		}
		s.c.suspect(k)
		s.c.end(k)
	}
	return failed
}

// writePage writes a page of an object to Copies servers. Clients number versions by their
// clocks. If a server has this version of another client, or a newer one, the write takes a still
// newer one.
func (s *Shelf) writePage(ctx context.Context, object, number uint64, data []byte) error {
	c := s.c
	within, cancel := c.p.Runtime().WithTimeout(ctx, s.wait)
	defer cancel()
	f := c.form(data)
	defer c.giveBack(f.mem)
	r, err := s.request(opPageOut, object, number), errOlder
	for newer := uint64(0); errors.Is(err, errOlder); {
		p := &page{}
		c.port.mu.Lock()
		c.version = max(c.version, newer) + 1
		r.version, p.issued = c.version, c.version
		c.port.mu.Unlock()
		err = c.spread(within, p, r, f, map[*server]bool{}, false)
		newer = p.issued
	}
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = s.few()
	}
	return err
}

// errOlder is the error of spread when a server has this version of a page of a shelf from another
// client, or a newer one.
var errOlder = errors.New("netmem: a server has a newer version")

// few returns the error of a call that has waited for servers. It names those that are down.
func (s *Shelf) few() error {
	n, down := s.down()
	if n == 0 {
		return fmt.Errorf("no answer of the servers for %v: %w", s.wait, context.DeadlineExceeded)
	}
	return fmt.Errorf("%w, for %v (%s)", ErrFew, s.wait, down)
}

// readPage reads a page of an object into buf: the newest version of all servers that are up. It
// fails with ErrMissing if so many servers lack the page that none can have it. If patient is true,
// readPage first waits for the servers that are down, because others may have lost the page.
func (s *Shelf) readPage(ctx context.Context, object, number uint64, buf []byte, patient bool) error {
	rt, all := s.c.p.Runtime(), len(s.c.cfg.Servers)
	within, cancel := rt.WithTimeout(ctx, s.wait)
	defer cancel()
	for {
		found, lacking := s.askAll(ctx, object, number, buf)
		// Fewer than Copies servers could still have the page, and a written page is on Copies
		// servers.
		certain := all-lacking < s.c.code.servers()
		waits := lacking < all && (!certain || patient && s.mayReturn())
		switch err := cmp.Or(ctx.Err(), s.c.Err()); {
		case found:
			return nil
		case err != nil:
			return err
		case waits && rt.Sleep(within, attendEvery) == nil:
		case certain:
			_, down := s.down()
			return fmt.Errorf("%w on %d of %d servers (%s)", ErrMissing, lacking, all, down)
		default:
			return cmp.Or(ctx.Err(), s.few())
		}
	}
}

// mayReturn reports whether a server is down that this client has seen up.
func (s *Shelf) mayReturn() bool {
	s.c.port.mu.Lock()
	defer s.c.port.mu.Unlock()
	return slices.ContainsFunc(s.c.servers, func(o *server) bool { return !o.up && o.epoch != 0 })
}

// askAll asks all servers that are up for a page. It copies the newest version to buf, and returns
// the number of servers that do not have the page.
func (s *Shelf) askAll(ctx context.Context, object, number uint64, buf []byte) (found bool, lacking int) {
	c, newest := s.c, uint64(0)
	c.port.mu.Lock()
	var calls []*call
	for _, to := range c.live() {
		calls = append(calls, c.begin(to, s.request(opPageIn, object, number), nil))
	}
	c.port.mu.Unlock()
	for _, k := range calls {
		c.finish(ctx, k)
		c.suspect(k)
		switch {
		case k.answered() != nil:
		case k.answer.status == statusOK:
			if k.answer.version > newest && c.unpack(k, buf) {
				found, newest = true, k.answer.version
			}
		case k.answer.status != statusEpoch:
			lacking++
		}
		c.end(k)
	}
	return found, lacking
}

// unpack copies the page of an answer to buf. It reports false if the page is damaged.
func (c *Client) unpack(k *call, buf []byte) bool {
	page, mem := c.page(k.msg.Data)
	defer c.giveBack(mem)
	if !k.answer.matches(page) {
		c.port.mu.Lock()
		c.stats.Damaged++
		c.port.mu.Unlock()
		return false
	}
	c.handed.Add(uint64(copy(buf, page)))
	return true
}
