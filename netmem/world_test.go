package netmem

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// sleep sleeps for d of virtual time.
func sleep(p interface{ Runtime() weft.Runtime }, d time.Duration) error {
	return p.Runtime().Sleep(context.Background(), d)
}

// world is a client of page servers on a bad network, and simulates the misfortunes of servers.
// They die with all their content, alone or with their host, and start again. They are slow for
// so long that the client counts them as dead, and come back. They join and leave. They are full.
// Their memory goes bad. No server dies, and no copy goes bad, unless each acknowledged page is
// really on as many servers as it has copies. So fewer servers are down at the same time. A
// surplus copy does not count, because the client may drop it at any time.
//
// The world constantly compares the client's beliefs with the content of the servers. In the end
// every buffer must be where it belongs.
type world struct {
	kind
	f      *sim.Fabric
	rng    *rand.Rand
	defect mutate.PageDefect
	size   int
	pages  int // of 8 KiB, for each server
	memory int // number of them in memory: the others are in a spill file
	dir    string
	rots   bool // memory goes bad
	narrow bool // a server has one request at a time
	hosts  []*host
	client *Client
	acked  map[uint64]uint64 // by page: the version that its owner knows
	rotten map[*stored]bool
	// the last version of a page that went bad on a host, where the file may have lost it
	spoilt map[spoilt]uint64
	counts worldCounts
	failed error
	busy   int // functions that run concurrently
	files  int
	guests int // guests in the world
}

// kind is the way in which a world stores pages.
type kind struct {
	compress bool
	coding   Code // zero: copies
	guested  bool // other clients come and go
}

// code returns the code that protects pages against the loss of servers.
func (k kind) code() Code {
	if k.coding.cuts() {
		return k.coding
	}
	return Code{Data: 1, Parity: worldCopies - 1}
}

// servers returns the number of servers. The last one joins and leaves.
func (k kind) servers() int { return max(worldServers, k.code().servers()+2) }

// spoilt is a place where a page has gone bad.
type spoilt struct {
	host int
	page uint64
}

// worldCounts counts events.
type worldCounts struct{ deaths, rots, joins, leaves, full, guests int }

// host is a host with a page server.
type host struct {
	at     int
	name   weft.Name
	proc   *sim.Process
	server *Server // nil: down
	used   bool    // by the client
}

const (
	worldServers = 5
	worldCopies  = 2
	worldDead    = 150 * time.Millisecond
	worldLength  = 3 * time.Second
)

// newWorld makes the world of a seed, with at most one defect.
func newWorld(seed uint64, k kind, d mutate.PageDefect, dir string) *world {
	w := &world{kind: k, rng: rand.New(rand.NewPCG(seed, 77)), defect: d, size: []int{4096, 8192}[seed%2], pages: 100, memory: 100, dir: dir, rots: seed%3 == 2, narrow: seed%7 == 0, acked: map[uint64]uint64{}, rotten: map[*stored]bool{}, spoilt: map[spoilt]uint64{}}
	if w.tight(seed) {
		w.pages = 10 * w.size / 4096
		switch {
		case k.compress:
			w.pages /= 2
		case k.coding.cuts():
			w.pages = w.pages * 2 / 3
		}
		w.memory = w.pages
	} else if seed%4 == 1 {
		w.memory = 8
	}
	w.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: 1 + w.servers(),
		Faults: sim.Faults{Loss: 0.03, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.01, Delay: 0.005, DelayMax: 50 * time.Millisecond}}, simulated.Hooks{Refused: w.refused}))
	for i := range w.servers() {
		h := &host{at: 1 + i, name: weft.Name{App: "memory", Index: uint32(i)}, used: i < w.servers()-1}
		w.hosts = append(w.hosts, h)
		w.start(h)
	}
	return w
}

// tight reports whether the servers of a seed have too little room.
func (w *world) tight(seed uint64) bool { return seed%4 >= 2 }

// start starts a host's server.
func (w *world) start(h *host) {
	h.server = nil
	h.proc = w.f.Serve(h.at, h.name.String(), w.serve(h))
}

func (w *world) serve(h *host) func(p *sim.Process) error {
	return func(p *sim.Process) error {
		h.proc, h.server = p, nil
		cfg := ServerConfig{Bytes: w.memory * 8192, defect: w.defect}
		if w.memory < w.pages {
			w.files++
			cfg.Spill, cfg.SpillBytes = filepath.Join(w.dir, fmt.Sprint(w.files)), int64(w.pages-w.memory)*8192
		}
		s, err := Serve(p.Weft(), cfg)
		if err != nil {
			return err
		}
		h.server = s
		return sleep(p, time.Hour)
	}
}

