package netmem

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/internal/mutate"
)

// ServerConfig configures a Server. Only Bytes is required.
type ServerConfig struct {
	// Bytes is the amount of memory that the server lends, in bytes. It must be a multiple of 8
	// KiB.
	Bytes int

	// QuotaBytes is the largest number of bytes that one client may use in the memory and the spill
	// file together. A shelf counts as a client of its own. 0 means no limit.
	QuotaBytes int

	// Spill is the path of the spill file. When the memory is full, the server moves pages that
	// were not used recently to this file. The file must be new or empty. Serve removes the name of
	// the file, so the file vanishes when the server ends. An empty path means no spill file.
	Spill string

	// SpillBytes is the size of the spill file in bytes, a multiple of 8 KiB. On Linux, Serve
	// reserves the space on the disk if the filesystem supports this. 0 means the value of Bytes.
	SpillBytes int64

	// Keep is the time for which the server keeps the pages of a silent client. If the server knows
	// that the client's process has ended, the server drops the pages at once. Keep must be at
	// least KeepLeast. 0 means KeepUsual.
	Keep time.Duration

	// Shelve is the time for which the server keeps a shelf after the last client that used it has
	// ended. It must be at least KeepLeast. 0 means that the server stores no shelves. A server
	// stores at most 1,024 shelves. See [Shelf].
	Shelve time.Duration

	// Admit reports whether the client with the given name may use the server. If Admit is nil,
	// every client may use the server.
	Admit func(client weft.Name) bool

	defect mutate.PageDefect // for tests
}

// ServerStats holds the state and the counters of a server. The counters start at 0 when Serve
// starts the server.
type ServerStats struct {
	Bytes      int    `json:"bytes"`            // bytes of memory that the server lends
	UsedBytes  int    `json:"used_bytes"`       // bytes in use in the memory and the spill file
	SpillBytes int64  `json:"spill_bytes"`      // size of the spill file in bytes
	SpillUsed  int64  `json:"spill_used_bytes"` // bytes in use in the spill file
	SpillOut   uint64 `json:"spill_out"`        // writes of 8 KiB to the spill file
	SpillIn    uint64 `json:"spill_in"`         // reads of 8 KiB from the spill file
	// SpillFailed counts failed reads and writes of the spill file, and damaged pages in it.
	SpillFailed  uint64 `json:"spill_failed"`
	Pages        int    `json:"pages"`         // pages or shards that the server stores
	Clients      int    `json:"clients"`       // clients that have pages on the server
	Ended        uint64 `json:"ended"`         // clients that ended or were silent for too long
	QuotaBytes   int    `json:"quota_bytes"`   // limit for one client in bytes; 0: no limit
	PageOuts     uint64 `json:"page_outs"`     // successful page writes
	PageIns      uint64 `json:"page_ins"`      // successful page reads
	Discards     uint64 `json:"discards"`      // successful page discards
	Full         uint64 `json:"full"`          // writes refused for lack of room or by the quota
	Refused      uint64 `json:"refused"`       // requests from clients that Admit refused
	Damaged      uint64 `json:"damaged"`       // malformed requests; damaged pages in requests
	Strangers    uint64 `json:"strangers"`     // requests from processes with unknown names
	CopiedBytes  uint64 `json:"copied_bytes"`  // page bytes copied to receive or store pages
	PlainBytes   int64  `json:"plain_bytes"`   // bytes of the stored pages before compression
	KeptBytes    int64  `json:"kept_bytes"`    // bytes of the stored pages after compression
	Shelves      int    `json:"shelves"`       // shelves that the server stores
	ShelvedBytes int    `json:"shelved_bytes"` // bytes that shelves use in memory and spill file
	PacketsIn    uint64 `json:"packets_in"`    // received packets
	PacketsOut   uint64 `json:"packets_out"`   // sent packets

	// Volumes lists the volumes that use the most room, largest first. It has at most 8 elements.
	Volumes []VolumeUse `json:"volumes"`
}

