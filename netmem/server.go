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

// ServerConfig configures a Server.
type ServerConfig struct {
	// Bytes is how much memory the server lends: a multiple of 8 KiB.
	Bytes int

	// QuotaBytes is how much of it one client may have; zero: all.
	QuotaBytes int

	// Spill is a file for what the memory has no room for; empty: none. It must not be there yet, or be empty, and is removed in the end.
	Spill string

	// SpillBytes is how large the file is, a multiple of 8 KiB; zero: as large as Bytes. The space is taken at once.
	SpillBytes int64

	// Keep is after what silence of a client its pages go, though nothing says that its process has ended; zero: 10 minutes. It is a minute or more.
	Keep time.Duration

	// Admit says which clients may use the server, by the names by which the fabric knows them; nil: all.
	Admit func(client weft.Name) bool

	defect mutate.PageDefect // for tests
}

// ServerStats is what a server has and has done.
type ServerStats struct {
	Bytes       int    `json:"bytes"`       // that it lends, of memory
	UsedBytes   int    `json:"used_bytes"`  // of memory and of its spill file
	SpillBytes  int64  `json:"spill_bytes"` // that the spill file may have
	SpillUsed   int64  `json:"spill_used_bytes"`
	SpillOut    uint64 `json:"spill_out"` // times that 8 KiB went to the file, and came back
	SpillIn     uint64 `json:"spill_in"`
	SpillFailed uint64 `json:"spill_failed"` // times that they could not; pages that came back damaged
	Pages       int    `json:"pages"`
	Clients     int    `json:"clients"`     // that have pages
	Ended       uint64 `json:"ended"`       // clients whose pages have gone, since they have ended or were silent for too long
	QuotaBytes  int    `json:"quota_bytes"` // 0: none
	PageOuts    uint64 `json:"page_outs"`   // that were answered with success, as are the next
	PageIns     uint64 `json:"page_ins"`
	Discards    uint64 `json:"discards"`
	Full        uint64 `json:"full"` // requests that failed so, as are the next
	Refused     uint64 `json:"refused"`
	Damaged     uint64 `json:"damaged"`
	Strangers   uint64 `json:"strangers"`    // requests of processes whose names were not known here
	CopiedBytes uint64 `json:"copied_bytes"` // of pages: those that were received into two buffers, or share one with another
	PlainBytes  int64  `json:"plain_bytes"`  // of the pages, had they not been compressed
	KeptBytes   int64  `json:"kept_bytes"`   // that they are
	PacketsIn   uint64 `json:"packets_in"`
	PacketsOut  uint64 `json:"packets_out"`

	// Volumes are those of which it has most, and no more of them than a message has room for.
	Volumes []VolumeUse `json:"volumes"`
}

// Server lends memory to the clients of the fabric. The pages of a client are its own: no other can read them.
type Server struct {
	cfg      ServerConfig
	port     *port
	epoch    uint64 // of the first client's life
	begun    uint64 // lives
	lives    map[weft.Name]*life
	sweeping bool          // sweepAll is at work
	endings  []ending      // the last ones
	events   *weft.Watcher // of clients that end; see mourn
	bell     *weft.Watcher // the same: it says that there are some
	store    *store
	stats    ServerStats
	answers  []*answer // by cookie
	free     []int
	parked   int          // requests that wait for a page to come back from the spill file
	moving   atomic.Int32 // transfers that have yet to begin
}

// request is one that is being served.
type request struct {
	record
	from  hsn.Host
	owner weft.Name
	m     hsn.Message
}

// answer is one that is being sent.
type answer struct {
	header [recordLen]byte
	frame  *frame
}