// refused restarts a server whose name still belongs to its predecessor.
func (w *world) refused(process any, _ error) {
	p := process.(*sim.Process)
	for _, h := range w.hosts {
		if h.at == p.Host() {
			w.f.After(50*time.Millisecond, func() { w.start(h) })
		}
	}
}

// run runs some callers in the world for a while, together with all events.
func (w *world) run(callers int, life func(sp *sim.Process, first uint64) error) error {
	w.f.Process(0, "client/0", func(sp *sim.Process) error {
		var refs []ServerRef
		for _, h := range w.hosts {
			if h.used {
				refs = append(refs, ServerRef{Name: h.name})
			}
		}
		cfg := ClientConfig{Servers: refs, Coding: w.coding, Compress: w.compress, PageBytes: w.size, Dead: worldDead, defect: w.defect}
		if w.narrow {
			cfg.window = 1
		}
		if !w.coding.cuts() {
			cfg.Copies = worldCopies
		}
		c, err := NewClient(context.Background(), sp.Weft(), cfg)
		for range 3 { // a server may be silent for Dead on this network
			if err != nil {
				c, err = NewClient(context.Background(), sp.Weft(), cfg)
			}
		}
		if err != nil {
			return err
		}
		w.client = c
		if w.guested {
			w.guest(1)
		}
		w.beside(sp, w.happen)
		for i := range callers {
			w.beside(sp, func(sp *sim.Process) error { return life(sp, uint64(1+i)*1000) })
		}
		if err := sp.Runtime().WaitUntil(context.Background(), func() bool { return w.busy == 0 || w.failed != nil }); err != nil || w.failed != nil {
			return errors.Join(err, w.failed)
		}
		if err := w.settled(sp); err != nil {
			return err
		}
		c.Close()
		return nil
	})
	return w.f.Run(5 * time.Minute)
}

// beside runs a function concurrently. Its error is the world's.
func (w *world) beside(sp *sim.Process, fn func(sp *sim.Process) error) {
	w.busy++
	sp.Start("beside", func(sp *sim.Process) error {
		w.failed = errors.Join(w.failed, fn(sp))
		w.busy--
		sp.Runtime().Wake()
		return nil
	})
}

// happen causes an event at a server again and again.
func (w *world) happen(sp *sim.Process) error {
	for begun := sp.Runtime().Now(); sp.Runtime().Now().Sub(begun) < worldLength; {
		sleep(sp, time.Duration(10+w.rng.IntN(120))*time.Millisecond)
		if err := w.audit(); err != nil {
			return err
		}
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		switch w.rng.IntN(8) {
		case 0, 1, 2:
			if h.server != nil && w.spare() {
				w.end(h)
			}
		case 3, 4:
			w.f.Stall(h.at, time.Duration(w.rng.ExpFloat64()*2*float64(worldDead)))
		case 5:
			w.f.Clog(0, h.at, time.Duration(w.rng.ExpFloat64()*2*float64(worldDead)))
		case 6:
			if h.server != nil && w.rots && w.spare() {
				w.rot(h)
			}
		default:
			w.joinOrLeave(sp)
		}
	}
	return nil
}

// end kills a server, with its host or alone, and starts it again.
func (w *world) end(h *host) {
	w.counts.deaths++
	h.server = nil
	down := time.Duration(w.rng.Int64N(int64(600 * time.Millisecond)))
	if w.rng.IntN(2) == 0 {
		w.f.Reboot(h.at, down)
		return
	}
	w.f.Kill(h.proc)
	w.f.After(down, func() { w.start(h) })
}

// rot damages some pages of a server.
func (w *world) rot(h *host) {
	var l []*stored
	for p := range h.server.store.all() {
		if p.data != nil && p.frame.pins == 0 && !w.rotten[p] {
			l = append(l, p)
		}
	}
	slices.SortFunc(l, func(a, b *stored) int { return int(a.key.page) - int(b.key.page) })
	w.rng.Shuffle(len(l), func(i, k int) { l[i], l[k] = l[k], l[i] })
	for _, p := range l[:min(4, len(l))] {
		p.data[w.rng.IntN(len(p.data))] ^= 0x55
		w.rotten[p] = true
		w.spoilt[spoilt{h.at, p.key.page}] = p.version
		w.counts.rots++
	}
}