// Server lends memory to clients. Each client can read, write and discard only its own pages, and
// the shelves whose key it knows.
type Server struct {
	cfg       ServerConfig
	port      *port
	epoch     uint64 // of the first life
	begun     uint64 // lives begun
	lives     map[weft.Name]*life
	shelves   map[shelfID]*shelved
	shelvings uint32        // shelves made
	sweeping  bool          // sweepAll runs
	endings   []ending      // the latest
	events    *weft.Watcher // reports the end of clients; see mourn
	bell      *weft.Watcher // the same events, to wake mourn
	store     *store
	stats     ServerStats
	answers   []*answer    // by cookie
	free      []int        // unused cookies
	parked    int          // requests that wait for a page from the spill file
	moving    atomic.Int32 // transfers that have yet to begin
}

// request is a request that is being served.
type request struct {
	record
	from  hsn.Host
	owner weft.Name
	m     hsn.Message
}

// answer is an answer that is being sent.
type answer struct {
	header [recordLen]byte
	frame  *frame
}

// Serve starts a page server on the process p. The server runs until Close or until the end of the
// process. A process can have one Server or one [Client] at a time. If p already has one of them,
// Serve fails with [weft.ErrPortInUse].
//
// Serve fails if it cannot get the memory or the spill file, or if the host or a cgroup has too
// little memory left. If a cgroup limits the memory, Serve touches every page of it. Serve fails
// with [weft.ErrBadArgument] if cfg is not valid.
func Serve(p *weft.Process, cfg ServerConfig) (*Server, error) {
	if cfg.Bytes <= 0 || cfg.Bytes%hsn.MaxPage != 0 {
		return nil, badArgument("netmem: a server of %d bytes; expected a multiple of %d", cfg.Bytes, hsn.MaxPage)
	}
	if cfg.Keep == 0 {
		cfg.Keep = KeepUsual
	}
	if cfg.Keep < KeepLeast {
		return nil, badArgument(
			"netmem: a server that keeps pages of silent clients for %v; expected %v or more, or 0 for %v",
			cfg.Keep, KeepLeast, KeepUsual)
	}
	if cfg.Shelve != 0 && cfg.Shelve < KeepLeast {
		return nil, badArgument("netmem: a server that keeps shelves for %v; expected %v or more, or 0 for none",
			cfg.Shelve, KeepLeast)
	}
	if cfg.Spill != "" && cfg.SpillBytes == 0 {
		cfg.SpillBytes = int64(cfg.Bytes)
	}
	all := int64(cfg.Bytes) + cfg.SpillBytes
	switch {
	case cfg.SpillBytes < 0 || cfg.SpillBytes%hsn.MaxPage != 0 || cfg.SpillBytes > 0 && cfg.Spill == "":
		return nil, badArgument("netmem: a spill file %q of %d bytes; expected a file, and a multiple of %d",
			cfg.Spill, cfg.SpillBytes, hsn.MaxPage)
	case cfg.QuotaBytes < 0 || int64(cfg.QuotaBytes) > all:
		return nil, badArgument("netmem: a quota of %d bytes in a server of %d; expected at most that, or 0 for none",
			cfg.QuotaBytes, all)
	}
	var sp *spill
	if cfg.Spill != "" {
		var err error
		if sp, err = openSpill(cfg.Spill, cfg.SpillBytes); err != nil {
			return nil, fmt.Errorf("netmem: spill file %s: %w", cfg.Spill, err)
		}
	}
	pages := cfg.Bytes / hsn.MaxPage
	o, err := newPort(p, hsn.MaxPage, pages+serverSpare, cfg.defect)
	if err != nil {
		return nil, errors.Join(err, sp.close())
	}
	s := &Server{cfg: cfg, port: o, epoch: uint64(p.Runtime().Now().UnixNano())<<8 ^ uint64(p.Address().Generation),
		store: newStore(o.pool, pages), lives: map[weft.Name]*life{}, shelves: map[shelfID]*shelved{}}
	s.store.spill, s.store.defect = sp, cfg.defect
	if cfg.defect == mutate.PagesEpochKept {
		s.epoch = 1
	}
	s.events, s.bell = p.Watch(), p.Watch()
	o.pump.serves = true
	if err := o.begin(hsn.MaxPage, hsn.Server, hsn.Module{Receive: s.receive, Sent: s.sent}); err != nil {
		return nil, err
	}
	p.Runtime().Go(s.tell)
	p.Runtime().Go(s.introduced)
	p.Runtime().Go(s.mourn)
	p.Runtime().Go(s.forget)
	if sp != nil {
		for range spillers {
			p.Runtime().Go(s.spills)
		}
	}
	return s, nil
}