// Serve makes a process a page server. It serves until Close, or until the process ends. A process is one server or one client at a time.
func Serve(p *weft.Process, cfg ServerConfig) (*Server, error) {
	if cfg.Bytes <= 0 || cfg.Bytes%hsn.MaxPage != 0 {
		return nil, fmt.Errorf("netmem: a server of %d bytes; expected a multiple of %d", cfg.Bytes, hsn.MaxPage)
	}
	if cfg.Keep == 0 {
		cfg.Keep = KeepUsual
	}
	if cfg.Keep < KeepLeast {
		return nil, fmt.Errorf("netmem: a server that keeps pages of silent clients for %v; expected %v or more, or 0 for %v", cfg.Keep, KeepLeast, KeepUsual)
	}
	if cfg.Spill != "" && cfg.SpillBytes == 0 {
		cfg.SpillBytes = int64(cfg.Bytes)
	}
	all := int64(cfg.Bytes) + cfg.SpillBytes
	switch {
	case cfg.SpillBytes < 0 || cfg.SpillBytes%hsn.MaxPage != 0 || cfg.SpillBytes > 0 && cfg.Spill == "":
		return nil, fmt.Errorf("netmem: a spill file %q of %d bytes; expected a file, and a multiple of %d", cfg.Spill, cfg.SpillBytes, hsn.MaxPage)
	case cfg.QuotaBytes < 0 || int64(cfg.QuotaBytes) > all:
		return nil, fmt.Errorf("netmem: a quota of %d bytes in a server of %d; expected at most that, or 0 for none", cfg.QuotaBytes, all)
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
	s := &Server{cfg: cfg, port: o, epoch: uint64(p.Runtime().Now().UnixNano())<<8 ^ uint64(p.Address().Generation), store: newStore(o.pool, pages), lives: map[weft.Name]*life{}}
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

// serverSpare is how many pages a server has beside those that it lends: requests that it looks at or that wait, what is being sent and
// has been replaced meanwhile, and what is on its way to the spill file.
const serverSpare = 96

// Close ends the server. Its pages are lost.
func (s *Server) Close() {
	s.port.close()
	s.events.Close()
	s.port.mu.Lock()
	defer s.port.mu.Unlock()
	_ = s.store.spill.close() // what is in it has no use any more
}

// Wait waits until the server serves no more, and returns why, or until ctx ends.
func (s *Server) Wait(ctx context.Context) error {
	if err := s.port.p.Runtime().WaitUntil(ctx, s.port.failed.Load); err != nil {
		return err
	}
	return s.Err()
}

// Err is why the server serves no more; nil while it does.
func (s *Server) Err() error {
	s.port.mu.Lock()
	defer s.port.mu.Unlock()
	return s.port.err
}

// Stats is what the server has, and has done so far.
func (s *Server) Stats() ServerStats {
	s.port.mu.Lock()
	defer s.port.mu.Unlock()
	st, c := s.stats, s.port.driver.Counts()
	st.Bytes, st.SpillBytes, st.Pages = s.cfg.Bytes, s.cfg.SpillBytes, s.store.count()
	st.UsedBytes = s.cfg.Bytes + int(s.cfg.SpillBytes) - s.store.room()
	if sp := s.store.spill; sp != nil {
		st.SpillUsed, st.SpillOut, st.SpillIn, st.SpillFailed = s.cfg.SpillBytes-int64(len(sp.free))*hsn.MaxPage, sp.out, sp.in, sp.failed+s.store.bad
	}
	st.Clients, st.QuotaBytes = len(s.store.tenants), s.cfg.QuotaBytes
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

// receive takes a request. The port's lock is held.
func (s *Server) receive(_ clock.Time, m hsn.Message) {
	var r record
	if r.parse(m.Header) != nil {
		s.stats.Damaged++
		s.port.driver.Free(&m)
		return
	}
	owner := s.port.names[m.From]
	if owner == weft.AnyProcess { // its name has not spread to here: it asks again
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

// handle serves a request, now or when a page has come back from the spill file that it needs.
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
		return // it asks again
	}
	q.room = uint64(max(s.room(q.owner), 0))
	s.reply(q.m.From, &q.record, page)
}

// room is how many bytes a client could still have.
func (s *Server) room(owner weft.Name) int {
	n := s.store.room()
	if q := s.cfg.QuotaBytes; q > 0 {
		n = min(n, q-s.store.used(owner))
	}
	return n
}

// serve does what a request asks for. If it is busy, it may return the frame that must be back first.
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
		s.remember(ending{l.at, l.begun})
		s.end(q.owner)
	}
	return statusOK, nil, nil
}

// reply answers a request, with a page or without. An answer that cannot be sent is lost: the client asks again.
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
			panic(err) // it was made here
		}
		s.sent(uint64(i))
	}
}

// sent frees an answer that has left.
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