// joinOrLeave adds the last server to the client, or removes it.
func (w *world) joinOrLeave(sp *sim.Process) {
	h := w.hosts[len(w.hosts)-1]
	if w.busy == 0 || h.server == nil {
		return
	}
	w.beside(sp, func(sp *sim.Process) error {
		ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if !h.used {
			h.used = true
			w.counts.joins++
			err := w.client.AddServer(ctx, ServerRef{Name: h.name})
			if err != nil { // it has died meanwhile, or another call has added it
				h.used = slices.ContainsFunc(w.client.servers, func(s *server) bool { return s.Name == h.name && !s.gone })
			}
			return nil
		}
		w.counts.leaves++
		err := w.client.RemoveServer(ctx, h.name)
		h.used = slices.ContainsFunc(w.client.servers, func(s *server) bool { return s.Name == h.name })
		if errors.Is(err, context.DeadlineExceeded) && w.pages == 100 {
			return fmt.Errorf("a server cannot leave: %w", err)
		}
		return nil
	})
}

// epochAt returns the epoch of the client's life at a host's server; 0 if it has none there.
func (w *world) epochAt(h *host) uint64 {
	if l := h.server.lives[w.client.p.Name()]; l != nil {
		return l.epoch
	}
	return 0
}

// holds returns the undamaged page that a server really has; nil if none.
func (w *world) holds(h *host, number uint64) *stored {
	if h.server == nil {
		return nil
	}
	p := h.server.store.at(pageKey{owner: w.client.p.Name(), page: number})
	if p == nil || p.data == nil && w.rotten[p] || p.data != nil && crc32.Checksum(p.data, castagnoli) != p.sum {
		return nil
	}
	return p
}

func (w *world) host(n weft.Name) *host {
	return w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == n })]
}

// spare reports whether each page can spare a copy or a shard. Enough of them must be known to
// the client, really exist, and stay, so that the page can be read without it.
func (w *world) spare() bool {
	c := w.client
	for number, version := range w.acked {
		p := c.pages[number]
		if p == nil {
			return false
		}
		if p.pending != nil && !p.busy.Load() {
			continue // the client has it
		}
		// A repair may have rewritten the page. Then no older version is read.
		version = max(version, p.version)
		surplus := c.surplus(p) // the client may take these back at any moment
		n := c.count(p, func(k *copyOf) bool {
			h := w.host(k.server.Name)
			has := w.holds(h, number)
			return has != nil && !slices.Contains(surplus, *k) && has.version >= version && k.version >= version && w.epochAt(h) == k.epoch && (!w.coding.cuts() || has.version == k.version && has.shard == k.shard)
		})
		if n <= w.code().Data {
			return false
		}
	}
	return true
}

// audit compares the client's beliefs about its servers with their content.
func (w *world) audit() error {
	c, short, busy := w.client, 0, 0
	for number, p := range c.pages {
		if p.busy.Load() {
			busy++
			continue // a discard may be in progress
		}
		if c.isShort(p) {
			short++
		}
		for _, k := range p.copies {
			h := w.host(k.server.Name)
			if h.server == nil || !k.server.up || k.doubted || c.cfg.defect != mutate.PagesEpochKept && w.epochAt(h) != k.epoch {
				continue
			}
			has := h.server.store.at(pageKey{owner: c.p.Name(), page: number})
			if has == nil && w.spoilt[spoilt{h.at, number}] >= k.version {
				continue
			}
			if has != nil && has.version == k.version && has.shard != k.shard {
				return fmt.Errorf("page %d: the client believes that %v has shard %d of version %d; it has %d", number, h.name, k.shard, k.version, has.shard)
			}
			if has == nil || has.version < k.version {
				return fmt.Errorf("page %d: the client believes that %v has version %d; it has %+v", number, h.name, k.version, has)
			}
		}
	}
	if n := c.Stats().Lacking; len(c.live()) >= c.code.servers() && (n < short || n > short+busy) {
		return fmt.Errorf("%d pages lack copies, and perhaps some of %d others; the client counts %d", short, busy, n)
	}
	return nil
}

// settled waits until the world is quiet, and checks that everything is where it belongs.
func (w *world) settled(sp *sim.Process) error {
	ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := w.client
	if err := w.left(ctx, sp); err != nil {
		return err
	}
	sleep(sp, 2*time.Second) // slow operations have ended
	quiet := func() bool {
		st := c.Stats()
		return st.Lacking == 0 && st.ServersUp == len(c.servers) && len(c.unsettled()) == 0 && !c.repairing && !slices.ContainsFunc(w.hosts, func(h *host) bool { return h.server == nil })
	}
	for w.pages == 100 && !quiet() {
		if err := sp.Runtime().Sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%+v: pages lack copies, or have too many, for good: %w", c.Stats(), err)
		}
	}
	if err := w.audit(); err != nil {
		return err
	}
	if w.pages == 100 {
		for number, p := range c.pages {
			if n := len(c.good(p, nil)); p.version > 0 && p.issued == p.version && (n != w.code().servers() || n != c.kept(p)) {
				return fmt.Errorf("page %d is on %d servers: %+v", number, n, p.copies)
			}
		}
	}
	if err := errors.Join(w.healed(ctx), w.damage()); err != nil {
		return err
	}
	err := w.balance()
	for range 100 { // the client asks now and then whether its servers are up
		if err != nil {
			sleep(sp, 7*time.Millisecond)
			err = w.balance()
		}
	}
	return err
}