// serverSpare is the number of pages that a server has in addition to the pages that it lends. They
// hold requests, replaced pages that are still being sent, and pages in transfer to the spill file.
const serverSpare = 96

// Close ends the server and discards its pages.
func (s *Server) Close() {
	s.port.close()
	s.letGo()
}

// letGo frees what an ended server still holds.
func (s *Server) letGo() {
	s.events.Close()
	s.port.mu.Lock()
	defer s.port.mu.Unlock()
	_ = s.store.spill.close() // its content is useless now
}

// Wait waits until the server ends and returns the reason. After Close, the reason is
// [weft.ErrClosed]. If ctx ends first, Wait returns the error of ctx.
func (s *Server) Wait(ctx context.Context) error {
	if err := s.port.p.Runtime().WaitUntil(ctx, s.port.failed.Load); err != nil {
		return err
	}
	return s.Err()
}

// Err returns the reason why the server has ended. After Close, the reason is [weft.ErrClosed].
// While the server runs, Err returns nil.
func (s *Server) Err() error {
	s.port.mu.Lock()
	defer s.port.mu.Unlock()
	return s.port.err
}

// Stats returns the state and the counters of the server.
func (s *Server) Stats() ServerStats {
	s.port.mu.Lock()
	defer s.port.mu.Unlock()
	st, c := s.stats, s.port.driver.Counts()
	st.Bytes, st.SpillBytes, st.Pages = s.cfg.Bytes, s.cfg.SpillBytes, s.store.count()
	st.UsedBytes = s.cfg.Bytes + int(s.cfg.SpillBytes) - s.store.room()
	if sp := s.store.spill; sp != nil {
		st.SpillUsed, st.SpillOut, st.SpillIn, st.SpillFailed =
			s.cfg.SpillBytes-int64(len(sp.free))*hsn.MaxPage, sp.out, sp.in, sp.failed+s.store.bad
	}
	st.Clients, st.QuotaBytes = s.store.clients(), s.cfg.QuotaBytes
	st.Shelves, st.ShelvedBytes = len(s.shelves), s.shelvedBytes()
	st.CopiedBytes, st.PacketsIn, st.PacketsOut = c.CopiedBytes+s.store.copied, c.PacketsIn, c.PacketsOut
	st.Volumes = s.store.largest(maxVolumes)
	for _, t := range s.store.tenants {
		for _, u := range t.uses {
			st.PlainBytes += u.Plain
			st.KeptBytes += u.Kept
		}
	}
	return st
}

// receive handles an incoming request. The port's lock is held.
func (s *Server) receive(_ clock.Time, m hsn.Message) {
	var r record
	if r.parse(m.Header) != nil {
		s.stats.Damaged++
		s.port.driver.Free(&m)
		return
	}
	owner := s.port.names[m.From]
	if owner == weft.AnyProcess { // its name is not known here yet: the client asks again
		s.stats.Strangers++
		s.port.driver.Free(&m)
		return
	}
	q := request{record: r, from: m.From, owner: owner, m: m}
	if r.op != opPageIns {
		s.handle(q)
		return
	}
	if !s.unbundle(q) {
		s.stats.Damaged++
	}
	s.port.driver.Free(&m)
}

