package netmem

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
)

// ServerConfig configures a Server.
type ServerConfig struct {
	// Bytes is how much memory the server lends: a multiple of 8 KiB.
	Bytes int

	// QuotaBytes is how much of it one client may have; zero: all.
	QuotaBytes int

	// Admit says which clients may use the server, by the names by which the fabric knows them; nil: all.
	Admit func(client weft.Name) bool
}

// ServerStats is what a server has and has done.
type ServerStats struct {
	Bytes, UsedBytes, Pages int
	PageOuts, PageIns       uint64 // that were answered with success
	Discards                uint64
	Full, Refused, Damaged  uint64 // requests that failed so
	Strangers               uint64 // requests of processes whose names were not known here
	CopiedBytes             uint64 // of pages: those that were received into two buffers, or share one with another
	PacketsIn, PacketsOut   uint64
}

// Server lends memory to the clients of the fabric. The pages of a client are its own: no other can read them.
type Server struct {
	cfg     ServerConfig
	port    *port
	epoch   uint64
	store   *store
	stats   ServerStats
	answers []*answer // by cookie
	free    []int
}

// answer is one that is being sent.
type answer struct {
	header [recordLen]byte
	frame  *frame
}

// Serve makes a process a page server. It serves until Close, or until the process ends.
func Serve(p *weft.Process, cfg ServerConfig) (*Server, error) {
	if cfg.Bytes <= 0 || cfg.Bytes%hsn.MaxPage != 0 {
		return nil, fmt.Errorf("netmem: a server of %d bytes; expected a multiple of %d", cfg.Bytes, hsn.MaxPage)
	}
	pages := cfg.Bytes / hsn.MaxPage
	o, err := newPort(p, hsn.MaxPage, pages+serverSpare)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, port: o, epoch: uint64(p.Now().UnixNano())<<8 ^ uint64(p.Address().Generation), store: newStore(o.pool, pages)}
	err = o.begin(hsn.MaxPage, hsn.Server, hsn.Module{Receive: s.receive, Sent: s.sent})
	return s, err
}

// serverSpare is how many pages a server has beside those that it lends: requests that it looks at, and what is being sent and has
// been replaced meanwhile.
const serverSpare = 64

// Close ends the server. Its pages are lost.
func (s *Server) Close() { s.port.close() }

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
	st.Bytes, st.UsedBytes, st.Pages = s.cfg.Bytes, s.cfg.Bytes-s.store.room(), len(s.store.pages)
	st.CopiedBytes, st.PacketsIn, st.PacketsOut = c.CopiedBytes+s.store.copied, c.PacketsIn, c.PacketsOut
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
	var page *stored
	r.status, page = s.serve(owner, &r, &m)
	s.port.driver.Free(&m)
	switch r.status {
	case statusFull, statusQuota:
		s.stats.Full++
	case statusRefused:
		s.stats.Refused++
	case statusBad:
		s.stats.Damaged++
	}
	r.epoch, r.room = s.epoch, uint64(max(s.store.room(), 0))
	s.reply(m.From, &r, page)
}

// serve does what a request asks for.
func (s *Server) serve(owner weft.Name, r *record, m *hsn.Message) (status, *stored) {
	key := pageKey{owner, r.volume, r.page}
	switch {
	case s.cfg.Admit != nil && !s.cfg.Admit(owner):
		return statusRefused, nil
	case r.op != opOpen && r.epoch != s.epoch:
		return statusEpoch, nil
	}
	switch r.op {
	case opPageOut:
		if crc32.Checksum(m.Data, castagnoli) != r.crc {
			return statusBad, nil
		}
		v, st := s.store.put(s.port.driver, key, r.version, r.crc, s.cfg.QuotaBytes, m)
		if r.version = v; st == statusOK {
			s.stats.PageOuts++
		}
		return st, nil
	case opPageIn:
		p := s.store.get(key)
		if p == nil {
			return statusMissing, nil
		}
		r.version, r.crc, r.size = p.version, p.crc, uint32(len(p.data))
		s.stats.PageIns++
		return statusOK, p
	case opDiscard:
		s.store.discard(key, r.version)
		s.stats.Discards++
	}
	return statusOK, nil
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
		s.store.unpin(f)
		s.answers[cookie].frame = nil
	}
	s.free = append(s.free, int(cookie))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