// healed asks each server for each page that it has, so the client knows every bad copy. When
// other copies have replaced the bad ones, healed asks again.
func (w *world) healed(ctx context.Context) error {
	if w.pages < 100 {
		return nil // there may be no room
	}
	w.bad(ctx)
	if err := w.client.p.Runtime().Sleep(ctx, time.Second); err != nil {
		return err
	}
	if n := w.bad(ctx); n > 0 {
		return fmt.Errorf("%d copies are still bad that the client knew to be", n)
	}
	return nil
}

// bad returns the number of copies that are not what they should be.
func (w *world) bad(ctx context.Context) (n int) {
	c := w.client
	for _, number := range slices.Sorted(maps.Keys(w.acked)) {
		p := c.pages[number]
		for _, k := range slices.Clone(p.copies) {
			if c.isGood(p, &k) && !w.gives(ctx, number, p, target{k.server, k.shard}) {
				n++
			}
		}
	}
	return n
}

// gives reports whether a server has the page that the client believes it has. If the server does
// not answer on this network, gives asks again while the client still believes so.
func (w *world) gives(ctx context.Context, number uint64, p *page, t target) bool {
	for !w.client.gives(ctx, number, p, t) {
		k := p.on(t.to)
		if k == nil {
			return true
		}
		if k.doubted || w.client.rest(ctx) != nil {
			return false
		}
	}
	return true
}

// balance checks that every buffer is where it belongs. Nothing is in flight.
func (w *world) balance() error {
	c := w.client
	if free := c.port.pool.Len(); free != clientSpare || len(c.sends) > 0 {
		return fmt.Errorf("the client has %d free buffers, want %d; %d sends are under way", free, clientSpare, len(c.sends))
	}
	for _, h := range w.hosts {
		if h.server == nil {
			continue
		}
		s := h.server.store
		if have, want := s.pool.Len()+s.frames, w.memory+serverSpare; have != want {
			return fmt.Errorf("%v has %d buffers free and %d frames, want %d together", h.name, s.pool.Len(), s.frames, want)
		}
		if err := s.counted(); err != nil {
			return fmt.Errorf("%v: %w", h.name, err)
		}
		for _, f := range s.clock {
			if f.pins != 0 || len(f.waits) > 0 {
				return fmt.Errorf("%v: a frame is pinned %d times at rest, and %d wait for it", h.name, f.pins, len(f.waits))
			}
		}
	}
	return nil
}

// counted checks that the store has counted its content correctly.
func (s *store) counted() error {
	owners, held := map[weft.Name]int{}, 0
	for p := range s.all() {
		owners[p.key.owner] += p.bytes()
		if held++; p.frame.places[slices.Index(p.frame.places, p)] != p {
			return fmt.Errorf("page %v is not where it should be", p.key)
		}
	}
	for owner, t := range s.tenants {
		if owners[owner] != t.used || len(t.list) != len(t.pages) {
			return fmt.Errorf("client %v has %d bytes; it has counted %d, and %d pages as %d", owner, owners[owner], t.used, len(t.pages), len(t.list))
		}
	}
	leaving := 0
	for _, t := range s.out {
		for _, p := range t.list {
			leaving += p.bytes()
		}
	}
	if leaving != s.leaving {
		return fmt.Errorf("clients that have ended have %d bytes; it has counted %d", leaving, s.leaving)
	}
	for class, open := range s.open {
		free := 0
		for _, f := range open {
			free += len(f.places) - f.held
		}
		if free != s.loose[class] {
			return fmt.Errorf("%d places of %d bytes are free; it has counted %d", free, placeBytes(class), s.loose[class])
		}
	}
	return nil
}

// damage checks that nothing was damaged except on purpose.
func (w *world) damage() error {
	if n := w.client.Stats().Damaged; n > 0 && w.counts.rots == 0 {
		return fmt.Errorf("%d pages were damaged on their way here", n)
	}
	for _, h := range w.hosts {
		if h.server != nil && h.server.stats.Damaged > 0 {
			return fmt.Errorf("%d pages were damaged on their way to %v", h.server.stats.Damaged, h.name)
		}
	}
	return nil
}