// handle serves a request at once. If the request needs a page that is in the spill file, handle
// serves it when the page is back in memory.
func (s *Server) handle(q request) {
	var page *stored
	var away *frame
	q.status, page, away = s.serve(&q)
	if q.status == statusBusy && away != nil && s.park(away, &q) {
		return
	}
	s.port.driver.Free(&q.m)
	switch q.status {
	case statusFull, statusQuota:
		s.stats.Full++
	case statusRefused:
		s.stats.Refused++
	case statusBad:
		s.stats.Damaged++
	case statusBusy:
		return // the client asks again
	}
	q.room = uint64(max(s.room(q.owner), 0))
	s.reply(q.m.From, &q.record, page)
}

// room returns the number of bytes that a client may still use.
func (s *Server) room(owner weft.Name) int {
	n := s.store.room()
	if q := s.cfg.QuotaBytes; q > 0 {
		n = min(n, q-s.store.used(owner))
	}
	return n
}

// serve executes a request. With statusBusy, it may return the frame that must first come back from
// the spill file.
func (s *Server) serve(q *request) (status, *stored, *frame) {
	r, key := &q.record, pageKey{q.owner, q.volume, q.page}
	if s.cfg.Admit != nil && !s.cfg.Admit(q.owner) {
		return statusRefused, nil, nil
	}
	l := s.lifeOf(q)
	switch {
	case l == nil && r.op == opOpen:
		return statusTaken, nil, nil
	case l == nil:
		return statusEpoch, nil, nil
	}
	r.epoch = l.epoch
	if r.shelved && r.op != opOpen {
		var st status
		if key, st = s.onShelf(r, l); st != statusOK {
			return st, nil, nil
		}
	}
	switch r.op {
	case opPageOut:
		if crc32.Checksum(q.m.Data, castagnoli) != r.sum || !r.isShard() {
			return statusBad, nil, nil
		}
		kept, st, away := s.store.put(key, r.version, r.shape, s.cfg.QuotaBytes, &q.m)
		s.transfer()
		if st == statusBusy {
			return st, nil, away
		}
		if st == statusOK {
			r.version, r.shape = kept.version, kept.shape
			s.stats.PageOuts++
		}
		return st, nil, nil
	case opPageIn:
		p, away := s.store.get(key)
		s.transfer()
		switch {
		case p == nil:
			return statusMissing, nil, nil
		case p.data == nil:
			return statusBusy, nil, away
		}
		r.version, r.shape = p.version, p.shape
		s.stats.PageIns++
		return statusOK, p, nil
	case opDiscard:
		s.store.discard(key, r.version)
		s.stats.Discards++
	case opLeave:
		if r.shelved {
			s.unshelve(shelfID(r.room))
			break
		}
		s.remember(ending{l.at, l.begun})
		s.end(q.owner)
	}
	return statusOK, nil, nil
}

// reply answers a request, with or without a page. If the answer cannot be sent, it is lost, and
// the client retransmits the request.
func (s *Server) reply(to hsn.Host, r *record, page *stored) {
	if len(s.free) == 0 {
		s.free = append(s.free, len(s.answers))
		s.answers = append(s.answers, new(answer))
	}
	i := s.free[len(s.free)-1]
	a := s.answers[i]
	r.put(a.header[:])
	var data []byte
	if a.frame = nil; page != nil {
		a.frame, data = s.store.pin(page), page.data
	}
	s.free = s.free[:len(s.free)-1]
	if err := s.port.driver.Send(hsn.Server, to, data, a.header[:], uint64(i)); err != nil {
		if !errors.Is(err, hsn.ErrBusy) {
			panic(err) // the message was made here
		}
		s.sent(uint64(i))
	}
}

// sent frees an answer after the driver has sent it.
func (s *Server) sent(cookie uint64) {
	if f := s.answers[cookie].frame; f != nil {
		if s.cfg.defect != mutate.PagesPinLeak {
			s.store.unpin(f)
		}
		s.answers[cookie].frame = nil
	}
	s.free = append(s.free, int(cookie))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
